"""The files of a workspace: read without following a link, and never more than is kept."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier._paths import HAS_DIR_FD, LIST, READ, open_below
from metier.errors import MetierError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_ENTRIES = 2_000
MAX_DEPTH = 32
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_BYTES = 32 * 1024 * 1024
MORE = "*"
"""Stands for whatever was not even listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceContent:
    """The content of a workspace at one moment."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """The paths of links, pipes, devices and what is too large or too deep; `*` where there is more than was listed."""


def read_workspace(folder: Path) -> WorkspaceContent:
    """Read the plain files below a folder that somebody else wrote to; what cannot be read is left out by name."""
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    waiting: list[tuple[str, ...]] = [()]
    room, seen = MAX_BYTES, 0
    while waiting:
        parents = waiting.pop()
        try:
            for name, mode in _entries(folder, parents):
                seen += 1
                if seen > MAX_ENTRIES:
                    return WorkspaceContent(files=files, left_out=(*left_out, MORE))
                segments = (*parents, name)
                # A name that is no text stays apart from each name that is one.
                path = "/".join(segments).encode(errors="backslashreplace").decode()
                if stat.S_ISDIR(mode) and len(segments) < MAX_DEPTH:
                    waiting.append(segments)
                    continue
                data = _content(folder, segments, min(room, MAX_FILE_BYTES)) if stat.S_ISREG(mode) else None
                if data is None:
                    left_out.append(path)
                else:
                    files[path] = data
                    room -= len(data)
        except (OSError, MetierError):
            left_out.append("/".join(parents) or MORE)
    return WorkspaceContent(files=files, left_out=tuple(left_out))


def _own_path(folder: Path) -> str:
    """The path that the folder had when it was made: a link that took its place leads elsewhere."""
    return os.path.join(os.path.realpath(folder.parent), folder.name)


def _entries(folder: Path, segments: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    own = _own_path(folder)
    with open_below(own, segments, contain=own) as place:
        if not HAS_DIR_FD:
            yield from _listing(place.path)
            return
        descriptor = os.open(place.at(), LIST, dir_fd=place.parent)
        try:
            yield from _listing(descriptor)
        finally:
            os.close(descriptor)


def _listing(folder: int | str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.stat(follow_symlinks=False).st_mode


def _content(folder: Path, segments: tuple[str, ...], most: int) -> bytes | None:
    """The bytes of a plain file; None for anything else in its place, and for more than `most`."""
    own = _own_path(folder)
    try:
        with open_below(own, segments, contain=own) as place:
            descriptor = os.open(place.at(), READ, dir_fd=place.parent)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                data = file.read(most + 1)
    except (OSError, MetierError):
        return None
    return data if len(data) <= most else None
