"""Unloading: some, all, what is not there, and what disappears by itself."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from metier import Session
from metier.errors import InvalidArgument, MetierError, SessionNotFound, SkillNotActive, SkillNotFound
from metier.guard import Actor, MemoryLog, Subject

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]


def active(session: Session) -> list[str]:
    return [one.name for one in session.active]


@pytest.mark.covers("G-26", "G-43")
@pytest.mark.each(
    ("names", "everything", "changed", "left"),
    [
        (["b"], False, ["b"], ["a", "c"]),
        ("b", False, ["b"], ["a", "c"]),
        (["B"], False, ["b"], ["a", "c"]),
        (["c", "a"], False, ["a", "c"], ["b"]),
        (["d"], False, [], ["a", "b", "c"]),
        (["d", "a"], False, ["a"], ["b", "c"]),
        ((), True, ["a", "b", "c"], []),
        (["a"], True, ["a", "b", "c"], []),
    ],
)
def test_what_is_named_goes_and_what_is_not_loaded_does_not_matter(
    begin: Begin, skill: Files, names: Any, everything: bool, changed: list[str], left: list[str]
) -> None:
    session = begin(*(skill(name) for name in "abcd"), skills=["a", "b", "c"])
    receipt = session.unload(names, all=everything)
    assert list(receipt.changed) == changed
    assert [item.name for item in receipt.active] == active(session) == left


@pytest.mark.covers("G-26")
@pytest.mark.each(
    ("names", "error"),
    [
        ((), InvalidArgument),
        ([], InvalidArgument),
        ([1], InvalidArgument),
        (None, InvalidArgument),
        (["zz"], SkillNotFound),
        (["a", "zz"], SkillNotFound),
        ([""], InvalidArgument),
    ],
)
def test_an_unloading_that_cannot_be_changes_nothing(
    begin: Begin, skill: Files, names: Any, error: type[MetierError]
) -> None:
    session = begin(skill("a"), skills=["a"])
    with pytest.raises(error):
        session.unload(names)
    assert active(session) == ["a"]


@pytest.mark.covers("O-105", "O-80")
def test_each_skill_leaves_one_record_when_it_ends(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), skills=["a", "b"])
    session.load("c")
    session.unload("c")
    session.unload("c")
    session.close()
    session.close()
    ended = [(one.event, one.skill, one.success) for one in log.records if one.event == "unload"]
    assert ended == [("unload", "a", True), ("unload", "b", True), ("unload", "c", True)]


@pytest.mark.covers("G-26", "G-33")
@pytest.mark.each(
    "use",
    [
        lambda session: session.load("a"),
        lambda session: session.unload(all=True),
        lambda session: session.read("SKILL.md"),
        lambda session: session.run_blocking("scripts/x.py"),
        lambda session: session.active,
        lambda session: session.loaded.one(),
        lambda session: session.parts.loader.receipt(),
        lambda session: session.loaded.one().listing,
        lambda session: session.prompt.content(),
        lambda session: session.instructions(),
        lambda session: session.prompt.catalog(),
        lambda session: session.prompt.search("a"),
        lambda session: session.prompt.matching(),
        lambda session: session.invoke("/a"),
        lambda session: session.may_call("Bash", {}),
        lambda session: session.parts.loader.activate("a"),
        lambda session: session.parts.loader.deactivate("a"),
        lambda session: session.fork("a"),
        lambda session: session.task().__enter__(),
        lambda session: session.save(),
    ],
)
def test_nothing_can_be_done_with_a_closed_session(
    begin: Begin, skill: Files, use: Callable[[Session], object]
) -> None:
    session = begin(skill("a"), skills=["a"])
    session.close()
    with pytest.raises(SessionNotFound):
        use(session)


def test_leaving_a_session_closes_it(begin: Begin, skill: Files) -> None:
    with begin(skill("a"), skills=["a"]) as session:
        assert active(session) == ["a"]
    assert session.context.is_closed


@pytest.mark.covers("G-24")
def test_a_skill_that_is_removed_is_no_longer_active(
    begin_in: Begin, write_skill: Write, tmp_path: Path, log: MemoryLog
) -> None:
    for name in "ab":
        write_skill(tmp_path / "s" / name)
    session = begin_in(tmp_path / "s", skills=["a", "b"])
    told: list[str] = []
    session.listen(lambda event: told.append(f"{event.kind} {event.skill}"))
    shutil.rmtree(tmp_path / "s" / "a")
    session.library.refresh()
    assert active(session) == ["b"]
    assert told == ["unloaded a"]
    assert [(one.event, one.skill) for one in log.records][-1] == ("unload", "a")
    with pytest.raises(SkillNotFound):
        session.loaded.one("a")


@pytest.mark.covers("G-24")
def test_a_skill_that_comes_back_is_not_active_by_itself(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    for name in "ab":
        write_skill(tmp_path / "s" / name)
    session = begin_in(tmp_path / "s", skills=["a"])
    shutil.rmtree(tmp_path / "s" / "a")
    session.library.refresh()
    assert active(session) == []
    write_skill(tmp_path / "s" / "a")
    session.library.refresh()
    assert active(session) == []
    with pytest.raises(SkillNotActive):
        session.loaded.one("a")


@pytest.mark.covers("G-24")
def test_a_closed_session_takes_no_notice_of_what_is_removed(
    begin_in: Begin, write_skill: Write, tmp_path: Path, log: MemoryLog
) -> None:
    write_skill(tmp_path / "s" / "a")
    session = begin_in(tmp_path / "s", skills=["a"])
    session.close()
    before = len(log.records)
    shutil.rmtree(tmp_path / "s" / "a")
    session.library.refresh()
    assert session.loaded.live() == ()
    assert len(log.records) == before


def test_a_skill_that_is_changed_is_stale_until_it_is_loaded_again(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "s" / "a", body="Old.")
    session = begin_in(tmp_path / "s", skills=["a"])
    told: list[str] = []
    session.listen(lambda event: told.append(event.kind))
    write_skill(tmp_path / "s" / "a", body="New, and longer.")
    session.library.refresh()
    (one,) = session.active
    assert (one.body.strip(), one.is_stale) == ("Old.", True)
    assert session.parts.loader.receipt().as_dict()["active"][0]["stale"] is True
    assert told == ["stale"]
    session.load("a")
    (one,) = session.active
    assert (one.body.strip(), one.is_stale) == ("New, and longer.", False)


def test_a_changed_resource_makes_a_skill_stale_when_it_is_read(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    folder = write_skill(tmp_path / "s" / "a").parent
    (folder / "notes.txt").write_text("old")
    session = begin_in(tmp_path / "s", skills=["a"])
    told: list[str] = []
    session.listen(lambda event: told.append(event.kind))
    assert not session.read("notes.txt").is_stale
    (folder / "notes.txt").write_text("new, and longer")
    resource = session.read("notes.txt")
    assert (resource.content, resource.is_stale) == ("old", True)
    assert session.loaded.one().is_stale
    assert session.read("notes.txt").as_dict()["stale"] is True
    assert told.count("stale") == 1


def test_an_edit_that_changes_nothing_in_the_end_makes_nothing_stale(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    file = write_skill(tmp_path / "s" / "a")
    session = begin_in(tmp_path / "s", skills=["a"])
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    session.library.refresh()
    assert not session.loaded.one().is_stale


def test_blocking_ends_a_skill_in_every_running_session(begin: Begin, skill: Files, log: MemoryLog) -> None:
    first = begin(skill("a"), skill("b"), skills=["a", "b"])
    second = Session(first.library, guard=first.guard, skills=["b"])
    first.guard.block("b")
    assert (active(first), active(second)) == (["a"], [])
    assert [one.skill for one in log.records if one.event == "unload"] == ["b", "b"]
    first.guard.unblock("b")
    assert (active(first), active(second)) == (["a"], [])


def test_a_blocked_skill_is_seen_by_nobody_while_somebody_else_finds_out(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skills=["a"])
    looking, go_on = threading.Event(), threading.Event()
    bars = session.guard.is_excluded

    def slowly(subject: Subject, actor: Actor) -> bool:
        looking.set()
        go_on.wait(10)
        return bars(subject, actor)

    seen: list[list[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(active(session))) for _ in range(2)]
    with mock.patch.object(session.guard, "is_excluded", slowly):
        session.guard.block("a")
        threads[0].start()
        looking.wait(10)
        threads[1].start()
        threads[1].join(0.2)
        assert seen in ([], [[]])
        go_on.set()
        for thread in threads:
            thread.join()
    assert seen == [[], []]


@pytest.mark.covers("G-26")
def test_a_call_that_comes_too_late_is_refused_and_recorded(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), skills=["a"])
    executor = session.executor()
    session.close()
    assert executor.execute_blocking("skills_load", {"skills": ["a"]}).code == "session-not-found"
    assert [(one.event, one.decision, one.code) for one in log.records[-1:]] == [("call", "deny", "session-not-found")]
