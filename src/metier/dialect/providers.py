"""Tool definitions and results in the shape of each provider's API."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.errors import InvalidArgument
from metier.session import escape_tags
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.tools import Tool

Provider: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp"]
PROVIDERS: tuple[Provider, ...] = ("openai", "openai-responses", "anthropic", "gemini", "mcp")


def definitions(tools: Iterable[Tool], provider: Provider) -> list[dict[str, Any]]:
    """The tools as a provider's API takes them, for its `tools` parameter.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> definitions(library.session().tools(), "anthropic")[0]["name"]
    'skills_load'
    """
    if provider not in PROVIDERS:
        raise InvalidArgument(f"There is no provider {provider!r}.", hint=f"Providers are {', '.join(PROVIDERS)}.")
    written = [_definition(tool, provider) for tool in tools]
    if provider == "gemini":
        return [{"function_declarations": written}] if written else []
    return written


def _definition(tool: Tool, provider: Provider) -> dict[str, Any]:
    # A copy: what a host does to its request must not change the schema that arguments are checked against.
    parameters = copy.deepcopy(dict(tool.parameters))
    named: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if provider == "openai":
        return {"type": "function", "function": {**named, "parameters": parameters}}
    if provider == "openai-responses":
        # Not strict: there, every property would have to be required.
        return {"type": "function", **named, "parameters": parameters, "strict": False}
    if provider == "anthropic":
        return {**named, "input_schema": parameters}
    if provider == "gemini":
        return {**named, "parameters_json_schema": parameters}
    return {**named, "inputSchema": parameters}


def as_text(result: ToolResult) -> str:
    """A result as the text that a model reads; a failure says what happened and what to do.

    >>> from metier.tools import ToolResult
    >>> as_text(ToolResult.failure("file-missing", "There is no notes.md.", hint="List the files."))
    'Error [file-missing]: There is no notes.md. List the files.'
    """
    value = result.result
    body = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    if result.success:
        return body
    # An error may quote what a skill says of itself, such as the names of its files.
    said = escape_tags(" ".join(part for part in (result.error, result.hint) if part))
    problem = f"Error [{result.code or 'failed'}]: {said}"
    return f"{problem}\n{body}" if body else problem


def answer(result: ToolResult, provider: Provider, call_id: str, name: str = "") -> dict[str, Any]:
    """A result as the message, item, block or part that goes back to a provider."""
    if not isinstance(result, ToolResult):
        raise InvalidArgument("An answer is made of a ToolResult.", hint="Pass what the executor returned.")
    text = as_text(result)
    if provider == "openai":
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    if provider == "openai-responses":
        return {"type": "function_call_output", "call_id": call_id, "output": text}
    if provider == "anthropic":
        return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": not result.success}
    if provider == "gemini":
        if not name:
            raise InvalidArgument("Gemini takes an answer by the tool's name.", hint="Pass name=.")
        response = {"output": text} if result.success else {"error": text}
        return {"function_response": {"id": call_id, "name": name, "response": response}}
    if provider == "mcp":
        return {"content": [{"type": "text", "text": text}], "isError": not result.success}
    raise InvalidArgument(f"There is no provider {provider!r}.", hint=f"Providers are {', '.join(PROVIDERS)}.")
