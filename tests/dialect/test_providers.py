"""Definitions and results, checked against the types that the providers' own libraries have for them."""

from __future__ import annotations

import copy
import json
import pkgutil
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest

from metier import Session
from metier.dialect import PROVIDERS, DialectName, Provider, answer, as_text, definitions
from metier.errors import InvalidArgument
from metier.tools import FunctionTool, Tool, ToolResult

BUILT_IN = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]


def fits(name: str, value: dict[str, Any]) -> None:
    """Fails unless a value is of the kind that has a name, without a key that the kind does not know."""
    # Imported here, as each of these libraries takes a second to load.
    from pydantic import BaseModel, TypeAdapter

    kind: Any = pkgutil.resolve_name(name)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        kind.model_validate(value)
        known = {name for key, field in kind.model_fields.items() for name in (key, field.alias)}
    else:
        TypeAdapter(kind).validate_python(value, strict=True)
        known = set(get_type_hints(kind))
    assert set(value) <= known


@pytest.fixture(params=get_args(DialectName))
def tools(request: pytest.FixtureRequest, session: Session) -> list[Tool]:
    """The tools of each dialect, with an agent's own and those that are built in."""

    def weather(city: str, days: list[int] | None = None) -> str:
        """Tell the weather.

        Args:
            city: Where.
            days: Which days.
        """
        return f"{city}: {days}"

    return list(session.executor([FunctionTool(weather)], dialect=request.param, builtin=BUILT_IN).registry)


def test_openai_chat_takes_the_definitions(tools: list[Tool]) -> None:
    for definition in definitions(tools, "openai"):
        fits("openai.types.chat:ChatCompletionFunctionToolParam", definition)
        fits("openai.types.shared_params:FunctionDefinition", definition["function"])


def test_openai_responses_takes_the_definitions(tools: list[Tool]) -> None:
    for definition in definitions(tools, "openai-responses"):
        fits("openai.types.responses:FunctionToolParam", definition)


def test_anthropic_takes_the_definitions(tools: list[Tool]) -> None:
    for definition in definitions(tools, "anthropic"):
        fits("anthropic.types:ToolParam", definition)
        assert definition["input_schema"]["type"] == "object"


@pytest.mark.slow
def test_gemini_takes_the_definitions(tools: list[Tool]) -> None:
    (group,) = definitions(tools, "gemini")
    fits("google.genai.types:Tool", group)
    assert len(group["function_declarations"]) == len(tools)
    for definition in group["function_declarations"]:
        fits("google.genai.types:FunctionDeclaration", definition)
    kind: Any = pkgutil.resolve_name("google.genai.types:Tool")
    read = kind.model_validate(group).function_declarations or []
    assert [one.parameters_json_schema for one in read] == [dict(tool.parameters) for tool in tools]


def test_mcp_takes_the_definitions(tools: list[Tool]) -> None:
    for definition, tool in zip(definitions(tools, "mcp"), tools, strict=True):
        fits("mcp.types:Tool", definition)
        kind: Any = pkgutil.resolve_name("mcp.types:Tool")
        assert kind.model_validate(definition).input_schema == tool.parameters


@pytest.mark.each("provider", PROVIDERS)
def test_a_definition_has_name_description_and_schema(tools: list[Tool], provider: Provider) -> None:
    text = json.dumps(definitions(tools, provider), ensure_ascii=False)
    for tool in tools:
        for part in (tool.name, tool.description, dict(tool.parameters)):
            assert json.dumps(part, ensure_ascii=False) in text


@pytest.mark.each("provider", PROVIDERS)
def test_what_a_host_does_to_a_definition_does_not_reach_the_tool(tools: list[Tool], provider: Provider) -> None:
    before = copy.deepcopy([dict(tool.parameters) for tool in tools])

    def spoil(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            spoil(inner)
        if isinstance(value, dict | list):
            value.clear()

    spoil(definitions(tools, provider))
    assert [dict(tool.parameters) for tool in tools] == before


@pytest.mark.each("provider", PROVIDERS)
def test_without_tools_there_are_no_definitions(provider: Provider) -> None:
    assert definitions([], provider) == []


RESULTS = {
    "text": ToolResult(success=True, result="Sunny."),
    "nothing": ToolResult(success=True),
    "value": ToolResult(success=True, result={"sky": ["clear", None, 1.5], "wörd": True}),
    "failure": ToolResult.failure("file-missing", "There is no a.md.", hint="List the files."),
    "failure with a result": ToolResult(success=False, result={"stderr": "x"}, error="It failed.", code="exit-code"),
}
ANSWERS: dict[Provider, Callable[[dict[str, Any]], None]] = {
    "openai": lambda found: fits("openai.types.chat:ChatCompletionToolMessageParam", found),
    "openai-responses": lambda found: fits("openai.types.responses.response_input_param:FunctionCallOutput", found),
    "anthropic": lambda found: fits("anthropic.types:ToolResultBlockParam", found),
    "gemini": lambda found: fits("google.genai.types:Part", found),
    "mcp": lambda found: fits("mcp.types:CallToolResult", found),
}


@pytest.mark.each("result", RESULTS.values())
@pytest.mark.each("provider", PROVIDERS)
def test_a_provider_takes_the_answer(provider: Provider, result: ToolResult) -> None:
    found = answer(result, provider, "call-1", "weather")
    ANSWERS[provider](found)
    assert as_text(result) in _strings(found)
    assert provider == "mcp" or "call-1" in _strings(found)


@pytest.mark.each("result", RESULTS.values())
def test_a_failure_is_marked_where_a_provider_has_a_mark(result: ToolResult) -> None:
    assert answer(result, "anthropic", "1")["is_error"] is not result.success
    assert answer(result, "mcp", "1")["isError"] is not result.success
    (key,) = answer(result, "gemini", "1", "weather")["function_response"]["response"]
    assert key == ("output" if result.success else "error")


def test_parts_of_an_answer_fit_their_types() -> None:
    part = answer(RESULTS["text"], "gemini", "1", "weather")
    fits("google.genai.types:FunctionResponse", part["function_response"])
    fits("mcp.types:TextContent", answer(RESULTS["text"], "mcp", "1")["content"][0])


def test_gemini_needs_the_name_of_the_tool() -> None:
    with pytest.raises(InvalidArgument, match="name"):
        answer(RESULTS["text"], "gemini", "call-1")


@pytest.mark.each("provider", ["", "OpenAI", "acme"])
def test_an_unknown_provider_is_refused(provider: Any) -> None:
    with pytest.raises(InvalidArgument, match="no provider"):
        definitions([], provider)
    with pytest.raises(InvalidArgument, match="no provider"):
        answer(RESULTS["text"], provider, "call-1")


@pytest.mark.each(
    ("result", "text"),
    [
        (RESULTS["text"], "Sunny."),
        (RESULTS["nothing"], ""),
        (ToolResult(success=True, result=[1, "ü"]), '[1, "ü"]'),
        (ToolResult(success=True, result=False), "false"),
        (ToolResult(success=True, result=0), "0"),
        (RESULTS["failure"], "Error [file-missing]: There is no a.md. List the files."),
        (RESULTS["failure with a result"], 'Error [exit-code]: It failed.\n{"stderr": "x"}'),
        (ToolResult(success=False), "Error [failed]: "),
    ],
)
def test_a_result_is_text_that_says_what_to_do(result: ToolResult, text: str) -> None:
    assert as_text(result) == text


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _strings(one)]
