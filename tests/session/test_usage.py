"""Which model asked for something, and which conversation started another."""

from __future__ import annotations

from collections.abc import Callable

import anyio

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
    session.close()
    models = [(record.event, record.skill, record.model) for record in log.records]
    assert models == [
        ("load", "a", None),
        ("load", "b", "small"),
        ("unload", "a", "small"),
        ("model", "a", "small"),
        ("unload", "b", "large"),
        ("model", "b", "large"),
    ]


def tokens(log: MemoryLog) -> list[tuple[str, str, int | None, int | None]]:
    """What the records say of tokens: the event, the skill, the tokens in and out."""
    told = (record for record in log.records if record.tokens_in is not None)
    return [(one.event, one.skill or (one.active or ("",))[-1], one.tokens_in, one.tokens_out) for one in told]


def test_the_record_of_the_next_call_tells_of_the_tokens_of_the_answers_before(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]], log: MemoryLog
) -> None:
    session = begin(skill("a"))
    tools = session.executor()
    session.calls.answered_by("small", 10, output=4)
    anyio.run(tools.execute, "skills_load", {"skills": ["a"]})
    session.calls.answered_by("small", 20, output=5)
    session.calls.answered_by("small", 30)
    anyio.run(tools.execute, "skills_search", {"query": "nothing at all"})
    anyio.run(tools.execute, "skills_search", {"query": "a"})
    session.close()
    assert tokens(log) == [("call", "", 6, 4), ("call", "a", 45, 5)]
    assert [record.found for record in log.records if record.tool == "skills_search"] == [0, 1]


def test_tokens_that_no_call_tells_of_get_a_record_of_their_own(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]], log: MemoryLog
) -> None:
    session = begin(skill("a"))
    session.calls.answered_by("small", 10, output=4)
    session.calls.answered_by("large", 7)
    session.load("a")
    session.calls.answered_by("large", 5, output=5)
    session.calls.usage.record()
    session.calls.usage.record()
    session.calls.answered_by("large", 3)
    session.unload("a")
    anyio.run(session.executor().execute, "skills_search", {"query": "a"})
    session.close()
    assert tokens(log) == [("model", "", 6, 4), ("model", "", 7, 0), ("model", "a", 0, 5), ("model", "a", 3, 0)]
    assert [one.model for one in log.records if one.event == "model"] == ["small", *["large"] * 3]


def test_records_of_loads_say_beside_what_a_skill_stands(
    begin: Callable[..., Session], skill: Callable[..., dict[str, str]], log: MemoryLog
) -> None:
    session = begin(skill("a"), skill("b"), skill("c"))
    session.load(["a", "b"])
    session.load("a", "add")
    session.load("c")
    active = [(record.skill, record.active) for record in log.records if record.event == "load"]
    assert active == [("a", ("a", "b")), ("b", ("a", "b")), ("a", ("b", "a")), ("c", ("c",))]


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
