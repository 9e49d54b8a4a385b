"""Listings of folders, as far as protection needs them: read once and kept until the folders change."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from metier.guard.protected_names import CLOSED_IN_REPOSITORY, REPOSITORY_MARKS, names_beginning, normal_name

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_FOLDERS = 20_000
"""How many folders of a workspace are searched."""
OF_REPOSITORIES = frozenset((*REPOSITORY_MARKS, *CLOSED_IN_REPOSITORY))

_T = TypeVar("_T")


class Cached(Generic[_T]):
    """A cache of values read from files and folders until they change: most of a workspace stays the same."""

    _MOST = 2 * MOST_FOLDERS
    _FRESH = 50_000_000
    """Nanoseconds in which something may change again without the kernel's clock showing it."""

    def __init__(self, read: Callable[[str], _T], absent: _T, *, follows: bool) -> None:
        self._read, self._absent, self._follows = read, absent, follows
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[tuple[int, int, int], _T]] = {}

    def of(self, path: str) -> _T:
        """The value read from a path, or the one for absent paths where it cannot be read."""
        try:
            status = os.stat(path, follow_symlinks=self._follows)
            # Not the time of its last change, which anybody can set.
            key = (status.st_dev, status.st_ino, status.st_ctime_ns)
            kept = self._kept.get(path)
            if kept is not None and kept[0] == key:
                return kept[1]
            found = self._read(path)
        except (OSError, ValueError):
            return self._absent
        if time.time_ns() - status.st_ctime_ns > self._FRESH:
            with self._lock:
                self._kept[path] = (key, found)
                while len(self._kept) > self._MOST:
                    del self._kept[next(iter(self._kept))]
        return found


class Entry(NamedTuple):
    """An entry of a folder whose name is a protected name, or a part of one."""

    path: str
    name: str
    normal: str
    kind: str
    """`folder`, `link`, or `file` for all else."""


class Listing(NamedTuple):
    """The entries of a folder that protection needs."""

    folders: tuple[tuple[str, str, str], ...] = ()
    """The folders in it: path, name, and the name as it is compared."""
    entries: tuple[Entry, ...] = ()
    links: tuple[str, ...] = ()
    """The paths of all links."""
    is_repository: bool = False
    has_head: bool = False


NOTHING = Listing()


def _read_listing(path: str) -> Listing:
    folders: list[tuple[str, str, str]] = []
    entries: list[Entry] = []
    links: list[str] = []
    parent = normal_name(os.path.basename(path))
    seconds = {parts[1] for parts, _ in names_beginning(parent) if len(parts) == 2}
    marks = set()
    with os.scandir(path) as listing:
        for entry in listing:
            is_folder = entry.is_dir(follow_symlinks=False)
            normal = normal_name(entry.name)
            if entry.is_symlink():
                links.append(entry.path)
            if is_folder:
                folders.append((entry.path, entry.name, normal))
            if entry.name in OF_REPOSITORIES:
                marks.add(entry.name)
            if names_beginning(normal) or normal in seconds:
                kind = "link" if entry.is_symlink() else "folder" if is_folder else "file"
                entries.append(Entry(entry.path, entry.name, normal, kind))
    # The rest of a repository may be where `commondir` says.
    is_repository = marks.issuperset(REPOSITORY_MARKS) or marks.issuperset(("HEAD", "commondir"))
    return Listing(tuple(folders), tuple(entries), tuple(links), is_repository, "HEAD" in marks)


listings: Cached[Listing | None] = Cached(_read_listing, None, follows=False)
