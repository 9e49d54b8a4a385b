"""One library, many threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from metier import Library

Write = Callable[..., Path]
PATIENCE = 20.0


@pytest.fixture
def library(tmp_path: Path, write_skill: Write) -> Library:
    for number in range(20):
        write_skill(tmp_path / f"s{number:02d}", body=f"Body {number}.")
    return Library.from_folder(tmp_path, cache=False)


@pytest.fixture
def busy_switching() -> Iterator[None]:
    """Threads take turns fifty times as often, so that more of their ways to interleave are tried."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.covers("O-31")
def test_readers_never_wait_for_a_refresh(
    library: Library, tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    real = os.scandir

    def held(path: str) -> object:
        if threading.current_thread().name == "refresher":
            inside.set()
            assert go_on.wait(PATIENCE)
        return real(path)

    write_skill(tmp_path / "new")
    monkeypatch.setattr(os, "scandir", held)
    refresher = threading.Thread(target=library.refresh, name="refresher")
    refresher.start()
    try:
        assert inside.wait(PATIENCE)
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(_read_everything, library).result(timeout=PATIENCE)
        assert read == 20
        assert refresher.is_alive()
    finally:
        go_on.set()
        refresher.join(PATIENCE)
    assert len(library) == 21


def _read_everything(library: Library) -> int:
    for entry in library:
        assert library.document(entry.name).body.startswith("Body ")
        assert library.digest(entry.name).startswith("sha256:")
        assert entry.description == "Does it."
    return len(library.entries(all=True))


@pytest.mark.covers("O-31")
@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_eight_threads_read_one_consistent_state_while_it_is_refreshed(
    library: Library, tmp_path: Path, write_skill: Write, busy_switching: None, rounds: int
) -> None:
    """A pair of skills is renamed together; nobody ever sees half of a pair."""
    end = threading.Event()
    seen: set[frozenset[str]] = set()

    def read() -> int:
        count = 0
        while not end.is_set() or count == 0:
            names = frozenset(entry.name for entry in library if entry.name.startswith("pair"))
            seen.add(names)
            _read_everything_that_is_left(library)
            count += 1
        return count

    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(read) for _ in range(8)]
        try:
            for number in range(rounds):
                for side in ("left", "right"):
                    write_skill(tmp_path / side, name=f"pair-{side}-{number}")
                library.refresh()
        finally:
            end.set()
        wait(readers, timeout=PATIENCE)
        assert all(reader.result() for reader in readers)
    assert {len(names) for names in seen} <= {0, 2}
    assert all(len({name.rpartition("-")[2] for name in names}) == 1 for names in seen if names)


def _read_everything_that_is_left(library: Library) -> None:
    for entry in library.entries(all=True):
        assert entry.name
        assert entry.description == "Does it."
        assert entry.diagnostics is not None


@pytest.mark.covers("O-31")
def test_refreshes_from_many_threads_report_each_change_once(
    library: Library, tmp_path: Path, write_skill: Write
) -> None:
    for number in range(10):
        write_skill(tmp_path / f"new-{number}")
    with ThreadPoolExecutor(8) as pool:
        changes = list(pool.map(lambda _: library.refresh(), range(16)))
    added = [name for change in changes for name in change.added]
    assert sorted(added) == [f"new-{number}" for number in range(10)]


@pytest.mark.covers("O-31")
def test_five_threads_open_the_same_folder_at_once(tmp_path: Path, write_skill: Write) -> None:
    for number in range(50):
        write_skill(tmp_path / "skills" / f"s{number:02d}")
    with ThreadPoolExecutor(5) as pool:
        libraries = list(
            pool.map(lambda _: Library.from_folder(tmp_path / "skills", cache=tmp_path / "cache"), range(15))
        )
    assert {tuple(entry.name for entry in library) for library in libraries} == {
        tuple(f"s{number:02d}" for number in range(50))
    }


def test_callers_in_many_threads_see_only_their_own(tmp_path: Path, write_skill: Write) -> None:
    for number in range(8):
        write_skill(tmp_path / f"s{number}", more=f"scope:\n  agents: [agent-{number}]\n")
    library = Library.from_folder(tmp_path, cache=False)

    def names(number: int) -> list[str]:
        view = library.as_caller(agent=f"agent-{number}")
        library.refresh()
        return [entry.name for entry in view]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(names, list(range(8)) * 10)) == [[f"s{number}"] for number in range(8)] * 10
