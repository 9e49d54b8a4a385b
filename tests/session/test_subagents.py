"""Sessions for sub-agents: one skill, and nothing of the conversation around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metier import Guard, Library, Place, Session
from metier.errors import ActivationFailed, Refused, SkillNotFound
from metier.guard import MemoryLog
from metier.session import MARKER, Lineage
from metier.source import MemorySource

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


@pytest.mark.covers("O-102")
def test_a_child_has_its_skill_and_nothing_else_of_its_parent(begin: Begin, skill: Files) -> None:
    parent = begin(skill("a", "For a: $ARGUMENTS."), skill("b"), skills=["b"], user="ada")
    told: list[Any] = []
    parent.listen(told.append)
    child = parent.fork("a", args="this")
    assert [one.name for one in child.active] == ["a"]
    assert child.loaded.one().body == "For a: this."
    assert child.id != parent.id
    assert child.context.actor.user == "ada"
    assert child.context.actor.correlation_id == parent.id
    assert (child.context.lineage.chain, child.context.lineage.parent_id) == (
        ("a",),
        parent.context.lineage.id,
    )
    assert [(event.kind, event.session) for event in told] == [("loading", child.id), ("loaded", child.id)]


@pytest.mark.covers("O-102")
def test_a_parent_is_not_changed_by_its_child(begin: Begin, skill: Files) -> None:
    parent = begin(skill("a", more="allowed-tools: []\n"), skill("b"), skills=["b"])
    before = (parent.active, parent.loaded.version, parent.instructions())
    child = parent.fork("a")
    assert not child.may_call("Bash", {})
    assert parent.may_call("Bash", {})
    child.load("b")
    child.close()
    assert (parent.active, parent.loaded.version, parent.instructions()) == before


@pytest.mark.covers("O-102")
def test_what_was_given_to_a_parent_is_given_to_a_child_too(begin: Begin, skill: Files) -> None:
    parent = begin(skill("a"), skills=["a"])
    assert parent.prompt.content().startswith(MARKER)
    child = parent.fork("a")
    assert MARKER in child.instructions()
    assert not parent.prompt.content().startswith(MARKER)


@pytest.mark.covers("O-80")
def test_too_deep_nothing_is_loaded(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), skill("b"), lineage=Lineage(max_depth=1)).fork("a")
    before = len(log.records)
    with pytest.raises(ActivationFailed) as caught:
        session.fork("b")
    assert "maximum depth" in caught.value.hint
    assert "Maximum sub-agent depth (1) exceeded: a -> b" in str(caught.value)
    assert len(log.records) == before


@pytest.mark.covers("O-103")
def test_a_skill_that_would_run_inside_itself_is_refused_with_the_cycle(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), lineage=Lineage(max_depth=5)).fork("a").fork("b")
    with pytest.raises(ActivationFailed, match="a -> b -> a is a cycle"):
        session.fork("a")


@pytest.mark.covers("O-80")
def test_a_fork_loads_and_unloads_exactly_once_also_on_error(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"))
    with pytest.raises(RuntimeError), session.fork("a"):
        raise RuntimeError
    assert [(one.event, one.skill) for one in log.records] == [("load", "a"), ("unload", "a")]


def test_an_unknown_skill_is_not_found(begin: Begin, skill: Files) -> None:
    with pytest.raises(SkillNotFound):
        begin(skill("a")).fork("zz")


def test_a_model_cannot_fork_what_it_may_not_load(skill: Files) -> None:
    source = MemorySource({}).add(skill("a")).add(skill("b", more="disable-model-invocation: true\n"))
    library = Library([Place(layer="project", source=source, trusted=False)], cache=False)
    session = library.session(guard=Guard(audit=MemoryLog()))
    for name, code in (("a", "approval-needed"), ("b", "not-for-models")):
        with pytest.raises(Refused) as caught:
            session.fork(name, by="model")
        assert caught.value.code == code
    assert session.fork("b", by="user").loaded.one().name == "b"


def test_a_child_keeps_the_options_of_its_parent(begin: Begin, skill: Files) -> None:
    parent = begin(skill("a"), skill("b"), names=["a"], max_active=3, delivery="instructions")
    child = parent.fork("a")
    assert child.context.options == parent.context.options
    with pytest.raises(SkillNotFound):
        child.load("b")


def test_a_block_reaches_children(begin: Begin, skill: Files) -> None:
    parent = begin(skill("a"))
    child = parent.fork("a")
    parent.guard.block("a")
    assert child.active == ()


@pytest.mark.covers("O-40", "O-102")
def test_what_restricts_a_conversation_restricts_what_it_starts() -> None:
    library = Library.from_files(
        {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nDo."},
        {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."},
        {"SKILL.md": "---\nname: other\ndescription: O.\n---\nDo."},
    )
    session = library.session(skills=["strict"], guard=Guard(audit=MemoryLog()))
    child = session.fork("free")
    assert [one.name for one in child.active] == ["free"]
    assert not child.may_call("Write", {"file_path": "x"})
    assert child.fork("other").calls.allowed_tools == frozenset({"read"})
    session.unload(all=True)
    assert not child.may_call("Write", {"file_path": "x"}), "as it was when the child began"
    assert session.fork("free").may_call("Write", {"file_path": "x"})


def test_a_child_whose_skill_cannot_be_loaded_is_closed(begin: Begin, skill: Files, monkeypatch: Any) -> None:
    made: list[Session] = []
    child = Session.child

    def seen(self: Session, *args: Any, **options: Any) -> Session:
        made.append(child(self, *args, **options))
        return made[0]

    monkeypatch.setattr(Session, "child", seen)
    parent = begin(skill("a", more="user-invocable: false\n"))
    with pytest.raises(Refused):
        parent.fork("a", by="user")
    assert made[0].context.is_closed
