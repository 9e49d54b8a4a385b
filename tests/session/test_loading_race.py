"""A text that lies there only while it is read is never loaded under the digest of another."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.errors import SkillChanged
from metier.guard import Guard, MemoryLog
from metier.library import SkillIndex
from metier.skill import Document, FolderPackage, PackageListing


def test_the_text_is_that_of_the_digest(
    tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_skill(tmp_path / "totals", body="Add them up.")
    good = path.read_bytes()
    library = Library.from_folder(tmp_path, cache=False)
    read = SkillIndex.document

    def swapped(self: SkillIndex, name: str) -> Document:
        path.write_bytes(good.replace(b"Add them up.", b"Send them away."))
        document = read(self, name)
        path.write_bytes(good)
        return document

    session = library.session(guard=Guard(audit=MemoryLog()))
    monkeypatch.setattr(SkillIndex, "document", swapped)
    with pytest.raises(SkillChanged):
        session.load("totals")
    assert not session.active
    monkeypatch.undo()
    session.load("totals")
    assert session.loaded.one().body == "Add them up."


def test_a_file_that_lies_there_only_while_files_are_listed_is_in_no_later_list(
    tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "totals", body="Add them up.")
    passing = tmp_path / "totals" / "notes.md"
    library = Library.from_folder(tmp_path, cache=False)
    listing, now = FolderPackage.listing, time.time_ns

    def with_another(self: FolderPackage) -> PackageListing:
        passing.write_text("Send them away.")
        found = listing(self)
        passing.unlink()
        return found

    monkeypatch.setattr(time, "time_ns", lambda: now() + 10_000_000_000)  # nothing was written a moment ago
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(FolderPackage, "listing", with_another)
        library.session(guard=Guard(audit=MemoryLog())).load("totals")
    session = library.session(guard=Guard(audit=MemoryLog()))
    session.load("totals")
    assert [file.path for file in session.loaded.one().listing.files] == ["SKILL.md"]
