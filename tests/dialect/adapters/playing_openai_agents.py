"""The play in the OpenAI Agents SDK, with its own ScriptedModel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, Runner, SQLiteSession, function_tool
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ModelCall, ModelStep, ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from tests.dialect.adapters.stage import Performer, Request, Script

from metier.dialect.openai_agents import Skills


class OpenAIAgents(Performer):
    """Agent, Runner, ScriptedModel."""

    name = "openai-agents"

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
        self._tickets = tickets
        self._histories: dict[str, SQLiteSession] = {}
        self.skills = Skills(folder, models={"big": scripted(script, "big")}, **options)
        self.agent: Agent[Any] = Agent(
            name="assistant",
            model=scripted(script, "own"),
            instructions="You are an agent.",
            tools=[function_tool(tool) for tool in tools],
        )

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn."""
        agent = self.skills.equip(self.agent, conversation=conversation)
        if self._tickets is None:
            return await self._turn(agent, text, conversation)
        async with MCPServerStreamableHttp({"url": self._tickets.url}) as server:
            return await self._turn(agent.clone(mcp_servers=[server]), text, conversation)

    def key(self, conversation: str) -> str:
        """With the agent's name."""
        return f"{conversation}|assistant"

    def _history(self, conversation: str) -> SQLiteSession:
        if conversation not in self._histories:
            self._histories[conversation] = made = SQLiteSession(conversation)
            weakref.finalize(self, made.close)
        return self._histories[conversation]

    async def _turn(self, agent: Agent[Any], text: str, conversation: str) -> str:
        history = self._history(conversation)
        if not self._streamed:
            return str((await Runner.run(agent, text, session=history, max_turns=40)).final_output)
        run = Runner.run_streamed(agent, text, session=history)
        parts = [
            event.data.delta
            async for event in run.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        return "".join(parts)


def scripted(script: Script, model: str) -> ScriptedModel:
    """A model that takes the steps of a script."""

    def respond(call: ModelCall) -> ModelStep:
        calls, text = script.take(asked(call, model))
        made: list[Any] = [
            ResponseFunctionToolCall(
                call_id=f"call-{len(script.requests)}-{index}", name=one.tool, arguments=one.json, type="function_call"
            )
            for index, one in enumerate(calls)
        ]
        if text:
            part = ResponseOutputText(text=text, type="output_text", annotations=[])
            made.append(
                ResponseOutputMessage(
                    id="message", content=[part], role="assistant", status="completed", type="message"
                )
            )
        return ModelStep(output=made)

    return ScriptedModel([ModelStep.respond(respond) for _ in range(60)])


def asked(call: ModelCall, model: str) -> Request:
    """What the model was asked."""
    said: list[tuple[str, str]] = []
    items: Any = [{"role": "user", "content": call.input}] if isinstance(call.input, str) else call.input
    for item in items:
        if item.get("type") == "function_call":
            said.append(("call", f"{item['name']} {item['arguments']}"))
        elif item.get("type") == "function_call_output":
            said.append(("tool", str(item["output"])))
        elif item.get("role") == "user":
            said.append(("user", str(item["content"])))
        elif item.get("role") == "assistant":
            said.append(("assistant", "".join(part["text"] for part in item["content"])))
    return Request(
        system=call.system_instructions or "",
        messages=tuple(said),
        tools={tool.name: f"{tool.description} {tool.params_json_schema}" for tool in call.tools},  # type: ignore[union-attr]
        model=model,
    )
