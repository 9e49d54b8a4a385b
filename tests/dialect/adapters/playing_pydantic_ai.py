"""The play in pydantic-ai, with its own FunctionModel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import mcp
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema
from tests.dialect.adapters.stage import Performer, Request, Script

from metier.dialect.pydantic_ai import Skills


class PydanticAI(Performer):
    """Agent, FunctionModel, capability."""

    name = "pydantic-ai"

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
        self._histories: dict[str, list[ModelMessage]] = {}
        self.skills = Skills(folder, models={"big": scripted(script, "big")}, **options)
        self.agent = Agent(
            scripted(script, "own"),
            tools=list(tools),
            toolsets=[Tickets(tickets.server)] if tickets else [],
            capabilities=[self.skills],
            instructions="You are an agent.",
        )

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn."""
        given: dict[str, Any] = {
            "message_history": self._histories.get(conversation),
            "conversation_id": conversation,
        }
        if self._streamed:
            async with self.agent.run_stream(text, **given) as streamed:
                output = "".join([part async for part in streamed.stream_text(delta=True)])
                self._histories[conversation] = streamed.all_messages()
            return output
        done = await self.agent.run(text, **given)
        self._histories[conversation] = done.all_messages()
        return str(done.output)


def scripted(script: Script, model: str) -> FunctionModel:
    """A model that takes the steps of a script."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls, text = script.take(asked(messages, info, model))
        return ModelResponse(parts=[ToolCallPart(call.tool, call.json) for call in calls] or [TextPart(text)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        calls, text = script.take(asked(messages, info, model))
        for index, call in enumerate(calls):
            yield {index: DeltaToolCall(name=call.tool, json_args=call.json, tool_call_id=f"call-{index}")}
        for word in text.split(" ") if text else ():
            yield word + " "

    return FunctionModel(answer, stream_function=stream, model_name=model)


def asked(messages: list[ModelMessage], info: AgentInfo, model: str) -> Request:
    """What the model was asked."""
    said = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                said.append(("user", str(part.content)))
            elif isinstance(part, TextPart):
                said.append(("assistant", part.content))
            elif isinstance(part, ToolCallPart):
                said.append(("call", f"{part.tool_name} {part.args_as_json_str()}"))
            elif isinstance(part, ToolReturnPart | RetryPromptPart):
                said.append(("tool", str(part.content)))
    return Request(
        system=info.instructions or "",
        messages=tuple(said),
        tools={tool.name: f"{tool.description} {tool.parameters_json_schema}" for tool in info.function_tools},
        model=model,
    )


class Tickets(AbstractToolset[Any]):
    """The tools of an MCP server in this process, by the official client."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def id(self) -> str:
        return "tickets"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        async with mcp.Client(self._server) as client:
            listed = await client.list_tools()
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema
                ),
                max_retries=1,
                args_validator=SchemaValidator(schema=core_schema.any_schema()),
            )
            for tool in listed.tools
        }

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: Any) -> Any:
        async with mcp.Client(self._server) as client:
            done = await client.call_tool(name, tool_args)
        return getattr(done.content[0], "text", "")
