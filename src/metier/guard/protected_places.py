"""Protected places on disk: what a protected name leads to in a folder, with links and git's settings followed.

A name is protected wherever it stands below the folder; so is what it leads to by a link, a repository of any name, and
each file in the folder that the settings of a repository make git start something from. Folders of installed packages
are not searched: their code runs as part of the work in any case.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

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
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

MOST_FOLDERS = 20_000
"""How many folders of a workspace are searched."""
_NOT_SEARCHED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", "site-packages"})
_NO_LINKS: Mapping[str, str] = MappingProxyType({})
_OF_REPOSITORIES = frozenset((*REPOSITORY_MARKS, *CLOSED_IN_REPOSITORY))
_NOTHING_STARTS = frozenset({"objects", "refs", "logs"})
"""Folders of a repository that nothing is started from, with thousands of files that several may share."""
_MOST_LINKS = 40
_MOST_SHARED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The protected places in a folder, by absolute paths."""

    names: frozenset[str] = frozenset()
    """Every protected name that is there."""
    closed: tuple[str, ...] = ()
    """The files and folders that must not be written, with links resolved; none of them inside another."""
    links: Mapping[str, str] = field(default_factory=lambda: _NO_LINKS)
    """Where each link leads that is a protected name, or on the way from one."""
    targets: frozenset[str] = frozenset()
    """Every link on the way from a protected name to where it leads, and what it leads to or git's settings name, be it
    there or not: whoever makes it makes what is started."""
    unreadable: frozenset[str] = frozenset()
    """Folders whose content cannot be listed; they are closed as a whole."""
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
            if path != root:
                found.take_unreadable(path)
            continue
        hits = found.take(path, name, listing)
        waiting.extend(
            (os.path.join(path, below), normal)
            for below, normal in listing.folders
            if below not in hits and below not in _NOT_SEARCHED
        )
    return found.survey(is_cut=searched > MOST_FOLDERS)


def closing(root: str, path: str, grants: Collection[str] = (), *, is_link: bool = False) -> str | None:
    """What closes a path, which is absolute and free of links, to every way of writing in a workspace; None if nothing.

    With `is_link`, a link is to be put there, by which what lies below would lead elsewhere.

    >>> import tempfile
    >>> folder = os.path.realpath(tempfile.mkdtemp())
    >>> closing(folder, f"{folder}/.envrc"), closing(folder, f"{folder}/notes.md")
    ('.envrc', None)
    """
    return next(closings(root, [(path, is_link)], grants))


def closings(root: str, paths: Iterable[tuple[str, bool]], grants: Collection[str] = ()) -> Iterator[str | None]:
    """The same for many paths, each with whether a link is to be put there, by one look at the workspace."""
    root = os.path.realpath(root)
    found: Survey | None = None
    for path, is_link in paths:
        if path == root or not is_inside(path, root):
            yield None
            continue
        relative = os.path.relpath(path, root)
        name = protecting(relative, grants)
        if name is None:
            found = found or survey(root, grants)
            name = _in_survey(root, path, found, is_link=is_link)
        yield name or _repository_above(root, relative, grants) or _shared_file(root, path, found)


def _in_survey(root: str, path: str, found: Survey, *, is_link: bool) -> str | None:
    above = path
    while above != root:
        if above in found.targets or above in found.closed:
            return os.path.relpath(above, root)
        above = os.path.dirname(above)
    below = (one for one in (*found.targets, *found.closed) if is_link and is_inside(one, path))
    return next((os.path.relpath(one, root) for one in below), None)


def _repository_above(root: str, relative: str, grants: Collection[str]) -> str | None:
    """The repository of any name that a path lies in or would complete, also where no survey looks."""
    folder = root
    for part in relative.split(os.sep):
        listing = _listings.of(folder)
        if listing is None:
            return None
        if listing.is_repository and folder != root:
            return os.path.relpath(folder, root)
        if listing.has_head and not listing.is_repository and normal_name(part) in _OF_REPOSITORIES:
            return os.path.relpath(os.path.join(folder, "HEAD"), root)
        folder = os.path.join(folder, part)
        if normal_name(part) in REPOSITORY and part in grants:
            return None
    return None


def _shared_file(root: str, path: str, found: Survey | None) -> str | None:
    """The protected file that a path is another name of, by a hard link."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return None
    for file in islice(_files_in(found.closed if found is not None else ()), _MOST_SHARED):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.lstat(file), status):
                return os.path.relpath(file, root)
    return None


def _files_in(paths: Collection[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            yield path
        for folder, folders, files in os.walk(path):
            folders[:] = [name for name in folders if name not in _NOTHING_STARTS]
            yield from (os.path.join(folder, name) for name in files)


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
    links: tuple[str, ...] = ()
    is_repository: bool = False
    has_head: bool = False


_T = TypeVar("_T")


class _Cached(Generic[_T]):
    """What is read of files and folders, kept until they change: most of a workspace is the same at the next look."""

    _MOST = 2 * MOST_FOLDERS
    _FRESH = 50_000_000
    """Nanoseconds in which something may change again without the kernel's clock showing it."""

    def __init__(self, read: Callable[[str], _T], absent: _T, *, follows: bool) -> None:
        self._read, self._absent, self._follows = read, absent, follows
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[tuple[int, int, int], _T]] = OrderedDict()

    def of(self, path: str) -> _T:
        """What a path holds, or what stands for nothing where it cannot be read."""
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
                    self._kept.popitem(last=False)
        return found


def _listed(path: str) -> _Listing:
    folders: list[tuple[str, str]] = []
    entries: list[_Entry] = []
    links: list[str] = []
    parent = normal_name(os.path.basename(path))
    seconds = {parts[1] for parts, _ in names_beginning(parent) if len(parts) == 2}
    marks = set()
    with os.scandir(path) as listing:
        for entry in listing:
            is_folder = entry.is_dir(follow_symlinks=False)
            normal = normal_name(entry.name)
            if entry.is_symlink():
                links.append(entry.name)
            if is_folder:
                folders.append((entry.name, normal))
            if entry.name in _OF_REPOSITORIES:
                marks.add(entry.name)
            if names_beginning(normal) or normal in seconds:
                kind = "link" if entry.is_symlink() else "folder" if is_folder else "file"
                entries.append(_Entry(entry.name, normal, kind))
    # The rest of a repository may be where `commondir` says.
    is_repository = marks.issuperset(REPOSITORY_MARKS) or marks.issuperset(("HEAD", "commondir"))
    return _Listing(tuple(folders), tuple(entries), tuple(links), is_repository, "HEAD" in marks)


_listings: _Cached[_Listing | None] = _Cached(_listed, None, follows=False)


class _Finding:
    """The survey of one folder while it is made."""

    def __init__(self, root: str, grants: Collection[str]) -> None:
        self._root, self._grants = root, frozenset(grants)
        self._names: set[str] = set()
        self._closed: dict[str, None] = {}
        self._links: dict[str, str] = {}
        self._targets: set[str] = set()
        self._unreadable: set[str] = set()

    def take(self, folder: str, parent: str, listing: _Listing) -> set[str]:
        """Add what a folder holds; the names of its entries that need no more search."""
        hits = set()
        if listing.is_repository:
            hits |= self._repository(folder, is_top=folder == self._root)
        for entry in listing.entries:
            name = _matching(parent, entry, self._grants)
            if name is None:
                continue
            path = os.path.join(folder, entry.name)
            is_granted = name in self._grants
            if is_granted and name in REPOSITORY and entry.kind == "folder":
                self._granted_repository(path)
            elif not is_granted or name in REPOSITORY:
                # Also one that is granted: a file or link in the place of a repository says where that is.
                self._add(path, entry.kind)
                if name in REPOSITORY:
                    self._settings(path, folder)
            else:
                continue
            hits.add(entry.name)
        return hits

    def take_unreadable(self, folder: str) -> None:
        """Add a folder that nobody can look into."""
        if os.path.isdir(folder) and not os.path.islink(folder):
            self._unreadable.add(folder)
            self._closed[folder] = None

    def survey(self, *, is_cut: bool) -> Survey:
        outermost: list[str] = []
        for path in sorted(self._closed, key=lambda path: path.split(os.sep)):
            if not outermost or not is_inside(path, outermost[-1]):
                outermost.append(path)
        return Survey(
            names=frozenset(self._names),
            closed=tuple(outermost),
            links=MappingProxyType(self._links),
            targets=frozenset(self._targets),
            unreadable=frozenset(self._unreadable),
            is_cut=is_cut,
        )

    def _add(self, path: str, kind: str) -> None:
        if kind == "folder" and normal_name(os.path.basename(path)) in _STAND_IN_FOLDERS and not _has_entries(path):
            return  # the stand-in of a job, or of no use to anybody
        self._names.add(path)
        if kind != "link":
            self._closed[path] = None
            if kind == "folder":
                self._close_links(path)
            return
        try:
            self._links[path] = os.readlink(path)
        except OSError:
            return
        for step in _way_of(path):
            self._close(step)

    def _close_links(self, folder: str) -> None:
        """Close what the links in a protected folder lead to."""
        for link in _links_below(folder):
            for step in _way_of(link):
                self._close(step)

    def _close(self, path: str) -> None:
        # A link to the workspace itself closes nothing, or all would be.
        if path == self._root or not is_inside(path, self._root):
            return
        self._targets.add(path)
        if os.path.islink(path):
            with contextlib.suppress(OSError):
                self._links[path] = os.readlink(path)
        elif os.path.lexists(path):
            self._closed[path] = None

    def _repository(self, folder: str, *, is_top: bool) -> set[str]:
        """A repository that goes by any name; in a workspace that is one, only what git starts something from."""
        self._settings(folder, folder)
        self._names.add(os.path.join(folder, "HEAD"))
        if not is_top:
            self._closed[folder] = None
            self._close_links(folder)
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
        """Close what git starts something from, or takes settings from, in a repository or by its settings."""
        folders = _git_folders(repository)
        for folder in folders:
            if not is_inside(folder, repository):
                self._close(folder)
        files = [os.path.join(folder, name) for folder in folders for name in ("config", "config.worktree")]
        everywhere = _started_from(_settings_for_all(), work_tree, is_for_all=True)
        for path in chain(_started_from(files, work_tree), everywhere):
            # A folder that the repository itself is in would be all of the work.
            if not is_inside(repository, path):
                self._close(path)


_EMPTY = _Listing((), ())
STAND_INS: Mapping[str, bytes | None] = MappingProxyType(dict.fromkeys((".git", ".envrc", ".vscode", ".claude")))
"""Names that running programs look for by themselves, at the top of a workspace: while a job runs, an absent one is
taken by an empty folder, which git lists nowhere and no program starts anything from."""
STAND_INS_IN_REPOSITORY: Mapping[str, bytes | None] = MappingProxyType(
    {"hooks": None, "info": None, "modules": None, "worktrees": None, "commondir": b"."}
)
"""The same in a repository that is granted. A file `commondir` with a dot is what git does without one."""
_STAND_IN_FOLDERS = frozenset(map(normal_name, (*STAND_INS, *STAND_INS_IN_REPOSITORY)))


def _matching(parent: str, entry: _Entry, grants: Collection[str]) -> str | None:
    """The protected name that an entry of a folder is or, as a link, leads into; of several one that is not granted."""
    found = [name for parts, name in names_beginning(entry.normal) if len(parts) == 1 or entry.kind == "link"]
    found += [name for parts, name in names_beginning(parent) if len(parts) == 2 and parts[1] == entry.normal]
    return next((name for name in found if name not in grants), found[0] if found else None)


def _has_entries(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return True


def _links_below(folder: str) -> Iterator[str]:
    waiting, searched = [folder], 0
    while waiting and searched < MOST_FOLDERS:
        path = waiting.pop()
        searched += 1
        listing = _listings.of(path) or _EMPTY
        yield from (os.path.join(path, name) for name in listing.links)
        waiting.extend(
            os.path.join(path, name)
            for name, _ in listing.folders
            if name not in _NOT_SEARCHED and name not in _NOTHING_STARTS
        )


def _way_of(link: str) -> Iterator[str]:
    """Every link on the way to where one leads, itself included, and where it leads, be that there or not."""
    at, waiting, links = os.path.dirname(link), [os.path.basename(link)], 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = os.path.dirname(at)
        if part in ("", ".", ".."):
            continue
        path = os.path.join(at, part)
        try:
            target = os.readlink(path)
        except (OSError, ValueError):
            at = path
            continue
        yield path
        links += 1
        if links > _MOST_LINKS:
            return
        if os.path.isabs(target):
            at, target = os.path.splitdrive(target)[0] + os.sep, os.path.splitdrive(target)[1]
        waiting.extend(reversed(target.replace(os.sep, "/").split("/")))
    yield at


_STARTS = re.compile(
    r"(?:\w*(?:askpass|cmd|command|editor|helper|hook|pager|program)|hookspath|fsmonitor|textconv|clean|smudge|process"
    r"|driver|external|difffilter|path|attributesfile|gitproxy|uploadpack|receivepack)\Z",
    re.IGNORECASE,
).match
_SETTING = re.compile(r"[ \t]*([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)")
_MOST_SETTINGS = 256 * 1024
_MOST_INCLUDED = 16


_FOR_ALL = ("hookspath", "fsmonitor", "path")
"""What is looked for in the settings of a user and a machine, most of which name programs that are elsewhere."""


_NAME_PATHS = ("hookspath", "path", "attributesfile")


def _git_folders(repository: str) -> tuple[str, ...]:
    """The folders of a repository: itself or, for a file `.git`, what that names, and the one that it shares."""
    folder = repository
    if not os.path.isdir(repository):
        text = _text_of(repository).partition("\n")[0]
        if not text.startswith("gitdir:"):
            return ()
        folder = os.path.realpath(os.path.join(os.path.dirname(repository), text[7:].strip()))
    common = _text_of(os.path.join(folder, "commondir")).partition("\n")[0].strip()
    return (folder, os.path.realpath(os.path.join(folder, common))) if common else (folder,)


def _settings_for_all() -> list[str]:
    home = os.path.expanduser("~")
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return ["/etc/gitconfig", os.path.join(configuration, "git", "config"), os.path.join(home, ".gitconfig")]


def _started_from(files: list[str], work_tree: str, *, is_for_all: bool = False) -> Iterator[str]:
    """The paths that settings of git name as something to start, or to take settings from; also some not there yet."""
    waiting = list(files)
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_INCLUDED:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for key, words in _settings.of(file):
            if is_for_all and key not in _FOR_ALL:
                continue
            for word in words:
                for base in (work_tree, os.path.dirname(file)):
                    path = os.path.realpath(os.path.join(base, os.path.expanduser(word)))
                    # A word such as `test` in `!npm test` is no folder, although there may be one.
                    if key in _NAME_PATHS or "/" in word or os.path.isfile(path):
                        yield path
                    if key == "path" and os.path.isfile(path):
                        waiting.append(path)


def _starting(file: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The settings in a file of git's that name something to start or to read: the key of each, and its words."""
    found = []
    for line in _text_of(file).splitlines():
        matched = _SETTING.match(line)
        if matched and (matched[2].lstrip('"').startswith("!") or _STARTS(matched[1])):
            words = matched[2].strip().strip('"').lstrip("!").replace('"', " ").replace("'", " ").split()[:32]
            found.append((matched[1].lower(), tuple(words)))
    return tuple(found)


_settings: _Cached[tuple[tuple[str, tuple[str, ...]], ...]] = _Cached(_starting, (), follows=True)


def _text_of(file: str) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    with os.fdopen(descriptor, "rb") as opened:
        try:
            return opened.read(_MOST_SETTINGS).decode("utf-8", "surrogateescape")
        except OSError:
            return ""
