"""The files of a skill with their bytes, all of one state: whoever changes them meanwhile is noticed.

What is concluded from them, kept or run is then true of one digest, which is what was decided about.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import FileMissing, FileRefused, SkillChanged
from metier.skill.diagnostic import shown
from metier.skill.files import MAX_FILE_BYTES, NAME_LISTED, DigestEntry, digest_of
from metier.skill.folder import FolderPackage

if TYPE_CHECKING:
    from metier.skill.files import Package

Mode: TypeAlias = Literal["file", "exec", "link"]
Files: TypeAlias = Mapping[str, tuple[Mode, bytes]]
"""Path to mode and content; the content of a link is where it leads."""


def files_of(
    package: Package, digest: str | None = None, *, limit: int = MAX_FILE_BYTES
) -> dict[str, tuple[Mode, bytes]]:
    """All files of a skill in one state, each of at most `limit` bytes; with `digest`, in the state that it stands for.

    Raises `SkillChanged` where it is another, or somebody writes there meanwhile.

    >>> from metier.skill import MemoryPackage
    >>> files_of(MemoryPackage({"SKILL.md": b"Do it."}))
    {'SKILL.md': ('file', b'Do it.')}
    """
    entries = package.contents() if digest is None else entries_of(package, digest)
    return {entry.path: (entry.mode, content_of(package, entry, limit=limit)) for entry in entries}


def entries_of(package: Package, digest: str) -> list[DigestEntry]:
    """What a digest is made of; raises `SkillChanged` where the files are no longer those.

    >>> from metier.skill import MemoryPackage
    >>> package = MemoryPackage({"SKILL.md": b"Do it."})
    >>> [entry.path for entry in entries_of(package, package.digest())]
    ['SKILL.md']
    """
    entries = package.contents()
    if digest_of(entries) != digest:
        raise SkillChanged("The files of the skill changed while they were looked at.", hint="Load it again.")
    return entries


def content_of(package: Package, entry: DigestEntry, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file, or where a link leads; raises `SkillChanged` unless they have the hash that was taken.

    >>> from metier.skill import MemoryPackage
    >>> package = MemoryPackage({"SKILL.md": b"Do it."})
    >>> content_of(package, package.contents()[0])
    b'Do it.'
    """
    try:
        data = _target_of(package, entry.path) if entry.mode == "link" else package.read(entry.path, limit=limit)
    except FileMissing:
        raise _changed(entry) from None
    if hashlib.sha256(data).digest() != entry.content:
        raise _changed(entry)
    return data


def digest_of_files(files: Files) -> str:
    """The digest that a folder with these files has.

    >>> from metier.skill import MemoryPackage
    >>> digest_of_files({"SKILL.md": ("file", b"Do it.")}) == MemoryPackage({"SKILL.md": b"Do it."}).digest()
    True
    """
    return digest_of([DigestEntry(path, mode, hashlib.sha256(data).digest()) for path, (mode, data) in files.items()])


def _target_of(package: Package, path: str) -> bytes:
    if not isinstance(package, FolderPackage):
        raise FileRefused(f"{shown(path)!r} is a link.", hint="Replace it by a copy of the file.", path=path)
    try:
        return os.fsencode(os.readlink(os.path.join(package.root, *path.split("/"))))
    except OSError:
        raise FileMissing(f"{shown(path)!r} is no link.", hint=NAME_LISTED, path=path) from None


def _changed(entry: DigestEntry) -> SkillChanged:
    return SkillChanged(f"{shown(entry.path)!r} changed while it was read.", hint="Try again.", path=entry.path)
