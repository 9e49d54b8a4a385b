"""A library that refreshes itself."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from metier import Change, Library
from metier.errors import InvalidArgument

Write = Callable[..., Path]
PATIENCE = 20.0


class Heard:
    """Collects changes, and waits until what was awaited has happened."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._condition = threading.Condition()

    def __call__(self, change: Change) -> None:
        with self._condition:
            self.changes.append(change)
            self._condition.notify_all()

    def wait_for(self, awaited: Callable[[], object]) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: bool(awaited()), PATIENCE), self.changes

    def names(self, kind: str) -> set[str]:
        return {name for change in self.changes for name in getattr(change, kind)}


MODES: list[tuple[str, dict[str, object]]] = [
    ("events", {"interval": None, "events": True}),
    ("polling", {"interval": 0.02, "events": False}),
    ("both", {"interval": 0.05, "events": True}),
]


@pytest.fixture(params=[mode for _, mode in MODES], ids=[name for name, _ in MODES])
def mode(request: pytest.FixtureRequest) -> dict[str, object]:
    options: dict[str, object] = request.param
    return options


@pytest.fixture
def library(tmp_path: Path, write_skill: Write) -> Library:
    write_skill(tmp_path / "a", description="Old.")
    return Library.from_folder(tmp_path, cache=False)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("metier-watch")]


@pytest.mark.covers("Y-23", "Y-24", "Y-25")
def test_an_added_an_edited_and_a_removed_skill_are_heard_of(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    heard = Heard()
    with library.watch(heard, **mode):  # type: ignore[arg-type]
        write_skill(tmp_path / "b")
        heard.wait_for(lambda: "b" in heard.names("added"))
        assert "b" in library
        write_skill(tmp_path / "a", description="New.")
        heard.wait_for(lambda: "a" in heard.names("changed") and library.get("a").description == "New.")
        shutil.rmtree(tmp_path / "b")
        heard.wait_for(lambda: "b" in heard.names("removed"))
        assert "b" not in library


@pytest.mark.covers("Y-23")
def test_a_skill_in_a_new_folder_of_folders_is_heard_of(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    heard = Heard()
    with library.watch(heard, **mode):  # type: ignore[arg-type]
        write_skill(tmp_path / "new" / "group" / "deep")
        heard.wait_for(lambda: "deep" in heard.names("added"))


def test_a_file_replaced_by_an_editor_is_heard_of(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    heard = Heard()

    def described(description: str) -> bool:
        return library.get("a").description == description

    with library.watch(heard, **mode):  # type: ignore[arg-type]
        for number in range(3):
            os.replace(
                write_skill(tmp_path / "a", description=f"New {number}.", file="draft"), tmp_path / "a" / "SKILL.md"
            )
            heard.wait_for(partial(described, f"New {number}."))


def test_a_skill_in_a_linked_folder_is_heard_of(tmp_path: Path, write_skill: Write, mode: dict[str, object]) -> None:
    write_skill(tmp_path / "elsewhere" / "a", description="Old.")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "link").symlink_to(tmp_path / "elsewhere")
    library = Library.from_folder(tmp_path / "skills", cache=False)
    heard = Heard()
    with library.watch(heard, **mode):  # type: ignore[arg-type]
        write_skill(tmp_path / "elsewhere" / "a", description="New.")
        heard.wait_for(lambda: library.get("a").description == "New.")


def test_a_folder_that_is_itself_the_skill_is_watched(
    tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    write_skill(tmp_path / "alone", description="Old.")
    library = Library.from_folder(tmp_path / "alone", cache=False)
    heard = Heard()
    with library.watch(heard, **mode):  # type: ignore[arg-type]
        write_skill(tmp_path / "alone", description="New.")
        heard.wait_for(lambda: library.get("alone").description == "New.")


def test_a_place_that_comes_into_being_is_found_by_polling(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "skills" / "a")
    library = Library.from_folder(tmp_path / "skills", cache=False)
    shutil.rmtree(tmp_path / "skills")
    library.refresh()
    heard = Heard()
    with library.watch(heard, interval=0.02):
        write_skill(tmp_path / "skills" / "b")
        heard.wait_for(lambda: "b" in heard.names("added"))


@pytest.mark.covers("Y-26")
def test_a_callback_that_raises_does_not_end_the_watch(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()

    def raising(change: Change) -> None:
        heard(change)
        raise RuntimeError("the callback failed")

    with caplog.at_level(logging.CRITICAL), library.watch(raising, **mode):  # type: ignore[arg-type]
        write_skill(tmp_path / "b")
        heard.wait_for(lambda: "b" in heard.names("added"))
        write_skill(tmp_path / "c")
        heard.wait_for(lambda: "c" in heard.names("added"))


@pytest.mark.covers("Y-26")
def test_a_file_that_becomes_unusable_is_heard_of_and_the_watch_goes_on(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    heard = Heard()
    with library.watch(heard, **mode):  # type: ignore[arg-type]
        (tmp_path / "a" / "SKILL.md").write_bytes(b"")
        heard.wait_for(lambda: library.get("a").is_stale)
        write_skill(tmp_path / "a", description="Mended.")
        heard.wait_for(lambda: library.get("a").description == "Mended.")


@pytest.mark.covers("Y-27")
def test_closing_ends_the_watch_promptly_and_nothing_is_heard_after(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    heard = Heard()
    watching = library.watch(heard, **mode)  # type: ignore[arg-type]
    write_skill(tmp_path / "b")
    heard.wait_for(lambda: "b" in heard.names("added"))
    begin = time.monotonic()
    watching.close()
    assert time.monotonic() - begin < 2
    assert not watching.is_running
    count = len(heard.changes)
    write_skill(tmp_path / "c")
    library.refresh()
    assert len(heard.changes) == count


@pytest.mark.covers("Y-27")
def test_a_long_interval_does_not_hold_up_closing(library: Library) -> None:
    watching = library.watch(lambda change: None, interval=3600.0, events=False)
    assert watching.is_running
    begin = time.monotonic()
    watching.close()
    assert time.monotonic() - begin < 2


def test_closing_twice_and_closing_from_a_callback_are_harmless(
    library: Library, tmp_path: Path, write_skill: Write, mode: dict[str, object]
) -> None:
    ready, closed = threading.Event(), threading.Event()

    def close(change: Change) -> None:
        ready.wait(PATIENCE)
        watching.close()
        closed.set()

    watching = library.watch(close, **mode)  # type: ignore[arg-type]
    ready.set()
    write_skill(tmp_path / "b")
    assert closed.wait(PATIENCE)
    watching.close()
    watching.close()
    assert not watching.is_running


@pytest.mark.covers("Y-28")
def test_with_neither_events_nor_polling_nothing_runs(library: Library, tmp_path: Path, write_skill: Write) -> None:
    before = threading.active_count()
    heard = Heard()
    with library.watch(heard, interval=None, events=False) as watching:
        assert not watching.is_running
        assert threading.active_count() == before
        write_skill(tmp_path / "b")
        assert "b" not in library
    assert heard.changes == []


@pytest.mark.each("interval", [0, -1, 0.001, 100_000, float("inf"), float("nan")])
def test_an_interval_that_cannot_work_is_refused(library: Library, interval: float) -> None:
    with pytest.raises(InvalidArgument, match="interval"):
        library.watch(lambda change: None, interval=interval)


def test_memory_alone_can_be_watched_for_nothing() -> None:
    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: b\n---\nc"})
    with library.watch(lambda change: None, interval=0.02) as watching:
        assert watching.is_running
