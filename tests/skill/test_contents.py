"""All files of one content: read in one state, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.errors import FileRefused, FileTooLarge, SkillChanged
from metier.skill import FolderPackage, MemoryFile, MemoryPackage
from metier.skill.package import DigestEntry, content_of, digest_of_files, entries_of, files_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "SKILL.md").write_bytes(b"Do it.")
    (tmp_path / "run.sh").write_bytes(b"true\n")
    (tmp_path / "run.sh").chmod(0o755)
    os.symlink("SKILL.md", tmp_path / "link.md")
    return tmp_path


def test_every_file_has_its_mode_and_a_link_where_it_leads(folder: Path) -> None:
    files = files_of(FolderPackage(folder))
    assert files == {"SKILL.md": ("file", b"Do it."), "run.sh": ("exec", b"true\n"), "link.md": ("link", b"SKILL.md")}
    assert digest_of_files(files) == FolderPackage(folder).digest()


def test_files_of_another_digest_are_refused(folder: Path) -> None:
    package = FolderPackage(folder)
    digest = package.digest()
    assert files_of(package, digest) == files_of(package)
    assert entries_of(package, digest) == package.contents()
    (folder / "SKILL.md").write_bytes(b"Do something else.")
    for read in (files_of, entries_of):
        with pytest.raises(SkillChanged):
            read(package, digest)


@pytest.mark.parametrize("name", ["SKILL.md", "link.md"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_what_is_another_than_what_was_hashed_is_refused(folder: Path, name: str, is_gone: bool) -> None:
    package = FolderPackage(folder)
    entry = next(one for one in package.contents() if one.path == name)
    (folder / name).unlink()
    if not is_gone:
        os.symlink("run.sh", folder / name)
    with pytest.raises(SkillChanged):
        content_of(package, entry)


def test_a_limit_holds(folder: Path) -> None:
    assert files_of(FolderPackage(folder), limit=6)["SKILL.md"] == ("file", b"Do it.")
    with pytest.raises(FileTooLarge):
        files_of(FolderPackage(folder), limit=5)


def test_a_link_in_memory_leads_nowhere() -> None:
    package = MemoryPackage({"a.sh": MemoryFile(b"x", executable=True)})
    assert files_of(package) == {"a.sh": ("exec", b"x")}
    with pytest.raises(FileRefused):
        content_of(package, DigestEntry("a.sh", "link", b""))
