"""Protected places on disk: what a protected name leads to in a folder, with links and git's settings followed.

A name is protected wherever it stands below the folder; so is what it leads to by a link, a repository of any name, and
each file in the folder that the settings of a repository make git start something from. Folders of installed packages
are not searched: their code runs as part of the work in any case.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.protected_names import (
    CLOSED_IN_REPOSITORY,
    REPOSITORY,
    REPOSITORY_MARKS,
    names_beginning,
    normal_name,
    protecting,
)
from metier.skill.folder import is_inside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

MOST_FOLDERS = 20_000
"""How many folders of a workspace are searched."""
_NOT_SEARCHED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", "site-packages"})
_NO_LINKS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The protected places in a folder, by absolute paths."""

    names: frozenset[str] = frozenset()
    """Every protected name that is there."""
    closed: tuple[str, ...] = ()
    """The files and folders that must not be written, with links resolved; none of them inside another."""
    links: Mapping[str, str] = field(default_factory=lambda: _NO_LINKS)
    """The protected names that are links, and where each leads."""
    is_cut: bool = False
    """Whether the folder has more folders than are searched."""


def survey(folder: str, grants: Collection[str] = ()) -> Survey:
    """The protected places in a folder without those that are granted; nothing in one that cannot be opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(os.path.join(folder, "sub", ".git", "hooks"))
    ...     [os.path.relpath(path, os.path.realpath(folder)) for path in survey(folder).closed]
    ['sub/.git']
    """
    root = os.path.realpath(folder)
    found = _Finding(root, grants)
    waiting = [(root, "")]
    searched = 0
    while waiting:
        path, name = waiting.pop()
        searched += 1
        if searched > MOST_FOLDERS:
            break
        listing = _listings.of(path)
        if listing is None:
            continue
        hits = found.take(path, name, listing)
        waiting.extend(
            (os.path.join(path, below), normal)
            for below, normal in listing.folders
            if below not in hits and below not in _NOT_SEARCHED
        )
    return found.survey(is_cut=searched > MOST_FOLDERS)


def closing(root: str, path: str, grants: Collection[str] = ()) -> str | None:
    """What closes a path, which is absolute and free of links, to every way of writing in a workspace; None if nothing.

    >>> import tempfile
    >>> folder = os.path.realpath(tempfile.mkdtemp())
    >>> closing(folder, f"{folder}/.envrc"), closing(folder, f"{folder}/notes.md")
    ('.envrc', None)
    """
    root = os.path.realpath(root)
    if not is_inside(path, root):
        return None
    name = protecting(os.path.relpath(path, root), grants)
    if name is not None:
        return name
    return next((os.path.relpath(one, root) for one in survey(root, grants).closed if is_inside(path, one)), None)


class _Entry(NamedTuple):
    name: str
    normal: str
    kind: str
    """`folder`, `link`, or `file` for all else."""


class _Listing(NamedTuple):
    """What a folder holds of interest."""

    folders: tuple[tuple[str, str], ...]
    entries: tuple[_Entry, ...]
    """The entries whose names are protected names, or parts of one."""
    is_repository: bool


class _Listings:
    """Listings of folders, each kept until the folder changes: most of a workspace is the same at the next look."""

    _MOST = 2 * MOST_FOLDERS
    _FRESH = 50_000_000
    """Nanoseconds in which a folder may change again without the kernel's clock showing it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[tuple[int, int, int], _Listing]] = OrderedDict()

    def of(self, path: str) -> _Listing | None:
        """What a folder holds; None where it cannot be listed, or is none."""
        import time

        try:
            status = os.stat(path, follow_symlinks=False)
            # Not the time of its last change, which anybody can set.
            key = (status.st_dev, status.st_ino, status.st_ctime_ns)
            kept = self._kept.get(path)
            if kept is not None and kept[0] == key:
                return kept[1]
            listing = _listed(path)
        except (OSError, ValueError):
            return None
        if time.time_ns() - status.st_ctime_ns > self._FRESH:
            with self._lock:
                self._kept[path] = (key, listing)
                while len(self._kept) > self._MOST:
                    self._kept.popitem(last=False)
        return listing


_listings = _Listings()


def _listed(path: str) -> _Listing:
    folders: list[tuple[str, str]] = []
    entries: list[_Entry] = []
    parent = normal_name(os.path.basename(path))
    seconds = {parts[1] for parts, _ in names_beginning(parent) if len(parts) == 2}
    marks = set()
    with os.scandir(path) as listing:
        for entry in listing:
            is_folder = entry.is_dir(follow_symlinks=False)
            normal = normal_name(entry.name)
            if is_folder:
                folders.append((entry.name, normal))
            if entry.name in REPOSITORY_MARKS:
                marks.add(entry.name)
            if names_beginning(normal) or normal in seconds:
                kind = "link" if entry.is_symlink() else "folder" if is_folder else "file"
                entries.append(_Entry(entry.name, normal, kind))
    return _Listing(tuple(folders), tuple(entries), len(marks) == len(REPOSITORY_MARKS))


class _Finding:
    """The survey of one folder while it is made."""

    def __init__(self, root: str, grants: Collection[str]) -> None:
        self._root, self._grants = root, frozenset(grants)
        self._names: set[str] = set()
        self._closed: dict[str, None] = {}
        self._links: dict[str, str] = {}

    def take(self, folder: str, parent: str, listing: _Listing) -> set[str]:
        """Add what a folder holds; the names of its entries that need no more search."""
        hits = set()
        if listing.is_repository:
            hits |= self._repository(folder, is_top=folder == self._root)
        for entry in listing.entries:
            name = _matching(parent, entry)
            if name is None:
                continue
            path = os.path.join(folder, entry.name)
            if name in self._grants:
                if name in REPOSITORY and entry.kind == "folder":
                    hits.add(entry.name)
                    self._granted_repository(path)
                continue
            hits.add(entry.name)
            self._add(path, entry.kind)
            if name in REPOSITORY:
                self._settings(path, os.path.dirname(path))
        return hits

    def survey(self, *, is_cut: bool) -> Survey:
        outermost: list[str] = []
        for path in sorted(self._closed):
            if not outermost or not is_inside(path, outermost[-1]):
                outermost.append(path)
        return Survey(
            names=frozenset(self._names), closed=tuple(outermost), links=MappingProxyType(self._links), is_cut=is_cut
        )

    def _add(self, path: str, kind: str) -> None:
        if kind == "folder" and normal_name(os.path.basename(path)) in _STAND_IN_FOLDERS and not _has_entries(path):
            return  # the stand-in of a job, or of no use to anybody
        self._names.add(path)
        if kind != "link":
            self._closed[path] = None
            return
        try:
            self._links[path] = os.readlink(path)
        except OSError:
            return
        self._close(os.path.realpath(path))

    def _close(self, real: str) -> None:
        # A link to the workspace itself closes nothing, or all would be.
        if real != self._root and is_inside(real, self._root) and os.path.lexists(real):
            self._closed[real] = None

    def _repository(self, folder: str, *, is_top: bool) -> set[str]:
        """A repository that goes by any name; in a workspace that is one, only what git starts something from."""
        self._settings(folder, folder)
        if not is_top:
            self._names.add(os.path.join(folder, "HEAD"))
            self._closed[folder] = None
            return {name for name, _ in (_listings.of(folder) or _EMPTY).folders}
        self._granted_repository(folder)
        return set(CLOSED_IN_REPOSITORY)

    def _granted_repository(self, repository: str) -> None:
        for name in CLOSED_IN_REPOSITORY:
            path = os.path.join(repository, name)
            if os.path.lexists(path):
                is_folder = os.path.isdir(path) and not os.path.islink(path)
                self._add(path, "link" if os.path.islink(path) else "folder" if is_folder else "file")
        self._settings(repository, os.path.dirname(repository))
        for path in _links_below(repository):
            if path not in self._links:
                self._names.add(path)
                self._links[path] = os.readlink(path)

    def _settings(self, repository: str, work_tree: str) -> None:
        for path in _started_from(repository, work_tree):
            if not is_inside(path, repository):
                self._close(path)


_EMPTY = _Listing((), (), False)
STAND_INS: Mapping[str, bytes | None] = MappingProxyType(
    {
        **dict.fromkeys((
            ".git", ".envrc", ".vscode", ".idea", ".zed", ".devcontainer", ".husky", ".agents", ".claude", ".codex",
            ".cursor", ".gemini", ".metier", ".windsurf", ".continue", "HEAD",
        )),
    }
)  # fmt: skip
"""Names that running programs look for by themselves, at the top of a workspace: while a job runs, an absent one is
taken by an empty folder, which git lists nowhere and no program starts anything from."""
STAND_INS_IN_REPOSITORY: Mapping[str, bytes | None] = MappingProxyType(
    {"hooks": None, "info": None, "modules": None, "worktrees": None, "commondir": b"."}
)
"""The same in a repository that is granted. A file `commondir` with a dot is what git does without one."""
_STAND_IN_FOLDERS = frozenset(map(normal_name, (*STAND_INS, *STAND_INS_IN_REPOSITORY)))


def _matching(parent: str, entry: _Entry) -> str | None:
    """The protected name that an entry of a folder is or, as a link, leads into."""
    for parts, name in names_beginning(entry.normal):
        if len(parts) == 1 or entry.kind == "link":
            return name
    for parts, name in names_beginning(parent):
        if len(parts) == 2 and parts[1] == entry.normal:
            return name
    return None


def _has_entries(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return True


def _links_below(folder: str) -> Iterator[str]:
    for path, folders, files in os.walk(folder):
        yield from (os.path.join(path, name) for name in (*folders, *files) if os.path.islink(os.path.join(path, name)))


_STARTS = re.compile(
    r"(?:hookspath|fsmonitor|editor|pager|sshcommand|askpass|program|command|cmd|helper|textconv|clean|smudge|process"
    r"|driver|path|attributesfile|gitproxy|alternaterefscommand|uploadpack|receivepack)\Z",
    re.IGNORECASE,
).match
_SETTING = re.compile(r"[ \t]*([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)")
_MOST_SETTINGS = 256 * 1024
_MOST_INCLUDED = 16


def _started_from(repository: str, work_tree: str) -> Iterator[str]:
    """The paths that the settings of a repository name as something to start, or to take settings from."""
    waiting = [os.path.join(repository, name) for name in ("config", "config.worktree")]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_INCLUDED:
        file = os.path.realpath(waiting.pop())
        if file in seen:
            continue
        seen.add(file)
        for key, value in _settings_in(file):
            is_alias = value.startswith("!")
            if not is_alias and not _STARTS(key):
                continue
            for word in value.lstrip("!").replace('"', " ").replace("'", " ").split()[:32]:
                for base in (work_tree, os.path.dirname(file)):
                    path = os.path.realpath(os.path.join(base, os.path.expanduser(word)))
                    if os.path.lexists(path):
                        yield path
                        if key.lower() == "path" and os.path.isfile(path):
                            waiting.append(path)


def _settings_in(file: str) -> Iterator[tuple[str, str]]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return
    with os.fdopen(descriptor, "rb") as opened:
        try:
            text = opened.read(_MOST_SETTINGS).decode("utf-8", "surrogateescape")
        except OSError:
            return
    for line in text.splitlines():
        matched = _SETTING.match(line)
        if matched:
            yield matched[1], matched[2].strip().strip('"')
