"""Whatever happens to the files, a refreshed library says what a fresh one says."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Library

pytestmark = pytest.mark.usefixtures("quiet_files")

NAMES = ("a", "b", "c")
Step = tuple[str, str, str, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "edit", "replace", "rename", "move", "delete", "break", "mend", "nest", "link", "case"]
        ),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.integers(0, 3),
    ),
    max_size=12,
)


class Tree:
    """A small tree of skills, and the ways in which people treat such trees."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def do(self, step: Step) -> None:
        action, name, other, number = step
        folder, file = self.root / name, self.root / name / "SKILL.md"
        if action in ("add", "edit", "mend"):
            if action == "edit" and not file.is_file():
                return
            self._write(file, name, number)
        elif action == "replace" and folder.is_dir():
            self._write(folder / "draft", name, number)
            os.replace(folder / "draft", file)
        elif action == "rename" and file.is_file():
            self._write(file, other, number)
        elif action == "move" and folder.is_dir() and not os.path.lexists(self.root / other):
            folder.rename(self.root / other)
        elif action == "delete" and os.path.lexists(folder):
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
        elif action == "break" and file.is_file():
            file.write_bytes((b"", b"---\n{{{{\n---\nx", b"\xff\xfe\xfd", b"---\nname: a\n---\n")[number])
        elif action == "nest":
            self._write(self.root / "group" / name / "SKILL.md", name, number)
        elif action == "link" and not os.path.lexists(folder):
            folder.symlink_to(other)
        elif action == "case" and file.is_file() and not file.is_symlink():
            file.rename(file.with_name("skill.md"))

    def _write(self, file: Path, name: str, number: int) -> None:
        if file.parent.is_symlink() and not file.parent.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        more = ("", "priority: 2\n", "tags: [x]\n", "metadata: {a: b}\n")[number]
        file.write_text(f"---\nname: {name}\ndescription: Version {number}.\n{more}---\nBody {number}.\n")


def seen(library: Library, *, without: set[str]) -> list[tuple[str, ...]]:
    """What a library says of every skill; of some, only that they are there."""
    told: list[tuple[str, ...]] = []
    for entry in library.entries(all=True):
        if entry.key in without:
            continue
        body = library.document(entry.name).body if entry.status == "active" else ""
        codes = ",".join(note.code for note in entry.diagnostics)
        told.append((entry.key, entry.name, entry.status, entry.description, body, codes))
    return sorted(told)


@given(history=steps)
def test_after_any_history_a_refreshed_library_equals_a_fresh_one(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _live_through(history, Path(folder), lambda library: library.refresh())


@given(history=steps)
def test_after_any_history_a_library_from_the_cache_equals_a_fresh_one(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _live_through(history, Path(folder), None)


def _live_through(history: list[Step], folder: Path, refresh: Callable[[Library], object] | None) -> None:
    root, cache = folder / "skills", folder / "cache"
    root.mkdir()
    tree = Tree(root)
    library = Library.from_folder(root, cache=cache)
    for step in history:
        tree.do(step)
        if refresh is not None:
            refresh(library)
        else:
            library = Library.from_folder(root, cache=cache)
        fresh = Library.from_folder(root, cache=False)
        stale = {entry.key for entry in library.entries(all=True) if entry.is_stale}
        # A stale skill answers to its last good name, which may decide who else is shadowed.
        names = {entry.name for entry in library.entries(all=True) if entry.key in stale}
        names |= {entry.name for entry in fresh.entries(all=True) if entry.key in stale}
        without = stale | {
            entry.key for each in (library, fresh) for entry in each.entries(all=True) if entry.name in names
        }
        assert seen(library, without=without) == seen(fresh, without=without), step
        assert {entry.key for entry in library.entries(all=True)} == {entry.key for entry in fresh.entries(all=True)}
