"""What a recorded request says, on whichever wire: the top-level text, the history, the tools and their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses
from pydantic import BaseModel, TypeAdapter
from tests.wire.clients import WireName


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool as a request declares it."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gave back; `failed` is None where the wire has no flag for it."""

    text: str
    failed: bool | None = None


class Reading(ABC):
    """The requests of one wire."""

    @abstractmethod
    def system(self, body: Any) -> str:
        """The top-level text."""

    @abstractmethod
    def history(self, body: Any) -> list[Any]:
        """What was said, in the order it was said."""

    @abstractmethod
    def tools(self, body: Any) -> list[Declared]:
        """The tools."""

    @abstractmethod
    def results(self, body: Any) -> list[Result]:
        """All results of tools in the history."""

    @abstractmethod
    def typed(self, body: Any) -> Any:
        """The body as the types of the provider's library read it: the same, if it is what they describe."""


class OpenAiChat(Reading):
    """Chat Completions: the top-level text is the messages before the first that is not of the system."""

    def system(self, body: Any) -> str:
        messages = body["messages"]
        assert all(message["role"] != "system" for message in self.history(body)), "the system speaks in the middle"
        return "\n\n".join(message["content"] for message in messages[: len(messages) - len(self.history(body))])

    def history(self, body: Any) -> list[Any]:
        messages: list[Any] = body["messages"]
        first = next(number for number, message in enumerate(messages) if message["role"] != "system")
        return messages[first:]

    def tools(self, body: Any) -> list[Declared]:
        return [_declared(tool["function"], "parameters") for tool in body["tools"]]

    def results(self, body: Any) -> list[Result]:
        return [Result(message["content"]) for message in self.history(body) if message["role"] == "tool"]

    def typed(self, body: Any) -> Any:
        streaming, whole = chat.CompletionCreateParamsStreaming, chat.CompletionCreateParamsNonStreaming
        return _read(streaming if body.get("stream") else whole, body)


class OpenAiResponses(Reading):
    """Responses: the top-level text is a field of its own."""

    def system(self, body: Any) -> str:
        return str(body["instructions"])

    def history(self, body: Any) -> list[Any]:
        items: list[Any] = body["input"]
        return items

    def tools(self, body: Any) -> list[Declared]:
        return [_declared(tool, "parameters") for tool in body["tools"]]

    def results(self, body: Any) -> list[Result]:
        return [Result(item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]

    def typed(self, body: Any) -> Any:
        streaming, whole = responses.ResponseCreateParamsStreaming, responses.ResponseCreateParamsNonStreaming
        return _read(streaming if body.get("stream") else whole, body)


class Anthropic(Reading):
    """Messages: the top-level text is a text or blocks of it."""

    def system(self, body: Any) -> str:
        return _text(body["system"], "\n\n")

    def history(self, body: Any) -> list[Any]:
        messages: list[Any] = body["messages"]
        return messages

    def tools(self, body: Any) -> list[Declared]:
        return [_declared(tool, "input_schema") for tool in body["tools"]]

    def results(self, body: Any) -> list[Result]:
        blocks = (block for message in body["messages"] for block in _blocks(message["content"]))
        return [
            Result(_text(block["content"]), block.get("is_error", False))
            for block in blocks
            if block["type"] == "tool_result"
        ]

    def typed(self, body: Any) -> Any:
        # Large: whoever only collects the tests does not pay for it.
        from anthropic.types import message_create_params as anthropic

        streaming, whole = anthropic.MessageCreateParamsStreaming, anthropic.MessageCreateParamsNonStreaming
        return _read(streaming if body.get("stream") else whole, body)


class Gemini(Reading):
    """generateContent: a failed result has an error where others have an output."""

    def system(self, body: Any) -> str:
        return "\n\n".join(part["text"] for part in body["systemInstruction"]["parts"])

    def history(self, body: Any) -> list[Any]:
        contents: list[Any] = body["contents"]
        return contents

    def tools(self, body: Any) -> list[Declared]:
        return [
            # The library writes this one field as Python does; the service reads both.
            _declared(declared, "parameters_json_schema")
            for tool in body["tools"]
            for declared in tool["functionDeclarations"]
        ]

    def results(self, body: Any) -> list[Result]:
        parts = (part for content in body["contents"] for part in content["parts"])
        found = (part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
        return [Result(str(next(iter(response.values()))), "error" in response) for response in found]

    def typed(self, body: Any) -> Any:
        from google.genai import types as gemini

        # Google's library has types for the parts of a request and none for the whole; these take no field they do not
        # know, by either of its names.
        kinds: dict[str, type[BaseModel]] = {
            "contents": gemini.Content,
            "systemInstruction": gemini.Content,
            "tools": gemini.Tool,
            "toolConfig": gemini.ToolConfig,
            "generationConfig": gemini.GenerationConfig,
        }
        for key, value in body.items():
            for one in value if isinstance(value, list) else [value]:
                kinds[key].model_validate(one)
        return body


READINGS: Mapping[WireName, Reading] = {
    "openai": OpenAiChat(),
    "openai-responses": OpenAiResponses(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
}


def strings(value: Any) -> Iterator[str]:
    """Every text in a body, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def _declared(tool: dict[str, Any], schema: str) -> Declared:
    return Declared(tool["name"], tool["description"], tool[schema])


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _text(content: Any, between: str = "") -> str:
    return between.join(block["text"] for block in _blocks(content))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read(kind: Any, body: Any) -> Any:
    """A body read as a type; what the type does not know is left out of it."""
    return _whole(_adapter(kind).validate_python(body))


def _whole(value: Any) -> Any:
    # An Iterable in a type is checked only as it is read.
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_whole(inner) for inner in value]
    return value
