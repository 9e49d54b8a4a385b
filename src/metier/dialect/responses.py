"""Responses of providers: the tools that the model called, the model, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.dialect.providers import Provider


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a model."""

    id: str
    name: str
    arguments: Any
    is_made: bool = False
    """Whether the provider has made it on its own side."""


def calls_of(response: Any, provider: Provider) -> list[Call]:
    """The tool calls of a response: what the provider's client returned, or the message in it, as object or as JSON.

    >>> use = {"type": "tool_use", "id": "1", "name": "skills_load", "input": {"skills": ["greet"]}}
    >>> [call.name for call in calls_of({"role": "assistant", "content": [use]}, "anthropic")]
    ['skills_load']
    """
    try:
        return list(READERS[provider](_as_json(response)))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"That is no response of {provider}: {type(error).__name__}.", hint="Pass what its client returned."
        ) from None


_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "thoughts_token_count")
"""The tokens that an answer has, as each provider calls them."""


def origin_of(response: Any) -> tuple[str, int, int]:
    """The model that gave a response, how many tokens it took and how many it has, where it says so."""
    found = _as_json(response)
    if not isinstance(found, Mapping):
        return "", 0, 0
    used = found.get("usage") or found.get("usage_metadata")
    used = used if isinstance(used, Mapping) else {}
    total = _count(used.get("total_tokens")) or _count(used.get("total_token_count"))
    output = sum(_count(used.get(name)) for name in _OUTPUT)
    tokens = total or _count(used.get("input_tokens")) + output
    return str(found.get("model") or found.get("model_version") or ""), tokens, output


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _as_json(value: Any) -> Any:
    """The response of a provider's client, as JSON holds it."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return [_as_json(one) for one in value] if isinstance(value, list | tuple) else value


def _openai(found: Any) -> Iterator[Call]:
    message = found["choices"][0]["message"] if "choices" in found else found
    for call in message.get("tool_calls") or ():
        if call.get("type") == "custom":
            yield _call(call["id"], call["custom"]["name"], {"input": call["custom"]["input"]})
        else:
            yield _call(call["id"], call["function"]["name"], call["function"]["arguments"])


_FOR_THE_PROGRAM = frozenset(
    {"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "custom_tool_call", "tool_search_call"}
)
"""Calls that the program carries out in its own way, without tools of this kit, and one that only finds tools."""
_OF_A_CALL = frozenset({"id", "type", "status", "call_id", "output", "results", "outputs", "error", "result"})


def _responses(found: Any) -> Iterator[Call]:
    for item in found["output"] if isinstance(found, Mapping) else found:
        kind = item["type"]
        if kind == "function_call":
            yield _call(item["call_id"], item["name"], item["arguments"])
        elif kind == "mcp_call":
            yield _call(item.get("id"), f"mcp__{item['server_label']}__{item['name']}", item["arguments"], is_made=True)
        elif kind.endswith("_call") and kind not in _FOR_THE_PROGRAM:
            given = {name: value for name, value in item.items() if name not in _OF_A_CALL and value is not None}
            yield _call(item.get("id"), kind.removesuffix("_call"), given, is_made=True)


def _anthropic(found: Any) -> Iterator[Call]:
    blocks = found["content"] if isinstance(found, Mapping) else found
    for block in () if isinstance(blocks, str) else blocks:
        if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
            yield _call(block["id"], block["name"], block["input"], is_made=block["type"] != "tool_use")


def _gemini(found: Any) -> Iterator[Call]:
    if "candidates" in found or "prompt_feedback" in found or "promptFeedback" in found:
        # Without any candidate, or with an empty one: the answer was withheld.
        found = (found.get("candidates") or [{}])[0].get("content") or {}
    for part in found.get("parts") or ():
        call = part.get("function_call") or part.get("functionCall")
        code = part.get("executable_code") or part.get("executableCode")
        if call:
            yield _call(call.get("id"), call["name"], call.get("args"))
        elif code:
            yield _call("", "code_execution", dict(code), is_made=True)


def _call(id_: Any, name: Any, arguments: Any, *, is_made: bool = False) -> Call:
    return Call(str(id_ or ""), str(name), arguments, is_made)


READERS: dict[str, Callable[[Any], Iterator[Call]]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""The reader of each provider's responses."""
