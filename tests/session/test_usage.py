"""Which model asked for something, and which conversation started another."""

from __future__ import annotations

from collections.abc import Callable

from metier import Session
from metier.guard import MemoryLog


def test_records_say_which_model_asked(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]], log: MemoryLog
) -> None:
    session = begin(skill("a"), skill("b"))
    session.load("a")
    session.calls.answered_by("small", 10)
    session.load("b")
    session.calls.answered_by("large", 10)
    session.unload(all=True)
    models = [(record.event, record.skill, record.model) for record in log.records]
    assert models == [
        ("load", "a", None),
        ("load", "b", "small"),
        ("unload", "a", "small"),
        ("unload", "b", "large"),
    ]


def test_a_model_with_a_hostile_name_is_shortened_and_shown(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]]
) -> None:
    session = begin(skill("a"))
    session.calls.answered_by("\x1b[2J" + "x" * 5_000)
    assert session.context.actor.model is not None
    assert len(session.context.actor.model) < 300
    assert session.context.actor.model.isprintable()


def test_a_fork_says_which_conversation_started_it(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]], log: MemoryLog
) -> None:
    session = begin(skill("a"))
    session.calls.answered_by("small")
    with session.fork("a"):
        pass
    assert {(record.parent, record.model) for record in log.records} == {(session.id, "small")}
    assert session.context.actor.parent is None
