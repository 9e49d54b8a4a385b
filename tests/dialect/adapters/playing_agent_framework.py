"""The play in Microsoft's Agent Framework, with a chat client that takes the steps of a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    MCPStreamableHTTPTool,
    Message,
    ResponseStream,
)
from tests.dialect.adapters.stage import Performer, Request, Script

from metier.dialect.agent_framework import Skills


class AgentFramework(Performer):
    """Agent, context provider, scripted client."""

    name = "agent-framework"

    def __init__(
        self,
        folder: Path,
        script: Script,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        tickets: Any = None,
        streamed: bool = False,
        **options: Any,
    ) -> None:
        self._streamed = streamed
        self._sessions: dict[str, AgentSession] = {}
        self.skills = Skills(folder, models={"big": "big"}, **options)
        served = [MCPStreamableHTTPTool("tickets", tickets.url)] if tickets else []
        self.agent: Any = Agent(
            ScriptedClient(script),
            "You are an agent.",
            tools=[*tools, *served],
            context_providers=[self.skills],
        )

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn."""
        session = self._sessions.setdefault(conversation, AgentSession(session_id=conversation))
        async with self.agent:
            if not self._streamed:
                return str((await self.agent.run(text, session=session)).text)
            return "".join([update.text async for update in self.agent.run(text, session=session, stream=True)])


class ScriptedClient(
    FunctionInvocationLayer[Any],
    ChatMiddlewareLayer[Any],
    BaseChatClient[Any],
):
    """A chat client that takes the steps of a script."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        def contents() -> list[Content]:
            calls, text = self._script.take(asked(messages, options))
            made = [
                Content.from_function_call(f"call-{len(self._script.requests)}-{at}", one.tool, arguments=one.json)
                for at, one in enumerate(calls)
            ]
            words = text.split(" ") if stream else [text]
            return made or [Content.from_text(f"{word} ") for word in words]

        if not stream:

            async def whole() -> ChatResponse:
                return ChatResponse(messages=[Message("assistant", contents())])

            return whole()

        async def parts() -> AsyncIterator[ChatResponseUpdate]:
            for content in contents():
                yield ChatResponseUpdate(role="assistant", contents=[content])

        return ResponseStream(parts(), finalizer=ChatResponse.from_updates)


def asked(messages: Sequence[Message], options: Mapping[str, Any]) -> Request:
    """What the model was asked."""
    said: list[tuple[str, str]] = []
    for message in messages:
        for content in message.contents:
            if content.type == "function_call":
                said.append(("call", f"{content.name} {content.arguments}"))
            elif content.type == "function_result":
                said.append(("tool", str(content.result)))
            elif content.type == "text":
                said.append((str(message.role), content.text or ""))
    return Request(
        system=str(options.get("instructions", "")),
        messages=tuple(said),
        tools={tool.name: f"{tool.description} {tool.parameters()}" for tool in options.get("tools") or ()},
        model=str(options.get("model", "own")),
    )
