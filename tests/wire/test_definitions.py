"""The tools and texts of every dialect, as every provider gets them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, get_args

import anyio
import pytest
from tests.wire.clients import WIRES, WireName, raw_client
from tests.wire.clients import library as provider
from tests.wire.conversation import Sent, sent
from tests.wire.reading import strings
from tests.wire.script import BODIES, GREETING, RULES, SKILLS
from tests.wire.server import Recorder

from metier import Library
from metier.dialect import CONTROL_TOOLS, DialectName, Kit, Skills, definitions

BUILTIN = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
PORTABLE = {"type", "description", "properties", "required", "additionalProperties", "items", "enum", "minimum"}
"""What all four services document for the schemas of tools."""
OF_FUNCTIONS = {*PORTABLE, "default"}
"""What the schemas that are made of Python functions have beside it, and the services pass over."""


def say_hello(recorder: Recorder, wire: WireName, kit: Kit) -> Sent:
    """What is sent at the beginning of a conversation."""

    async def ask() -> None:
        async with provider(wire, recorder.url) as client:
            raw = raw_client(wire, client)
            tools = definitions(kit.tools, raw.provider)
            await raw.ask(f"{RULES}\n\n{kit.instructions()}", [raw.question(GREETING)], tools, streamed=False)

    recorder.begin()
    anyio.run(ask)
    (only,) = sent(recorder, wire)
    return only


@pytest.fixture(
    scope="session",
    params=[
        pytest.param((wire, dialect), marks=[] if (one + other) % 2 == 0 else [pytest.mark.slow])
        for (one, wire), (other, dialect) in product(enumerate(WIRES), enumerate(get_args(DialectName)))
    ],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def greeting(request: pytest.FixtureRequest, recording: Recorder, library: Library) -> tuple[Kit, Sent]:
    """A first request with all tools of a dialect, and what they are made of."""
    wire, dialect = request.param
    kit = Skills(library, dialect=dialect, builtin=BUILTIN).kit()
    return kit, say_hello(recording, wire, kit)


def schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema and all that are in it."""
    yield schema
    for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from schemas(inner)


@pytest.mark.covers("G-34")
def test_a_provider_gets_every_tool_as_it_is(greeting: tuple[Kit, Sent]) -> None:
    kit, request = greeting
    declared = [(tool.name, tool.description, tool.parameters) for tool in request.tools]
    assert declared == [(tool.name, tool.description, tool.parameters) for tool in kit.tools]
    assert request.typed == request.body


@pytest.mark.covers("G-34")
def test_names_are_ones_that_every_provider_takes(greeting: tuple[Kit, Sent]) -> None:
    names = [tool.name for tool in greeting[1].tools]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-zA-Z][a-zA-Z0-9_]{0,63}", name) for name in names)


@pytest.mark.covers("G-34")
def test_every_tool_and_every_argument_is_described(greeting: tuple[Kit, Sent]) -> None:
    for tool in greeting[1].tools:
        assert tool.description.strip()
        assert all(argument["description"].strip() for argument in tool.parameters["properties"].values())


@pytest.mark.covers("G-34")
def test_schemas_have_only_what_every_provider_knows(greeting: tuple[Kit, Sent]) -> None:
    for tool in greeting[1].tools:
        is_control = tool.name in CONTROL_TOOLS
        assert tool.parameters["type"] == "object"
        for schema in schemas(tool.parameters):
            assert set(schema) <= (PORTABLE if is_control else OF_FUNCTIONS)
            assert isinstance(schema["type"], str) or (schema["type"][1:] == ["null"] and not is_control)


@pytest.mark.covers("G-31")
def test_each_skill_is_described_once_in_a_request(greeting: tuple[Kit, Sent]) -> None:
    texts = list(strings(greeting[1].body))
    for files in SKILLS.values():
        described = re.search("description: (.*)", files["SKILL.md"])
        assert described is not None
        assert sum(text.count(described[1]) for text in texts) == 1


@pytest.mark.covers("G-34")
def test_texts_name_only_tools_that_are_there(greeting: tuple[Kit, Sent]) -> None:
    _, request = greeting
    named = {word for text in strings(request.body) for word in re.findall(r"`(\w+)`", text)}
    assert named & CONTROL_TOOLS <= {tool.name for tool in request.tools}


@pytest.mark.covers("G-41")
@pytest.mark.parametrize("wire", WIRES)
def test_active_skills_are_sent_in_the_order_they_were_loaded(
    recorder: Recorder, library: Library, wire: WireName
) -> None:
    kit = Skills(library, delivery="instructions").kit()
    for name in ("letters", "forms"):
        kit.session.load([name], "add")
    system = say_hello(recorder, wire, kit).system
    assert system.index("the one that was loaded last counts") < system.index(BODIES["letters"])
    assert system.index(BODIES["letters"]) < system.index(BODIES["forms"])
