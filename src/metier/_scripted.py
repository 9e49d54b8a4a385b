"""`metier.testing.ScriptedModel`: a model for pydantic-ai that does what a script says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._extras import optional
from metier._lazy import dataclass

with optional("Scripted models", "pydantic-ai-slim", extra="agent"):
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""The call of a tool: its name and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a model: everything that it could know at this step."""

    model: str
    """The name of the model."""
    instructions: str
    messages: tuple[ModelMessage, ...]
    tools: tuple[str, ...]
    """The names of the tools that it was offered."""

    @property
    def told(self) -> tuple[str, ...]:
        """The text since its last answer: the user's words, and the results of its calls."""
        return _texts(self.messages[-1:])

    @property
    def text(self) -> str:
        """The whole text: instructions and messages."""
        return "\n".join((self.instructions, *_texts(self.messages)))


Step: TypeAlias = str | Call | Sequence[str | Call] | Exception | Callable[[ModelRequest], Any]
"""A step of a model: it says a text, calls a tool, both or several at once, fails, or decides by what it is asked."""


class ScriptedModel(FunctionModel):
    """A model that does what a script says, step by step, streamed or not, and keeps every request.

    >>> from pydantic_ai import Agent
    >>> from metier.dialect.pydantic_ai import Skills
    >>> from metier.testing import library
    >>> model = ScriptedModel([("skills_load", {"skills": ["greet"]}), "Hello!"])
    >>> agent = Agent(model, capabilities=[Skills(library("greet: Says hello."))])
    >>> import anyio
    >>> anyio.run(agent.run, "Greet me.").output
    'Hello!'
    >>> "Says hello." in model.requests[0].instructions, "Do greet." in model.requests[1].told[0]
    (True, True)
    """

    def __init__(self, steps: Sequence[Step], *, name: str = "scripted") -> None:
        self._script: _Script = _Script(list(steps))
        super().__init__(self._answer, stream_function=self._stream, model_name=name)

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests to it, and to every model that plays the same script."""
        return self._script.requests

    @property
    def left(self) -> int:
        """The number of steps that were not played."""
        return len(self._script.steps)

    def named(self, name: str) -> ScriptedModel:
        """Another model that goes on with the same script, for skills and agents that switch models."""
        other = ScriptedModel((), name=name)
        other._script = self._script
        return other

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = self._script.play(self._request(messages, info))
        return ModelResponse(
            parts=[TextPart(part) if isinstance(part, str) else ToolCallPart(part[0], dict(part[1])) for part in parts]
        )

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for index, part in enumerate(self._script.play(self._request(messages, info))):
            if isinstance(part, str):
                # At least one piece, also of nothing: a stream must not be empty.
                for piece in part.splitlines(keepends=True) if "\n" in part else _words(part):
                    yield piece
            else:
                yield {index: DeltaToolCall(name=part[0], json_args=json.dumps(dict(part[1])))}

    def _request(self, messages: list[ModelMessage], info: AgentInfo) -> ModelRequest:
        return ModelRequest(
            model=self.model_name,
            instructions=info.instructions or "",
            messages=tuple(messages),
            tools=tuple(tool.name for tool in info.function_tools),
        )


class _Script:
    """The steps that are left, and what was asked so far."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.requests: list[ModelRequest] = []

    def play(self, request: ModelRequest) -> list[str | Call]:
        self.requests.append(request)
        assert self.steps, f"The script has ended; the model was asked once more, and told {request.told}."
        step = self.steps.pop(0)
        if callable(step):
            step = step(request)
        if isinstance(step, Exception):
            raise step
        return [step] if isinstance(step, str | tuple) else list(step)


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + words[-1:]


def _texts(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The text of messages: of requests what was told, of answers what was said and called."""
    found = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                found.append(f"{part.tool_name}({part.args_as_json_str()})")
            elif (content := getattr(part, "content", None)) is not None:
                found.append(content if isinstance(content, str) else json.dumps(content, default=str))
    return tuple(found)
