"""Many conversations at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from metier import Guard, Library, Session
from metier.errors import InvalidArgument, SessionNotFound, SkillNotFound
from metier.guard import MemoryLog
from metier.session import SessionPool

Files = Callable[..., dict[str, str]]


class Clock:
    """Time that passes when somebody says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def many(clock: Clock, log: MemoryLog, skill: Files) -> Callable[..., SessionPool[Session]]:
    """Makes the sessions of a library with two skills."""

    def sessions(**options: Any) -> SessionPool[Session]:
        library = Library.from_files(skill("a"), skill("b"))
        return library.sessions(guard=Guard(audit=log), clock=clock, **options)

    return sessions


Many = Callable[..., SessionPool[Session]]


@pytest.mark.covers("G-25")
def test_a_session_is_found_by_its_id(many: Many) -> None:
    sessions = many()
    one, other = sessions.begin(), sessions.begin(id="mine", skills=["a"], max_active=1)
    assert sessions.get(one.id) is one
    assert sessions.get("mine") is other
    assert (len(sessions), one.id in sessions, "gone" in sessions, 5 in sessions) == (2, True, False, False)
    assert (one.context.options.max_active, other.context.options.max_active) == (8, 1)


@pytest.mark.covers("G-25", "G-33")
@pytest.mark.parametrize("id", ["", "gone", "x" * 10_000])
def test_an_unknown_id_is_not_found_and_ending_it_does_not_matter(many: Many, id: str) -> None:  # noqa: A002
    sessions = many()
    with pytest.raises(SessionNotFound):
        sessions.get(id)
    sessions.end(id)


@pytest.mark.covers("G-25")
def test_what_nobody_used_for_a_day_ends(many: Many, clock: Clock, log: MemoryLog) -> None:
    sessions = many()
    session = sessions.begin(skills=["a"])
    clock.now = 24 * 60 * 60 - 1
    assert sessions.get(session.id) is session
    clock.now += 24 * 60 * 60
    assert session.id not in sessions
    with pytest.raises(SessionNotFound):
        sessions.get(session.id)
    assert session.context.is_closed
    assert [one.event for one in log.records] == ["load", "unload"]


@pytest.mark.covers("G-25")
def test_using_a_session_keeps_it(many: Many, clock: Clock) -> None:
    sessions = many(seconds=10)
    kept, left = sessions.begin(), sessions.begin()
    for _ in range(5):
        clock.now += 6
        sessions.get(kept.id)
    assert (kept.context.is_closed, left.context.is_closed, len(sessions)) == (False, True, 1)


@pytest.mark.covers("G-25")
def test_of_too_many_the_one_used_longest_ago_ends(many: Many, clock: Clock) -> None:
    sessions = many(most=2)
    first = sessions.begin()
    clock.now += 1
    second = sessions.begin()
    clock.now += 1
    sessions.get(first.id)
    third = sessions.begin()
    assert [one.context.is_closed for one in (first, second, third)] == [False, True, False]
    assert len(sessions) == 2


@pytest.mark.covers("G-25")
def test_there_is_room_for_4096(many: Many) -> None:
    sessions = many()
    for _ in range(4_097):
        sessions.begin()
    assert len(sessions) == 4_096


@pytest.mark.covers("G-25")
def test_a_session_whose_first_skills_cannot_be_loaded_is_not_kept(many: Many) -> None:
    sessions = many()
    with pytest.raises(SkillNotFound):
        sessions.begin(skills=["a", "zz"], id="x")
    assert (len(sessions), "x" in sessions) == (0, False)


def test_an_id_that_is_in_use_is_refused_and_nothing_stays_loaded(many: Many, log: MemoryLog) -> None:
    sessions = many()
    mine = sessions.begin(id="x")
    with pytest.raises(InvalidArgument):
        sessions.begin(id="x", skills=["a"])
    assert sessions.get("x") is mine
    assert [one.event for one in log.records] == ["load", "unload"]


@pytest.mark.covers("G-25")
def test_ending_closes_and_a_closed_one_is_not_found(many: Many) -> None:
    sessions = many()
    ended, closed = sessions.begin(), sessions.begin(id="x")
    sessions.end(ended.id)
    sessions.end(ended.id)
    closed.close()
    assert ended.context.is_closed
    assert "x" not in sessions
    with pytest.raises(SessionNotFound):
        sessions.get("x")
    assert len(sessions) == 0
    assert sessions.begin(id="x").id == "x"


def test_the_id_of_a_closed_session_is_free_again(many: Many) -> None:
    sessions = many()
    sessions.begin(id="x").close()
    again = sessions.begin(id="x")
    assert sessions.get("x") is again


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": -1}, {"most": 0}])
def test_sessions_need_time_and_room(many: Many, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        many(**options)


@pytest.mark.parametrize("steps", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_sessions_are_begun_and_ended_by_many_threads(many: Many, steps: int) -> None:
    sessions = many(most=5)
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        try:
            for step in range(steps):
                session = sessions.begin(skills=["a"])
                try:
                    sessions.get(session.id).load("b")
                except SessionNotFound:
                    continue
                if step % 2:
                    sessions.end(session.id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(sessions) <= 5


def test_one_that_had_to_go_is_resumed_by_its_id_where_sessions_remember() -> None:
    library = Library.from_files({"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nRead."})
    log = MemoryLog()
    sessions = library.sessions(most=2, remembers=True, guard=Guard(audit=log))
    first = sessions.begin(id="first", skills=["strict"])
    for _ in range(3):
        sessions.begin()
    assert first.context.is_closed
    again = sessions.get("first")
    assert [one.name for one in again.active] == ["strict"]
    assert not again.may_call("Write", {"file_path": "x"})
    sessions.end("first")
    with pytest.raises(SessionNotFound):
        sessions.get("first")


class Remembering:
    """Sessions that remember, with one whose skill restricts it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nRead."}
        self.sessions = Library.from_files(files).sessions(most=1, remembers=True)
        self.first = self.sessions.begin(id="first", skills=["strict"])
        self.monkeypatch = monkeypatch


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> Remembering:
    """A full house."""
    return Remembering(monkeypatch)


def test_there_is_no_moment_in_which_one_that_goes_is_not_found(remembering: Remembering) -> None:
    found: list[Session] = []
    close = Session.close

    def asked_while_closing(session: Session) -> None:
        if session is remembering.first and not found:
            found.append(session)
            found[0] = remembering.sessions.get("first")
        close(session)

    remembering.monkeypatch.setattr(Session, "close", asked_while_closing)
    remembering.sessions.begin()
    assert [one.name for one in found[0].active] == ["strict"]


def test_what_is_loaded_while_it_goes_is_kept_or_refused(remembering: Remembering) -> None:
    first, close = remembering.first, Session.close

    def loaded_while_closing(session: Session) -> None:
        if session is first:
            with pytest.raises(SessionNotFound):
                session.unload(all=True)
        close(session)

    remembering.monkeypatch.setattr(Session, "close", loaded_while_closing)
    remembering.sessions.begin()
    with pytest.raises(SessionNotFound):
        first.may_call("Write", {"file_path": "x"})
    assert [one.name for one in remembering.sessions.get("first").active] == ["strict"]


def test_two_who_ask_at_once_for_one_that_is_saved_get_the_same(remembering: Remembering) -> None:
    remembering.sessions.begin()
    resume, second = Session.resume, threading.Event()
    found: list[Session] = []

    def ask() -> None:
        second.set()
        found.append(remembering.sessions.get("first"))

    thread = threading.Thread(target=ask)

    def resumed(*args: Any, **options: Any) -> Session:
        thread.start()
        second.wait(30)
        return resume(*args, **options)

    remembering.monkeypatch.setattr(Session, "resume", resumed)
    found.append(remembering.sessions.get("first"))
    thread.join(30)
    assert found[0] is found[1]


def test_one_that_cannot_be_resumed_now_can_be_later(remembering: Remembering) -> None:
    remembering.sessions.begin()

    def failing(*args: Any, **options: Any) -> Session:
        raise OSError(5, "disk")

    with remembering.monkeypatch.context() as patched:
        patched.setattr(Session, "resume", failing)
        with pytest.raises(OSError, match="disk"):
            remembering.sessions.get("first")
    assert [one.name for one in remembering.sessions.get("first").active] == ["strict"]


def test_opening_finds_a_session_or_begins_it(many: Many) -> None:
    sessions = many()
    one = sessions.open("mine")
    assert sessions.open("mine") is one
    sessions.end("mine")
    assert sessions.open("mine") is not one


@pytest.mark.parametrize("made", ["begin", "resume"])
def test_only_who_asks_for_the_same_one_waits_while_it_is_made(
    remembering: Remembering, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = remembering.sessions
    other = sessions.open("other")
    go_on, begun = threading.Event(), threading.Event()
    make = getattr(sessions, made)

    def slow(*args: Any, **options: Any) -> Session:
        begun.set()
        assert go_on.wait(30)
        found: Session = make(*args, **options)
        return found

    monkeypatch.setattr(sessions, made, slow)
    wanted = "new" if made == "begin" else "first"
    found: list[Session] = []
    threads = [threading.Thread(target=lambda: found.append(sessions.open(wanted))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    assert sessions.open("other") is other
    assert len(sessions) == 1
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert found[0] is found[1]


def test_one_that_is_ended_while_it_is_resumed_is_gone(remembering: Remembering) -> None:
    remembering.sessions.begin()
    resume, made = Session.resume, []

    def ended_meanwhile(*args: Any, **options: Any) -> Session:
        remembering.sessions.end("first")
        made.append(resume(*args, **options))
        return made[0]

    remembering.monkeypatch.setattr(Session, "resume", ended_meanwhile)
    with pytest.raises(SessionNotFound):
        remembering.sessions.get("first")
    assert made[0].context.is_closed
    assert "first" not in remembering.sessions


def test_an_option_that_does_not_exist_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidArgument, match="'polici'") as refused:
        Session(Library([]), polici=None)
    assert str(refused.value.hint).startswith("Did you mean policy? Options are ")
