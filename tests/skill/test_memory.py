"""Files in memory keep the rules of files on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.errors import FileMissing, FileRefused, FileTooLarge
from metier.skill import FolderPackage, MemoryFile, MemoryPackage

FILES: dict[str, MemoryFile | bytes | str] = {
    "SKILL.md": "---\nname: a\n---\nDo é.\n",
    "scripts/run.sh": MemoryFile(b"#!/bin/sh\n", executable=True),
    "references/api.md": b"# API\n",
}


def test_files_are_listed_sorted_with_kinds_and_sizes() -> None:
    listing = MemoryPackage(FILES).listing()
    assert [(file.path, file.kind, file.size, file.executable) for file in listing.files] == [
        ("SKILL.md", "skill", 23, False),
        ("references/api.md", "reference", 6, False),
        ("scripts/run.sh", "script", 10, True),
    ]
    assert listing.stopped_at is None
    assert MemoryPackage(FILES).paths() == ["SKILL.md", "references/api.md", "scripts/run.sh"]


def test_text_is_kept_as_utf8() -> None:
    assert MemoryPackage(FILES).read("SKILL.md") == "---\nname: a\n---\nDo é.\n".encode()


@pytest.mark.covers("S-08")
@pytest.mark.each("path", ["references/api.md", "./references/api.md", "references\\api.md", "references//api.md"])
def test_a_path_may_be_written_in_several_ways(path: str) -> None:
    assert MemoryPackage(FILES).read(path) == b"# API\n"
    assert MemoryPackage({path: b"x"}).paths() == ["references/api.md"]


@pytest.mark.each("path", ["../x", "/etc/passwd", "a/../../x", "..", "C:\\x", "\\\\host\\share", "", "a\0b", "a\nb"])
def test_a_path_that_leaves_is_refused_in_both_directions(path: str) -> None:
    with pytest.raises(FileRefused):
        MemoryPackage(FILES).read(path)
    with pytest.raises(FileRefused):
        MemoryPackage({path: b"x"})


def test_missing_file_and_folder_are_told_apart() -> None:
    with pytest.raises(FileMissing):
        MemoryPackage(FILES).read("nope.md")
    with pytest.raises(FileRefused, match="folder"):
        MemoryPackage(FILES).read("scripts")


def test_the_limit_is_inclusive() -> None:
    package = MemoryPackage({"SKILL.md": b"12345"})
    assert package.read("SKILL.md", limit=5) == b"12345"
    with pytest.raises(FileTooLarge):
        package.read("SKILL.md", limit=4)


def test_the_same_file_twice_is_refused() -> None:
    with pytest.raises(FileRefused):
        MemoryPackage({"a/b": b"", "a\\b": b""})


def test_a_file_cannot_also_be_a_folder() -> None:
    with pytest.raises(FileRefused):
        MemoryPackage({"a": b"", "a/b": b""})


def test_the_same_files_on_disk_have_the_same_digest(tmp_path: Path) -> None:
    package = MemoryPackage(FILES)
    for file in package.listing().files:
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(package.read(file.path))
        path.chmod(0o755 if file.executable else 0o644)
    assert FolderPackage(tmp_path).digest() == package.digest()
    assert package.signature() == package.digest()


def test_content_path_and_executable_bit_are_all_in_the_digest() -> None:
    packages = [
        MemoryPackage({"a": b"x"}),
        MemoryPackage({"a": b"y"}),
        MemoryPackage({"b": b"x"}),
        MemoryPackage({"a": MemoryFile(b"x", executable=True)}),
        MemoryPackage({"a": b"x", "b": b""}),
        MemoryPackage({}),
    ]
    assert len({package.digest() for package in packages}) == len(packages)
