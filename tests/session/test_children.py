"""Sessions of agents that a conversation starts, and skills that become part of what an agent is."""

from __future__ import annotations

import pytest

from metier import Guard, Library
from metier.errors import ActivationFailed, SessionNotFound, SkillNotFound
from metier.guard import MemoryLog
from metier.session import Lineage


@pytest.fixture
def library() -> Library:
    return Library.from_files(
        {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nRead only."},
        {"SKILL.md": "---\nname: lists\ndescription: L.\nallowed-tools: Read Glob\n---\nList."},
        {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."},
    )


def test_a_child_has_nothing_of_its_parent_but_its_restrictions(library: Library) -> None:
    parent = library.session(guard=Guard(audit=MemoryLog()), skills=["lists"], user="ada", max_active=3)
    child = parent.child("agent:helper", bound=["strict"])
    assert [one.name for one in child.active] == ["strict"]
    assert child.calls.allowed_tools == frozenset({"read"})
    assert not child.may_call("Glob", {"pattern": "*"})
    assert (child.guard, child.context.actor.user, child.context.options.max_active) == (parent.guard, "ada", 3)
    assert child.context.actor.correlation_id == parent.id
    assert child.context.lineage.chain == ("agent:helper",)


def test_a_child_may_have_another_library_also_an_empty_one(library: Library) -> None:
    child = library.session(guard=Guard(audit=MemoryLog())).child("agent:helper", Library.from_files())
    assert child.instructions() == ""
    with pytest.raises(SkillNotFound):
        child.load("free")


def test_children_are_not_without_end(library: Library) -> None:
    session = library.session(guard=Guard(audit=MemoryLog()), lineage=Lineage(max_depth=1))
    with pytest.raises(ActivationFailed, match="'b' runs already"):
        library.session(guard=session.guard, lineage=Lineage(max_depth=5)).child("b").child("b")
    with pytest.raises(ActivationFailed, match="depth"):
        session.child("b").child("c")
    session.close()
    with pytest.raises(SessionNotFound):
        session.child("b")


def test_what_is_bound_later_stays_to_the_end_too(library: Library) -> None:
    log = MemoryLog()
    session = library.session(guard=Guard(audit=log), skills=["free"])
    session.parts.loader.bind(["strict", "free"])
    assert [one.name for one in session.active] == ["strict", "free"]
    session.unload(all=True)
    session.load("lists")
    assert [one.name for one in session.active] == ["strict", "free", "lists"]
    assert session.calls.allowed_tools == frozenset({"read"})
    session.close()
    assert [(one.event, one.skill) for one in log.records if one.skill == "free"] == [
        ("load", "free"),
        ("unload", "free"),
    ]


def test_what_cannot_be_bound_changes_nothing(library: Library) -> None:
    session = library.session(guard=Guard(audit=MemoryLog()), skills=["free"])
    with pytest.raises(SkillNotFound):
        session.parts.loader.bind(["strict", "nope"])
    assert [one.name for one in session.active] == ["free"]
    session.unload(all=True)
    assert session.active == ()
