"""Protected places on disk: the paths that protected names lead to in a folder, with links and git's settings followed.

A name is protected wherever it stands below the folder, or above it; so is what it leads to by a link, a repository of
any name, and each file in the folder that the settings of a repository make git start something from. Of folders of
installed packages only repositories count: their code runs as part of the work in any case.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field, replace
from metier._paths import is_inside, real_path, upwards
from metier.guard.files.git_settings import HOOKS, commonly_started_paths, repository_folders, started_paths
from metier.guard.files.protected_names import (
    CLOSED_IN_REPOSITORY,
    MOST_FOLDERS,
    REPOSITORY,
    folder_listings,
    names_by_first_part,
    normal_name,
    protected_name_above,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from metier.guard.files.protected_names import FolderListing

_OF_PACKAGES = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", "site-packages"})
_NO_LINKS: Mapping[str, str] = MappingProxyType({})
_NOTHING_STARTS = frozenset({"objects", "refs", "logs"})
"""Folders of a repository that nothing is started from, with thousands of files that several may share."""
_MOST_LINKS = 40
_MOST_SHARED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedPlaces:
    """The protected places in a folder, by absolute paths."""

    names: frozenset[str] = frozenset()
    """Every protected name that is there."""
    closed: tuple[str, ...] = ()
    """The files and folders that must not be written, with links resolved; none of them inside another."""
    links: Mapping[str, str] = field(default_factory=lambda: _NO_LINKS)
    """The target of each link that is a protected name, or on the way from one."""
    targets: frozenset[str] = frozenset()
    """Every link on the way from a protected name to where it leads, and what it leads to or git's settings name, be it
    there or not: a job that makes it makes a file that is started."""
    unreadable: frozenset[str] = frozenset()
    """Folders whose content cannot be listed; they are closed as a whole."""
    outside: tuple[str, ...] = ()
    """Protected files around the folder: one of them may have a second name in it."""
    inside_of: str | None = None
    """The protected place that the folder itself is or lies in: all of it is closed."""
    is_cut: bool = False
    """Whether the folder has more folders than are searched."""


def find_protected_places(
    folder: str,
    grants: Collection[str] = (),
    *,
    with_packages: bool = False,
    with_other_names: bool = False,
    looks_around: bool = True,
) -> ProtectedPlaces:
    """The protected places in a folder without those that are granted; nothing in one that cannot be opened.

    `with_packages`, repositories in folders of installed packages are among them; `with_other_names`, files that are
    protected files by a hard link. A look at the names in it alone leaves out what is around it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(os.path.join(folder, "sub", ".git", "hooks"))
    ...     [os.path.relpath(path, os.path.realpath(folder)) for path in find_protected_places(folder).closed]
    ['sub/.git']
    """
    root = os.path.realpath(folder)
    search = _Search(root, grants)
    if looks_around:
        search.take_around()
    waiting, packages = deque([root]), deque[str]()
    for path, listing in _listings(waiting):
        hits = search.take(path, listing)
        for below, name in listing.folders:
            if name in _OF_PACKAGES:
                packages.append(below)
            elif name not in hits:
                waiting.append(below)
    if not with_packages:
        packages.clear()
    for path, listing in _listings(packages):
        if not search.take_repository(path, listing):
            packages.extend(below for below, _ in listing.folders)
    found = search.places(is_cut=bool(waiting or packages))
    return replace(found, closed=(*found.closed, *_other_names(root, found))) if with_other_names else found


def _listings(waiting: deque[str]) -> Iterator[tuple[str, FolderListing]]:
    """The listing of each folder that waits, up to a limit; a caller may add more of them meanwhile."""
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        path = waiting.popleft()
        yield path, folder_listings.get(path)


def protected_around(folder: str, grants: Collection[str] = ()) -> str | None:
    """The protected place that a folder is or lies in, by its path or by what leads there from around it."""
    found = _Search(os.path.realpath(folder), grants)
    found.take_around()
    return found.inside_of


def _other_names(root: str, found: ProtectedPlaces) -> Iterator[str]:
    """The files in a folder that are protected files under a second name."""
    shared = shared_files(found)
    inodes = {inode for _, inode in shared}
    for entry in _files_below(root) if shared else ():
        if entry.inode() not in inodes or any(is_inside(entry.path, one) for one in found.closed):
            continue
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if (status.st_dev, status.st_ino) in shared:
                yield entry.path


def shared_files(found: ProtectedPlaces) -> dict[tuple[int, int], str]:
    """The protected files that have a second name somewhere."""
    shared = {}
    for path in islice(chain(_files_in(found.closed), found.outside), _MOST_SHARED):
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                shared[status.st_dev, status.st_ino] = path
    return shared


def _files_in(paths: Collection[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from (entry.path for entry in _files_below(path, without=_NOTHING_STARTS))
        else:
            yield path


def _files_below(folder: str, without: Collection[str] = ()) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder and of each folder below it, but for folders; no link is followed."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry
                elif entry.name not in without:
                    waiting.append(entry.path)


class _Search:
    """The search of one folder for protected places."""

    def __init__(self, root: str, grants: Collection[str]) -> None:
        self._root, self._grants = root, frozenset(grants)
        self._names: set[str] = set()
        self._closed: set[str] = set()
        self._links: dict[str, str] = {}
        self._targets: set[str] = set()
        self._unreadable: set[str] = set()
        self._outside: list[str] = []
        self.inside_of = protected_name_above(root, self._grants)

    def take_around(self) -> None:
        """Add what protected names in the home folder, and up to the outermost repository above, lead to here."""
        above = list(upwards(self._root))[1:]
        repositories = [at for at, folder in enumerate(above) if os.path.lexists(os.path.join(folder, ".git"))]
        # Others, such as /tmp, may be large and change all the time.
        waiting = above[: max(repositories, default=-1) + 1]
        home = os.path.realpath(os.path.expanduser("~"))
        waiting += [home] if home not in (self._root, *waiting) else []
        self._take_settings_around()
        for folder in above:
            if os.path.lexists(os.path.join(folder, "HEAD")) and folder_listings.get(folder).is_repository:
                self._take_repository_around(folder)
        for folder in waiting:
            for entry in folder_listings.get(folder).entries:
                path = entry.path
                if path == self._root or (entry.kind == "folder" and is_inside(self._root, path)):
                    continue  # the way to the folder itself, which `protected_name_above` judges
                name = entry.protected_by(self._grants)
                if name is None:
                    if entry.kind == "folder":
                        waiting.append(path)  # the first part of a name of two
                elif name in REPOSITORY:
                    self._take_repository_around(path, folder)
                elif name not in self._grants:
                    self._take_name_around(path, entry.kind, name)

    def _take_settings_around(self) -> None:
        """Add what git's settings for all repositories name, and what `XDG_CONFIG_HOME` has under protected names."""
        for path in commonly_started_paths(self._root):
            steps = list(_way_of(path, is_whole=True))
            for step in steps:
                self._close(step)
            # The folder itself may be one of hooks, or a template that has one.
            if steps[-1] in (self._root, os.path.dirname(self._root)):
                self._close_hooks(self._root)
                self._close_hooks(os.path.join(self._root, "hooks"))
        configuration = os.path.realpath(os.environ.get("XDG_CONFIG_HOME") or os.sep)
        if is_inside(configuration, self._root) or (configuration != os.sep and is_inside(self._root, configuration)):
            for parts, name in names_by_first_part()[".config"]:
                if name not in self._grants:
                    self._close_way(os.path.join(configuration, parts[1]), around=name)

    def _take_repository_around(self, repository: str, work_tree: str | None = None) -> None:
        self._settings(repository, work_tree or repository, is_around=True)
        for folder in map(os.path.realpath, repository_folders(repository)):
            for link in _links_below(os.path.join(folder, "hooks")):
                self._close_way(link, around=".git")
            if any(is_inside(self._root, os.path.join(folder, name)) for name in CLOSED_IN_REPOSITORY):
                self.inside_of = self.inside_of or os.path.basename(folder)

    def _take_name_around(self, path: str, kind: str, name: str) -> None:
        if kind == "link":
            target = real_path(path)
            if "/" in name and target != self._root and is_inside(self._root, target):
                # A link in the place of the first part: whether the folder is protected hangs on the second.
                logical = os.path.join(path, os.path.relpath(self._root, target))
                self.inside_of = self.inside_of or protected_name_above(logical, self._grants)
            else:
                self._close_way(path, around=name)
        elif kind == "file":
            self._outside.append(path)
        else:
            for link in folder_listings.get(path).links:
                self._close_way(link, around=name)

    def take(self, folder: str, listing: FolderListing) -> set[str]:
        """Add what a folder holds; the names of its entries that need no more search."""
        if not listing.is_readable:
            self._take_unreadable(folder)
        hits = set()
        if listing.is_repository:
            hits |= self._repository(folder, is_top=folder == self._root)
        for entry in listing.entries:
            name = entry.protected_by(self._grants)
            if name is None or (name in self._grants and name not in REPOSITORY):
                continue
            hits.add(entry.name)
            if name in self._grants and entry.kind == "folder":
                self._granted_repository(entry.path)
                continue
            # Also one that is granted: a file or link in the place of a repository says where that is.
            self._add(entry.path, entry.kind)
            if name in REPOSITORY:
                self._settings(entry.path, folder)
        return hits

    def take_repository(self, folder: str, listing: FolderListing) -> bool:
        """Add a repository in a folder of packages; whether the folder itself is one, which needs no more search."""
        if not listing.is_readable:
            self._take_unreadable(folder)
        if listing.is_repository:
            self._repository(folder, is_top=False)
            return True
        for entry in listing.entries:
            if entry.protected_by(()) in REPOSITORY:
                self._add(entry.path, entry.kind)
                self._settings(entry.path, folder)
        return False

    def _take_unreadable(self, folder: str) -> None:
        if folder != self._root and os.path.isdir(folder) and not os.path.islink(folder):
            self._unreadable.add(folder)
            self._closed.add(folder)

    def places(self, *, is_cut: bool) -> ProtectedPlaces:
        outermost: list[str] = []
        for path in sorted(self._closed, key=lambda path: path.split(os.sep)):
            if not outermost or not is_inside(path, outermost[-1]):
                outermost.append(path)
        return ProtectedPlaces(
            names=frozenset(self._names),
            closed=tuple(outermost),
            links=MappingProxyType(self._links),
            targets=frozenset(self._targets),
            unreadable=frozenset(self._unreadable),
            outside=tuple(self._outside),
            inside_of=self.inside_of,
            is_cut=is_cut,
        )

    def _add(self, path: str, kind: str) -> None:
        if kind == "folder" and normal_name(os.path.basename(path)) in _STAND_IN_FOLDERS and not _has_entries(path):
            return  # the stand-in of a job, or of no use to anybody
        self._names.add(path)
        if kind == "link":
            if self._add_link(path):
                self._close_way(path)
            return
        self._closed.add(path)
        for link in _links_below(path) if kind == "folder" else ():
            self._close_way(link)

    def _add_link(self, path: str) -> bool:
        """Add the target of a link; False where that cannot be read."""
        try:
            self._links[path] = os.readlink(path)
        except OSError:
            return False
        return True

    def _close_way(self, link: str, *, around: str | None = None) -> None:
        """Close every link on the way to where one leads, and that place."""
        for step in _way_of(link):
            self._close(step, around=around)

    def _close(self, path: str, *, around: str | None = None) -> None:
        """Close a path in the folder; with the name of a protected place `around` it, also the whole folder."""
        if is_inside(self._root, path):
            # What is in the folder itself closes nothing of the kind, or all would be.
            self.inside_of = self.inside_of or around
            return
        if not is_inside(path, self._root):
            return
        self._targets.add(path)
        if os.path.islink(path):
            self._add_link(path)
        elif os.path.lexists(path):
            self._closed.add(path)

    def _close_hooks(self, folder: str) -> None:
        """Close the names under which git starts something in a folder that has other files too."""
        for name in HOOKS:
            self._close(os.path.join(folder, name))

    def _repository(self, folder: str, *, is_top: bool) -> set[str]:
        """A repository that goes by any name; in a workspace that is one, only what git starts something from."""
        self._settings(folder, folder)
        self._names.add(os.path.join(folder, "HEAD"))
        if not is_top:
            self._closed.add(folder)
            for link in _links_below(folder):
                self._close_way(link)
            return {name for _, name in folder_listings.get(folder).folders}
        self._granted_repository(folder)
        return set(CLOSED_IN_REPOSITORY)

    def _granted_repository(self, repository: str) -> None:
        for name in CLOSED_IN_REPOSITORY:
            path = os.path.join(repository, name)
            if os.path.lexists(path):
                self._add(path, "link" if os.path.islink(path) else "folder" if os.path.isdir(path) else "file")
        self._settings(repository, os.path.dirname(repository))
        for path in _links_below(repository, without=()):
            if path not in self._links and self._add_link(path):
                self._names.add(path)

    def _settings(self, repository: str, work_tree: str, *, is_around: bool = False) -> None:
        """Close what git starts something from, or takes settings from, in a repository or by its settings."""
        folders = repository_folders(repository)
        for folder in folders:
            steps = list(_way_of(folder, is_whole=True))
            is_granted = os.path.basename(steps[-1]) in self._grants.intersection(REPOSITORY)
            if not is_granted and not is_inside(steps[-1], repository):
                for step in steps:
                    self._close(step)
                for link in _links_below(os.path.join(steps[-1], "hooks")):
                    self._close_way(link)
        common = commonly_started_paths(work_tree) if work_tree != self._root else ()
        for path in chain(started_paths(folders, work_tree), common):
            steps = list(_way_of(path, is_whole=True))
            # A folder that the repository itself is in would be all of the work.
            if is_inside(repository, steps[-1]):
                self._close_hooks(steps[-1])
                continue
            for step in steps:
                self._close(step, around=os.path.basename(step) if is_around and step == self._root else None)


STAND_INS: Mapping[str, bytes | None] = MappingProxyType(dict.fromkeys((".git", ".envrc", ".vscode", ".claude")))
"""Names that running programs look for by themselves, at the top of a workspace: while a job runs, an absent one is
taken by an empty folder, which git lists nowhere and no program starts anything from."""
STAND_INS_IN_REPOSITORY: Mapping[str, bytes | None] = MappingProxyType(
    {"hooks": None, "info": None, "modules": None, "worktrees": None, "commondir": b"."}
)
"""The same in a repository that is granted. A file `commondir` with a dot is what git does without one."""
_STAND_IN_FOLDERS = frozenset((*STAND_INS, *STAND_INS_IN_REPOSITORY))


def _has_entries(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return True


def _links_below(folder: str, without: Collection[str] = _OF_PACKAGES | _NOTHING_STARTS) -> Iterator[str]:
    waiting = deque([folder])
    for _, listing in _listings(waiting):
        yield from listing.links
        waiting.extend(below for below, name in listing.folders if name not in without)


def _way_of(path: str, *, is_whole: bool = False) -> Iterator[str]:
    """Every link on the way to where a path leads, and where it leads, be that there or not.

    Its folder has no links on its way, unless the `is_whole` path is to be looked at.
    """
    at = os.path.splitdrive(path)[0] + os.sep if is_whole else os.path.dirname(path)
    waiting = _parts_of(path) if is_whole else [os.path.basename(path)]
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = os.path.dirname(at)
        if part in ("", ".", ".."):
            continue
        step = os.path.join(at, part)
        try:
            target = os.readlink(step)
        except (OSError, ValueError):
            at = step
            continue
        yield step
        links += 1
        if links > _MOST_LINKS:
            return
        if os.path.isabs(target):
            at = os.path.splitdrive(target)[0] + os.sep
        waiting.extend(_parts_of(target))
    yield at


def _parts_of(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return os.path.splitdrive(path)[1].replace(os.sep, "/").split("/")[::-1]
