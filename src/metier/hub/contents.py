"""The files of a skill that are to lie together in a folder: as a package, and whether they can."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from typing import TYPE_CHECKING

from metier.errors import FileRefused
from metier.skill import MemoryFile, MemoryPackage, shown
from metier.skill.files import MAX_FILES, checked_path

if TYPE_CHECKING:
    from metier.skill.contents import Files


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
