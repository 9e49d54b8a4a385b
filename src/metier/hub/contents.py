"""The files of a skill as they are kept and compared: each with its mode and its bytes, and nothing left out."""

from __future__ import annotations

import hashlib
import os
import posixpath
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import FileRefused, SkillChanged
from metier.skill import FolderPackage, MemoryFile, MemoryPackage, shown
from metier.skill.files import MAX_FILES, DigestEntry, checked_path, digest_of

if TYPE_CHECKING:
    from metier.skill import Package

Mode: TypeAlias = Literal["file", "exec", "link"]
Files: TypeAlias = Mapping[str, tuple[Mode, bytes]]
"""Path to mode and content; the content of a link is where it leads."""


def files_of(package: Package) -> dict[str, tuple[Mode, bytes]]:
    """All files of a skill, in one state; raises `SkillChanged` when somebody writes there meanwhile.

    >>> files_of(MemoryPackage({"SKILL.md": b"Do it."}))
    {'SKILL.md': ('file', b'Do it.')}
    """
    found: dict[str, tuple[Mode, bytes]] = {}
    for path, mode, content in package.contents():
        data = _target_of(package, path) if mode == "link" else package.read(path)
        if hashlib.sha256(data).digest() != content:
            raise SkillChanged(f"{shown(path)!r} changed while it was read.", hint="Try again.", path=path)
        found[path] = (mode, data)
    return found


def _target_of(package: Package, path: str) -> bytes:
    if not isinstance(package, FolderPackage):
        raise FileRefused(f"{shown(path)!r} is a link.", hint="Replace it by a copy of the file.", path=path)
    return os.fsencode(os.readlink(os.path.join(package.root, *path.split("/"))))


def digest_of_files(files: Files) -> str:
    """The digest that a folder with these files has.

    >>> files = {"SKILL.md": ("file", b"Do it.")}
    >>> digest_of_files(files) == MemoryPackage({"SKILL.md": b"Do it."}).digest()
    True
    """
    return digest_of([DigestEntry(path, mode, hashlib.sha256(data).digest()) for path, (mode, data) in files.items()])


def package_of(files: Files) -> MemoryPackage:
    """The files as a package that can be looked into; links, which have no content of their own, are left out."""
    return MemoryPackage(
        {path: MemoryFile(data, mode == "exec") for path, (mode, data) in files.items() if mode != "link"}
    )


def require_sound(files: Files) -> None:
    """Raise `FileRefused` unless these files can lie together in one folder of their own, on every system."""
    if len(files) > MAX_FILES:
        raise FileRefused(f"There are {len(files):,} files; a skill has at most {MAX_FILES:,}.", hint="Remove some.")
    alike: dict[str, str] = {}
    for path, (mode, data) in files.items():
        if "/".join(checked_path(path)) != path:
            raise FileRefused(f"{shown(path)!r} is no plain path.", hint="Write it as in references/api.md.", path=path)
        for end in (at for at, character in enumerate(path) if character == "/"):
            if path[:end] in files:
                raise FileRefused(
                    f"{shown(path[:end])!r} is a file, and {shown(path)!r} would lie in it.",
                    hint="Rename one of them.",
                    path=path,
                )
        other = alike.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            raise FileRefused(
                f"{shown(other)!r} and {shown(path)!r} are the same file on many systems.",
                hint="Rename one of them.",
                path=path,
            )
        if mode == "link" and not _stays_inside(path, data, files):
            raise FileRefused(
                f"{shown(path)!r} is a link that leads to no file of the skill.",
                hint="Replace it by a copy of the file.",
                path=path,
            )


def _stays_inside(link: str, target: bytes, files: Files) -> bool:
    to = os.fsdecode(target)
    led = posixpath.normpath(posixpath.join(posixpath.dirname(link), to))
    return not to.startswith("/") and (led in files or any(path.startswith(f"{led}/") for path in files))
