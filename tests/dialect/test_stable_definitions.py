"""What a model is told of its tools does not change with what is loaded, so that prompt caches hold."""

from __future__ import annotations

import anyio
import pytest

from metier import Library
from metier.dialect import DialectName, Kit, definitions
from metier.guard import Guard, MemoryLog

LOAD = {
    "runtime": ("skills_load", {"skills": ["a"]}),
    "registry": ("read_skill", {"skill_id": "a"}),
    "tool": ("skill", {"skill_name": "a"}),
    "sandbox": ("get_skill", {"skill_name": "a"}),
}


@pytest.mark.each("delivery", ["result", "instructions"])
@pytest.mark.each("dialect", ["runtime", "registry", "tool", "sandbox"])
def test_definitions_stay_the_same_whatever_is_loaded(dialect: DialectName, delivery: str) -> None:
    library = Library.from_files(
        {"SKILL.md": "---\nname: a\ndescription: A.\n---\nDo a."},
        {"SKILL.md": "---\nname: b\ndescription: B.\n---\nDo b."},
    )
    session = library.session(guard=Guard(audit=MemoryLog()), delivery=delivery)
    kit = Kit(session, dialect)
    before = definitions(kit.tools, "openai")
    name, arguments = LOAD[dialect]
    result = anyio.run(kit.execute, name, arguments)
    assert result.success, result.error
    assert [one.name for one in session.active] == ["a"]
    assert definitions(kit.tools, "openai") == before
