"""In every dialect a model can reach every skill, also those that the catalog has no room for."""

from __future__ import annotations

import json

import pytest

from metier import Library, Session, ToolResult
from metier.dialect import DialectName
from metier.guard import Guard, MemoryLog

SEARCHES: dict[DialectName, tuple[str, dict[str, str]]] = {
    "runtime": ("skills_search", {"query": "zebra stripes"}),
    "registry": ("list_skills", {"query": "zebra"}),
    "tool": ("skill", {"skill_name": "zebra stripes", "action": "search"}),
    "sandbox": ("get_skill", {"skill_name": "zebra stripes"}),
}


@pytest.fixture(scope="module")
def library() -> Library:
    def skill(name: str, about: str) -> dict[str, str]:
        return {"SKILL.md": f"---\nname: {name}\ndescription: {about} with great care and at length.\n---\nDo."}

    many = [skill(f"widget-{number:03}", f"Polishes widget {number}") for number in range(300)]
    return Library.from_files(*many, skill("zebra-painter", "Paints stripes on a zebra"))


@pytest.fixture
def session(library: Library) -> Session:
    return library.session(guard=Guard(audit=MemoryLog()), budget=1_024)


@pytest.mark.parametrize("dialect", SEARCHES)
def test_a_skill_that_is_not_listed_is_found_and_loaded(session: Session, dialect: DialectName) -> None:
    executor = session.executor(dialect=dialect)
    tools = {tool.name: tool for tool in executor.registry}
    told = session.instructions(dialect=dialect) + "".join(tool.description for tool in tools.values())
    assert "zebra-painter" not in told
    name, arguments = SEARCHES[dialect]
    assert name in told or dialect == "sandbox"
    answer: ToolResult = executor.execute_blocking(name, arguments)
    assert "zebra-painter" in json.dumps([answer.result, answer.hint])
    load = {"runtime": {"skills": ["zebra-painter"]}, "registry": {"skill_id": "zebra-painter"}}
    call = {"runtime": "skills_load", "registry": "read_skill", "tool": "skill", "sandbox": "get_skill"}[dialect]
    assert executor.execute_blocking(call, load.get(dialect, {"skill_name": "zebra-painter"})).success
    assert [one.name for one in session.active] == ["zebra-painter"]


@pytest.mark.parametrize(
    ("dialect", "tool", "key"), [("registry", "read_skill", "skill_id"), ("sandbox", "get_skill", "skill_name")]
)
def test_where_a_model_cannot_unload_the_oldest_skill_makes_room(
    session: Session, dialect: DialectName, tool: str, key: str
) -> None:
    executor = session.executor(dialect=dialect)
    for number in range(10):
        assert executor.execute_blocking(tool, {key: f"widget-{number:03}"}).success
    assert [one.name for one in session.active] == [f"widget-{number:03}" for number in range(2, 10)]
