"""The top-level text for a model call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from metier import Library, Session
from metier.find import Finder

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]


def block(text: str, tag: str) -> str:
    """What stands inside an element of the text; empty when there is none."""
    return text.partition(f"\n<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


def test_without_skills_there_is_nothing_to_say() -> None:
    assert Library.from_files().session().instructions() == ""


@pytest.mark.covers("G-31")
def test_before_anything_is_loaded_there_are_rules_and_the_catalog(begin: Begin, skill: Files) -> None:
    text = begin(skill("a"), skill("b")).instructions()
    assert text.startswith("# Skills\n")
    assert "<name>a</name>" in block(text, "available_skills")
    assert "<name>b</name>" in block(text, "available_skills")
    assert "active_skills" not in text.partition("<available_skills>\n")[2]


@pytest.mark.covers("G-31", "G-40")
def test_bodies_at_the_top_level_are_there_while_their_skill_is_active(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", "Body A."), skill("b", "Body B."), delivery="instructions")
    session.load("a")
    first = session.instructions()
    assert "Body A." in block(first, "active_skills")
    assert "<name>a</name>" not in block(first, "available_skills")
    assert "<name>b</name>" in block(first, "available_skills")
    assert "top-level instructions" in session.prompt.content()
    session.load("b")
    second = session.instructions()
    assert "Body A." not in second
    assert "Body B." in block(second, "active_skills")


@pytest.mark.covers("G-40")
def test_bodies_that_come_in_results_are_not_said_a_second_time(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", "Body A."))
    session.load("a")
    assert "Body A." in session.prompt.content()
    text = session.instructions()
    assert "Body A." not in text
    assert '<skill name="a"' in block(text, "active_skills")


@pytest.mark.covers("G-41")
def test_the_active_skills_stand_in_the_order_they_were_loaded_and_the_last_counts(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), delivery="instructions", skills=["c", "a", "b"])
    text = session.instructions()
    places = [text.index(f'<skill_content name="{name}"') for name in "cab"]
    assert places == sorted(places)
    assert "the one that was loaded last counts" in text


@pytest.mark.covers("G-31")
def test_a_second_call_reads_nothing_again(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "s" / "a")
    session = begin_in(tmp_path / "s", skills=["a"], delivery="instructions")
    first = session.instructions("do it")
    with (
        mock.patch.object(type(session.library.index), "document", side_effect=AssertionError),
        mock.patch.object(Finder, "catalog", side_effect=AssertionError),
    ):
        assert session.instructions("do it") == first


def test_what_changes_in_the_library_or_the_guard_shows_in_the_next_call(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "s" / "a")
    session = begin_in(tmp_path / "s")
    assert "<name>b</name>" not in session.instructions()
    write_skill(tmp_path / "s" / "b")
    session.library.refresh()
    assert "<name>b</name>" in session.instructions()
    session.guard.block("b")
    assert "<name>b</name>" not in session.instructions()
    session.guard.unblock("b")
    assert "<name>b</name>" in session.instructions()


@pytest.mark.parametrize("by_digest", [False, True])
def test_blocked_skills_are_not_shown_listed_or_found(begin: Begin, skill: Files, by_digest: bool) -> None:
    session = begin(*(skill(name) for name in ("alpha", "beta", "gamma")))
    for name in ("alpha", "beta"):
        session.guard.block(session.library.digest(name) if by_digest else name)
        assert name not in [entry.name for entry in session.prompt.matching()]
        assert name not in [result.name for result in session.prompt.search(f"does {name}")]
        assert f"<name>{name}</name>" not in session.prompt.catalog()
        assert f"<name>{name}</name>" not in session.instructions()
    assert [entry.name for entry in session.prompt.matching()] == ["gamma"]


def test_a_blocked_skill_takes_its_body_out_of_the_next_call(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", "Body A."), skills=["a"], delivery="instructions")
    assert "Body A." in session.instructions()
    session.guard.block("a")
    assert "Body A." not in session.instructions()


def test_a_stale_skill_is_said_to_be(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "s" / "a")
    session = begin_in(tmp_path / "s", skills=["a"])
    assert 'stale="true"' not in session.instructions()
    write_skill(tmp_path / "s" / "a", body="Something else entirely.")
    session.library.refresh()
    assert '<skill name="a" root="' in session.instructions()
    assert 'stale="true"/>' in session.instructions()


def test_a_text_made_while_another_thread_loads_is_not_kept_for_what_it_loaded(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skills=["a"])
    look, interrupted = session.loaded.live, threading.Event()

    def look_and_be_interrupted() -> Any:
        active = look()
        if not interrupted.is_set():
            # Right after it was seen that only `a` is active, somebody loads `b`.
            interrupted.set()
            thread = threading.Thread(target=lambda: session.load("b", "add"))
            thread.start()
            thread.join()
        return active

    with mock.patch.object(session.loaded, "live", look_and_be_interrupted):
        assert '<skill name="b"' not in session.instructions()
    assert '<skill name="b"' in session.instructions()


@pytest.mark.parametrize("steps", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_texts_are_made_by_many_threads_at_once(begin: Begin, skill: Files, steps: int) -> None:
    session = begin(skill("a"), skill("b"))
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def ask(number: int) -> None:
        start.wait()
        try:
            for step in range(steps):
                session.load("ab"[(number + step) % 2])
                text = session.instructions(f"prompt {number * steps + step}")
                assert text.count("<active_skills>\n") == 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.covers("G-30")
@pytest.mark.each(
    ("criteria", "names"),
    [
        ({}, ["a", "b", "c"]),
        ({"activity": "active"}, ["b"]),
        ({"activity": "inactive"}, ["a", "c"]),
        ({"activity": "inactive", "names": ["a", "b"]}, ["a"]),
        ({"activity": "active", "name_prefix": "a"}, []),
    ],
)
def test_the_library_lists_by_what_a_session_has_loaded(
    begin: Begin, skill: Files, criteria: dict[str, Any], names: list[str]
) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), skills=["b"])
    found = session.library.select(active=[one.name for one in session.active], **criteria)
    assert [entry.name for entry in found] == names


@pytest.mark.covers("G-19")
def test_skills_are_listed_by_name_and_then_location_with_filters(write_skill: Write, tmp_path: Path) -> None:
    for folder, name in (("one", "b"), ("one", "a"), ("two", "c")):
        write_skill(tmp_path / folder / name)
    library = Library.from_folder(tmp_path / "one", tmp_path / "two")
    assert [entry.name for entry in library.select()] == ["a", "b", "c"]
    assert [entry.name for entry in library.select(location_prefix=str(tmp_path / "two"))] == ["c"]
    assert [entry.name for entry in library.select(names=["a", "zz"])] == ["a"]
    assert library.select(name_prefix="a" * 10_000) == ()
    assert library.select(inserts=["user-message"]) == ()
