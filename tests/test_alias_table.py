"""The table of aliases, row by row: each leads to something that is there, and is the same to every rule."""

from __future__ import annotations

from typing import Any

import pytest

from metier import Guard, Library, Policy, _aliases
from metier.guard import MemoryLog
from metier.run import PlainRunner
from metier.skill import parse
from metier.skill.tool_rules import canonical_tool
from metier.tools import Executor

DIALECTS: tuple[Any, ...] = ("runtime", "registry", "tool", "sandbox")
BUILT_IN = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def tools(log: MemoryLog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Executor]:
    """An executor for each tool, of the dialect that has it."""
    library = Library.from_files({"SKILL.md": "---\nname: pdf\ndescription: Does.\n---\nDo."})
    guard, workspace = Guard(Policy(unsandboxed="allow"), audit=log), tmp_path_factory.mktemp("work")
    session = library.session(guard=guard, runner=PlainRunner(), workspace=workspace, proposals=True)
    made = [session.executor(dialect=dialect, builtin=BUILT_IN) for dialect in DIALECTS]
    return {name: executor for executor in made for name in executor.registry.names()}


@pytest.mark.covers("ACC-7")
@pytest.mark.parametrize(("alias", "name"), _aliases.TOOLS.items())
def test_a_tool_answers_to_its_other_name_and_is_the_same_to_every_rule(
    tools: dict[str, Executor], log: MemoryLog, alias: str, name: str
) -> None:
    executor = tools[name]
    assert alias in executor.registry
    assert executor.registry.get(alias) is executor.registry.get(name)
    assert alias not in executor.registry.names()
    assert canonical_tool(alias) == canonical_tool(name)
    executor.execute_blocking(alias, {"no such": "argument"})
    assert [one.tool for one in log.records] == [name]


@pytest.mark.covers("ACC-7")
@pytest.mark.each(
    ("tool", "alias", "name"),
    [(tool, alias, name) for tool, rows in _aliases.ARGUMENTS.items() for alias, name in rows.items()],
)
def test_an_argument_is_taken_under_its_other_name(
    tools: dict[str, Executor], tool: str, alias: str, name: str
) -> None:
    known = tools[tool].registry.get(tool)
    assert known is not None
    properties = known.parameters["properties"]
    assert name in properties
    assert alias not in properties
    assert list(_aliases.canonical_arguments(tool, properties, {alias: 2})) == [name]
    shape = _aliases.SHAPES.get((tool, alias), lambda value: value)
    assert _aliases.canonical_arguments(tool, properties, {alias: 2, name: shape(2)}) == {name: shape(2)}
    with pytest.raises(_aliases.Contradiction):
        _aliases.canonical_arguments(tool, properties, {alias: 2, name: "other"})


@pytest.mark.covers("ACC-7")
@pytest.mark.each(("alias", "name"), _aliases.SKILL_FIELDS.items())
def test_a_field_of_a_skill_is_read_under_its_other_name(alias: str, name: str) -> None:
    data = f"---\nname: a\ndescription: A.\n{alias}: x\n---\nDo.\n".encode()
    found = [note for note in parse(data).skill.diagnostics if note.code == "field-alias"]
    assert [name in note.message for note in found] == [True]
