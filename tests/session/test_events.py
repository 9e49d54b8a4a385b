"""What listeners are told: as much as they should know, and no secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from metier import Event, FunctionTool, Policy, Session
from metier.errors import InvalidArgument, Refused

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


def heard(session: Session, view: Any = "full") -> list[Event]:
    events: list[Event] = []
    session.listen(events.append, view)
    return events


@pytest.mark.covers("O-108")
def test_loading_and_unloading_are_told_as_they_happen(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), id="s-1")
    events = heard(session)
    session.load("a")
    session.unload("a")
    assert [(event.kind, event.skill, event.session) for event in events] == [
        ("loading", "a", "s-1"),
        ("loaded", "a", "s-1"),
        ("unloaded", "a", "s-1"),
    ]
    assert events[1].message == "Loaded a."
    assert events[1].data["digest"].startswith("sha256:")
    assert all(event.at for event in events)


@pytest.mark.covers("O-108")
def test_what_is_refused_is_told_with_its_code(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b", more="allowed-tools: Read\n"), policy=Policy(blocked=["a"]))
    events = heard(session, "summary")
    with pytest.raises(Refused):
        session.load("a")
    session.load("b")
    session.calls.admit("Write", {})
    refusals = [(event.skill, event.tool, event.code) for event in events if event.kind == "refused"]
    assert refusals == [("a", "", "skill-blocked"), ("", "Write", "tool-not-allowed")]


@pytest.mark.covers("O-108")
def test_rules_hold_for_the_very_next_call(begin: Begin, skill: Files) -> None:
    def write() -> str:
        return "written"

    session = begin(skill("a", more="allowed-tools: Read\n"))
    executor = session.executor([FunctionTool(write)])

    async def main() -> list[bool]:
        before = await executor.execute("write", {})
        session.load("a")
        during = await executor.execute("write", {})
        session.unload("a")
        after = await executor.execute("write", {})
        return [result.success for result in (before, during, after)]

    assert anyio.run(main) == [True, False, True]


@pytest.mark.covers("O-85")
@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("action", True),
        ("answer", True),
        ("loaded", True),
        ("refused", True),
        ("ran", True),
        ("iteration", False),
        ("thought", False),
        ("observation", False),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_a_summary_leaves_out_how_it_was_reached_and_nobody_sees_what_is_hidden(
    begin: Begin, skill: Files, kind: Any, summary: bool, hidden: bool
) -> None:
    session = begin(skill("a"))
    short, full = heard(session, "summary"), heard(session, "full")
    session.context.emit(Event(kind=kind, message="x", hidden=hidden))
    assert len(short) == (summary and not hidden)
    assert len(full) == (not hidden)


@pytest.mark.covers("O-85")
def test_secrets_are_marked_and_all_else_is_kept(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), id="s-1")
    events = heard(session)
    data = {"api_key": "abc", "nested": {"list": ["password: hunter2", 5]}, "count": 3}
    event = Event(
        kind="action",
        message='API_KEY="abc" password: hunter2 Token=xyz',
        skill="a",
        tool="Bash",
        code="c",
        data=data,
        at="2026-01-01T00:00:00+00:00",
    )
    session.context.emit(event)
    (told,) = events
    assert told.message == 'API_KEY="[REDACTED]" password: [REDACTED] Token=[REDACTED]'
    assert told.message.count("[REDACTED]") == 3
    assert (told.kind, told.skill, told.tool, told.code, told.at) == ("action", "a", "Bash", "c", event.at)
    assert told.data == {"api_key": "[REDACTED]", "nested": {"list": ["password: [REDACTED]", 5]}, "count": 3}
    assert data["nested"] == {"list": ["password: hunter2", 5]}


def test_a_listener_that_fails_stops_nobody(begin: Begin, skill: Files, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("no")

    session = begin(skill("a"))
    session.listen(fail)
    events = heard(session)
    session.load("a")
    assert [event.kind for event in events] == ["loading", "loaded"]
    assert "a listener failed" in caplog.text


def test_a_listener_can_stop(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"))
    events: list[Event] = []
    stop = session.listen(events.append)
    session.load("a")
    stop()
    stop()
    session.unload("a")
    assert [event.kind for event in events] == ["loading", "loaded"]


def test_the_same_listener_twice_is_stopped_once(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"))
    events: list[Event] = []
    stop, _ = session.listen(events.append), session.listen(events.append)
    stop()
    session.load("a")
    assert [event.kind for event in events] == ["loading", "loaded"]


@pytest.mark.each("view", ["", "all", None])
def test_there_is_no_other_view(begin: Begin, skill: Files, view: Any) -> None:
    with pytest.raises(InvalidArgument):
        begin(skill("a")).listen(print, view)


def test_a_listener_may_use_the_session(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"))

    def follow(event: Event) -> None:
        if event.kind == "loaded" and event.skill == "a":
            session.load("b", "add")

    session.listen(follow)
    session.load("a")
    assert [one.name for one in session.active] == ["a", "b"]
