"""What every tool of every dialect is: a name, a description and a schema that every provider takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from metier import Library, Session
from metier.dialect import CONTROL_TOOLS, Dialect, DialectName, dialect
from metier.errors import InvalidArgument
from metier.tools import Tool

DIALECTS = get_args(DialectName)
BUILT_IN = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
ALL_NAMES = {
    "registry": {"list_skills", "read_skill", "read_skill_resource"},
    "tool": {"skill"},
    "runtime": {"skills_load", "skills_unload", "skills_read", "skills_run", "skills_search"},
    "sandbox": {"get_skill", "sandbox_execute"},
}


def tools_of(session: Session, name: Any) -> list[Tool]:
    return list(session.executor(dialect=name, builtin=BUILT_IN).registry)


def objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema that is one itself, the outermost first."""
    if isinstance(schema, Mapping):
        if "object" in _types(schema):
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def _types(schema: Mapping[str, Any]) -> set[str]:
    given = schema.get("type", [])
    return {given} if isinstance(given, str) else set(given)


def keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            # The names of properties are nobody's keywords.
            yield from () if key == "properties" else (key,)
            yield from keywords(list(value.values()) if key == "properties" else value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keywords(value)


@pytest.mark.covers("G-34")
@pytest.mark.each("name", DIALECTS)
def test_a_dialect_has_its_tools_under_names_of_their_own(session: Session, name: Any) -> None:
    names = [tool.name for tool in session.tools(name)]
    assert len(set(names)) == len(names)
    assert set(names) == ALL_NAMES[name]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.name) for tool in tools_of(session, name))


@pytest.mark.covers("G-34")
@pytest.mark.each("name", DIALECTS)
def test_every_tool_and_parameter_is_described(session: Session, name: Any) -> None:
    for tool in tools_of(session, name):
        assert tool.description.strip()
        for parameter in tool.parameters["properties"].values():
            assert parameter["description"].strip()


@pytest.mark.covers("G-34")
def test_what_runs_something_is_tagged(session: Session) -> None:
    tagged = {tool.name for name in DIALECTS for tool in session.tools(name) if "exec" in tool.tags}
    assert tagged == {"skills_run", "sandbox_execute", "skill"}


@pytest.mark.each("name", DIALECTS)
def test_only_a_shell_is_more_than_a_way_to_control_skills(session: Session, name: Any) -> None:
    assert [tool.name for tool in session.tools(name) if not tool.is_control] == (
        ["sandbox_execute"] if name == "sandbox" else []
    )


@pytest.mark.each("name", DIALECTS)
def test_schemas_are_flat_and_closed(session: Session, name: Any) -> None:
    for tool in tools_of(session, name):
        schema = tool.parameters
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "if"} & set(keywords(schema)), tool.name
        for one in objects(schema):
            # A map of texts, such as environment variables, has no properties of its own to name.
            is_map = tool.name == "Bash" and one.get("additionalProperties") == {"type": "string"}
            assert is_map or one["additionalProperties"] is False, tool.name
            assert set(one.get("required", [])) <= set(one.get("properties", ())), tool.name
        for one in schema["properties"].values():
            assert len(_types(one) - {"null"}) == 1, tool.name


@pytest.mark.covers("G-34")
@pytest.mark.each("delivery", ["result", "instructions"])
@pytest.mark.each("name", DIALECTS)
def test_texts_name_only_tools_that_are_there(begin: Callable[..., Session], name: Any, delivery: str) -> None:
    session = begin(delivery=delivery)
    session.load(["letters", "forms"])
    texts = [session.instructions(dialect=name), session.prompt.content("forms", words=dialect(name).words)]
    texts += [tool.description for tool in session.tools(name)]
    others = set().union(*ALL_NAMES.values()) - ALL_NAMES[name] - {"skill"}
    said = set(re.findall(r"[a-z_]+", "\n".join(texts)))
    assert not said & others


@pytest.mark.covers("G-34")
@pytest.mark.each("name", DIALECTS)
def test_the_words_of_a_dialect_are_its_tools(name: Any) -> None:
    words = dialect(name).words
    given = (words.load, words.unload, words.read, words.run, words.search, words.execute)
    assert {word.split()[0] for word in given if word} == ALL_NAMES[name]


def test_a_dialect_is_chosen_by_name_whatever_was_imported_before(session: Session) -> None:
    import metier.dialect.context
    import metier.dialect.dialects  # noqa: F401

    for name in DIALECTS:
        chosen: Dialect = dialect(name)
        assert chosen.name == name
        assert session.tools(chosen)[0].name == session.tools(name)[0].name


@pytest.mark.each("name", ["", "Runtime", "esperanto"])
def test_an_unknown_dialect_is_refused(session: Session, name: Any) -> None:
    with pytest.raises(InvalidArgument, match="no dialect"):
        session.tools(name)


def test_a_tool_says_what_it_is(session: Session) -> None:
    assert repr(session.tools()[0]) == "<SkillTool skills_load>"


def test_tools_of_several_dialects_can_stand_side_by_side(session: Session) -> None:
    executor = session.executor(session.tools("registry"), dialect="runtime", builtin=["Read"])
    assert set(executor.registry.names()) == {*ALL_NAMES["runtime"], *ALL_NAMES["registry"], "Read"}


def test_the_files_of_a_loaded_skill_can_be_read_and_not_written(session: Session, skills: Path) -> None:
    executor = session.executor(builtin=["Read", "Write"])
    file = str(skills / "forms" / "templates" / "t.yaml")
    assert not executor.execute_blocking("Read", {"file_path": file}).success
    session.load("forms")
    assert not executor.execute_blocking("Read", {"file_path": file}).success
    file = f"{session.loaded.one().root}/templates/t.yaml"
    assert executor.execute_blocking("Read", {"file_path": file}).success
    assert not executor.execute_blocking("Write", {"file_path": file, "content": "x"}).success


def test_the_tools_that_control_skills_are_known_by_name() -> None:
    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    session = library.session(proposals=True, feedback=True)
    dialects: tuple[DialectName, ...] = ("registry", "tool", "runtime", "sandbox")
    tools = [tool for name in dialects for tool in session.tools(name)]
    assert {tool.name for tool in tools if tool.is_control} == CONTROL_TOOLS
    assert {tool.name for tool in tools if not tool.is_control} == {"sandbox_execute"}
