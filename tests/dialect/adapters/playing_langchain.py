"""The play in LangChain, sync and async, with a chat model that takes the steps of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from tests.dialect.adapters.stage import Performer, Request, Script

from metier.dialect.langchain import Skills


class LangChain(Performer):
    """create_agent with the middleware, asynchronously."""

    name = "langchain"

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
        self.skills = Skills(folder, models={"big": ScriptedChat(script=script, named="big")}, **options)
        self.agent: Any = create_agent(
            ScriptedChat(script=script, named="own"),
            [*tools, *([tickets_tool(tickets.server)] if tickets else [])],
            system_prompt="You are an agent.",
            middleware=[self.skills],
            checkpointer=InMemorySaver(),
        )

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn."""
        given = {"messages": [HumanMessage(text)]}
        config = {"configurable": {"thread_id": conversation}}
        if self._streamed:
            parts = []
            async for message, about in self.agent.astream(given, config, stream_mode="messages"):
                if about["langgraph_node"] == "model":
                    parts.append(message.text)
            return "".join(parts)
        return str((await self.agent.ainvoke(given, config))["messages"][-1].text)


class LangChainSync(LangChain):
    """The same without an event loop."""

    name = "langchain-sync"

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn, in a thread."""

        def turn() -> str:
            given = {"messages": [HumanMessage(text)]}
            config = {"configurable": {"thread_id": conversation}}
            if self._streamed:
                found = self.agent.stream(given, config, stream_mode="messages")
                return "".join(one.text for one, about in found if about["langgraph_node"] == "model")
            return str(self.agent.invoke(given, config)["messages"][-1].text)

        return await anyio.to_thread.run_sync(turn)


class ScriptedChat(BaseChatModel):
    """A chat model that takes the steps of a script."""

    script: Any
    named: str
    bound: Any = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self.model_copy(update={"bound": tuple(tools)})

    def _take(self, messages: list[BaseMessage]) -> AIMessage:
        calls, text = self.script.take(asked(messages, self.bound, self.named))
        return AIMessage(
            text,
            tool_calls=[
                {"name": call.tool, "args": call.arguments, "id": f"call-{len(messages)}-{index}", "type": "tool_call"}
                for index, call in enumerate(calls)
            ],
        )

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._take(messages))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        taken = self._take(messages)
        for word in taken.text.split(" ") if taken.text else ():
            yield ChatGenerationChunk(message=AIMessageChunk(content=word + " "))
        if taken.tool_calls:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=taken.tool_calls))


def asked(messages: list[BaseMessage], tools: Sequence[Any], model: str) -> Request:
    """What the model was asked."""
    said: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            said.append(("user", message.text))
        elif isinstance(message, AIMessage):
            said += [("call", f"{call['name']} {call['args']}") for call in message.tool_calls]
            said += [("assistant", message.text)] if message.text else []
        elif isinstance(message, ToolMessage):
            said.append(("tool", message.text))
    written = [convert_to_openai_tool(tool)["function"] for tool in tools]
    return Request(
        system="\n".join(message.text for message in messages if isinstance(message, SystemMessage)),
        messages=tuple(said),
        tools={tool["name"]: f"{tool['description']} {tool['parameters']}" for tool in written},
        model=model,
    )


def tickets_tool(server: Any) -> BaseTool:
    """A tool of an MCP server in this process, by the official client."""

    async def list_tickets(project: str) -> str:
        """List tickets."""
        async with mcp.Client(server) as client:
            done = await client.call_tool("list_tickets", {"project": project})
        return str(getattr(done.content[0], "text", ""))

    def blocking(project: str) -> str:
        """List tickets."""
        return anyio.run(list_tickets, project)

    return StructuredTool.from_function(blocking, coroutine=list_tickets, name="list_tickets")
