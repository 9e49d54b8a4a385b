"""Access of tools to files: those that no tool writes, and those that no tool sees, in a workspace and beside it.

Tools write in this process, outside of any sandbox: files that a sandbox closes to a job are closed to them here. One
function judges a path for all of them, when a call is decided about and when a file is used.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from typing import TYPE_CHECKING, Protocol

from metier._cache import BoundedCache
from metier._lazy import dataclass, field, pattern
from metier._paths import is_inside
from metier.errors import ProtectedPlace
from metier.guard.files.protected_names import (
    FOLDS_CASE,
    OF_REPOSITORIES,
    PROTECTED,
    REPOSITORY,
    folder_listings,
    normal_name,
    protected_name_in,
)
from metier.guard.files.protected_places import find_protected_places, shared_files
from metier.hints import Hint
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from metier.guard.files.protected_places import ProtectedPlaces
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.program import ClosedPolicy, Policy

SECRET_NAMES = frozenset(
    {
        ".ssh", ".gnupg", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".password-store",
        ".vault-token",
    }
)  # fmt: skip
"""Names under which people keep keys and passwords, in any folder."""
SECRET_FOLDERS = (".aws", ".azure", ".kube", ".docker", ".gcloud")
"""The same in a home folder; a project may have a folder `.docker` in which there is nothing secret."""
SECRET_IN_HOME = (
    *SECRET_FOLDERS, ".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".local/share/keyrings",
    ".cargo/credentials.toml", ".gem/credentials", ".terraform.d", ".my.cnf", ".claude/.credentials.json",
    ".codex/auth.json", ".gemini/oauth_creds.json", "Library/Keychains",
)  # fmt: skip
_MOST_CACHED = 64
_SECRET_WORD = pattern("|".join(map(re.escape, SECRET_NAMES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess:
    """The files that are closed to tools which work in a folder.

    >>> import tempfile
    >>> folder = os.path.realpath(tempfile.mkdtemp())
    >>> access = FileAccess(workspace=folder)
    >>> access.closing_place(f"{folder}/.vscode/tasks.json"), access.closing_place(f"{folder}/notes.md")
    ('.vscode', None)
    >>> access.hides(f"{folder}/.ssh/id_ed25519"), access.hides(f"{folder}/.git/config")
    (True, False)
    """

    workspace: str
    """The folder, with every link followed."""
    grants: frozenset[str] = frozenset()
    """The protected names that policy grants."""
    read_only: tuple[str, ...] = ()
    """Paths that decide about skills, with links followed: they can be read, and are not written."""
    hidden: tuple[str, ...] = ()
    """Keys, tokens and the store, by real paths: for tools they are not there."""
    is_open: bool = False
    """Nothing is closed: a person has named the file, and no model."""
    _hidden: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    _read_only: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, places in (("_hidden", self.hidden), ("_read_only", self.read_only)):
            object.__setattr__(self, name, frozenset(map(_folded, places)))

    @classmethod
    def of(
        cls,
        workspace: str | os.PathLike[str],
        *,
        grants: Collection[str] = (),
        read_only: Iterable[str] = (),
        hidden: Iterable[str] = (),
    ) -> FileAccess:
        """The same for paths as they are written; the secrets of the home folder are hidden besides."""
        return cls(
            workspace=os.path.realpath(workspace),
            grants=frozenset(grants),
            read_only=_real_paths(read_only),
            hidden=(*_real_paths(hidden), *_home_secrets(os.path.expanduser("~"))),
        )

    def closing_place(self, path: str) -> str | None:
        """The name or place by which a path, absolute and free of links, is closed to writing; None if it is open."""
        return next(self.closing_places([(path, False)]))

    def closing_places(self, paths: Sequence[tuple[str, bool]]) -> Iterator[str | None]:
        """The same for many paths, each with whether a link is to be put there."""
        inside = closing_places(self.workspace, paths, self.grants)
        for (path, _), closed_by in zip(paths, inside, strict=True):
            if self.is_open:
                yield None
                continue
            place = self._hidden_place(path) or self._read_only_place(path) or closed_by
            if place is None and not is_inside(path, self.workspace):
                place = protected_name_in(path.lstrip(os.sep), self.grants)
            yield place

    def closing_places_below(self, paths: Sequence[tuple[str, bool]]) -> Iterator[str | None]:
        """The same for paths from the workspace, each with a separator in front."""
        return self.closing_places([(self.workspace + path, is_link) for path, is_link in paths])

    def protected_name(self, path: str, root: str) -> str | None:
        """The protected name in a path as it is written, below a folder as that is written."""
        return protected_name_in(path[len(root) :], self.grants) if is_inside(path, root) else None

    def hides(self, path: str) -> bool:
        """Whether a path, absolute and free of links, is one that tools must not see."""
        return not self.is_open and self._hidden_place(path) is not None

    def hidden_in(self, folder: str) -> tuple[str, ...]:
        """The hidden paths below a folder, but for those that a name alone hides."""
        return tuple(path for path in self.hidden if is_inside(path, folder))

    def require_open(self, path: str) -> None:
        """Raise `ProtectedPlace` where a path, absolute and free of links, is closed to writing."""
        place = self.closing_place(path)
        if place is not None:
            said = os.path.relpath(path, self.workspace) if is_inside(path, self.workspace) else path
            raise ProtectedPlace(protection_reason(said, place), hint=protection_hint(place), path=path, place=place)

    def _hidden_place(self, path: str) -> str | None:
        """The hidden place or secret name that a path leads to or through; a workspace in one is hidden as well."""
        return _place_of(_folded(path), self._hidden) or self._secret_name(path)

    def _read_only_place(self, path: str) -> str | None:
        # A workspace may lie in such a place, as the folder of a skill does: then it is what is worked on.
        path, workspace = _folded(path), _folded(self.workspace)
        return _place_of(path, self._read_only, below=workspace if is_inside(path, workspace) else "")

    def _secret_name(self, path: str) -> str | None:
        if path.isascii() and not _SECRET_WORD.search(path.lower()):
            return None
        names = (normal_name(part) for part in path.split(os.sep) if part)
        return next((name for name in names if name in SECRET_NAMES and name not in self.grants), None)


class FileTerms(Protocol):
    """The part of governance that decides which files are closed."""

    @property
    def effective(self) -> EffectivePolicy:
        """The policy of all files together."""

    def narrowed(self, policy: Policy | None) -> ClosedPolicy:
        """A program's policy within what policy files allow."""

    def secret_paths(self, workspace: str) -> tuple[str, ...]:
        """The files that nobody but the program reads."""


class WorkspaceFiles:
    """The access of tools to files in each workspace under one guard."""

    def __init__(
        self, governance: FileTerms, policy: Callable[[], Policy | None], read_only: Callable[[], Iterable[str]]
    ) -> None:
        """`policy` gives the program's own, which policy files narrow; `read_only` the paths that no tool writes."""
        self._governance, self._policy, self._read_only = governance, policy, read_only
        self._cached: BoundedCache[object, tuple[Policy | None, EffectivePolicy, FileAccess]] = BoundedCache(
            _MOST_CACHED
        )

    def access(self, workspace: str, skill_folders: Iterable[str] = ()) -> FileAccess:
        """The access in a workspace; nothing in the folders that skills come from is written."""
        policy, effective = self._policy(), self._governance.effective
        folders = tuple(skill_folders)
        cached = self._cached.get((workspace, folders))
        if cached is not None and cached[0] is policy and cached[1] is effective:
            return cached[2]
        from metier.guard.policy.program import granted_names

        access = FileAccess.of(
            workspace or os.getcwd(),
            grants=granted_names(self._governance.narrowed(policy).paths),
            read_only=(*folders, *self._read_only()),
            hidden=self._governance.secret_paths(workspace or os.getcwd()),
        )
        self._cached[workspace, folders] = (policy, effective, access)
        return access


def is_secret_name(name: str) -> bool:
    """Whether people keep secrets under a name, wherever it stands."""
    return normal_name(name) in SECRET_NAMES


def protection_reason(path: str, place: str) -> str:
    """The sentence that says what protects a path."""
    # A refused caller does not learn about places of this machine.
    if os.path.isabs(place) or place in SECRET_NAMES:
        return f"{shown(path, 300)!r} cannot be written: it decides about skills, or is secret."
    return f"{shown(path, 300)!r} cannot be written: {shown(place, 200)} is protected, as other programs act on it."


def protection_hint(place: str) -> str:
    """The sentence that says what a policy would have to grant."""
    if place in PROTECTED:
        return Hint(
            'Policy(paths=["{place}:rw"]) grants it.',
            person='In a policy file, `run: {{paths: ["{place}:rw"]}}` grants it.',
            model='Write elsewhere, or ask the user, whose policy can grant {place}: `run: {{paths: ["{place}:rw"]}}`.',
            place=place,
        )
    return Hint(
        "No policy grants this place by itself: do it yourself.",
        model="Write elsewhere, or ask the user to do it.",
    )


def _place_of(path: str, places: Collection[str], *, below: str = "") -> str | None:
    """The place that a path is or lies in, of those below a folder."""
    while path not in places:
        path, before = os.path.dirname(path), path
        if path in (before, below):
            return None
    return path


def _folded(path: str) -> str:
    return path.casefold() if FOLDS_CASE else path


def _real_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isabs(path)))


@functools.lru_cache(maxsize=8)
def _home_secrets(home: str) -> tuple[str, ...]:
    return _real_paths(os.path.join(home, name) for name in SECRET_IN_HOME) if os.path.isabs(home) else ()


def closing_places(root: str, paths: Iterable[tuple[str, bool]], grants: Collection[str] = ()) -> Iterator[str | None]:
    """The place that closes each path to writing in a workspace, all absolute and free of links; None for an open path.

    With a path comes whether a link is to be put there, by which what lies below would lead elsewhere.

    >>> import tempfile
    >>> folder = os.path.realpath(tempfile.mkdtemp())
    >>> list(closing_places(folder, [(f"{folder}/.envrc", False), (f"{folder}/notes.md", False)]))
    ['.envrc', None]
    """
    found: ProtectedPlaces | None = None
    for path, is_link in paths:
        if path == root or not is_inside(path, root):
            yield None
            continue
        relative = path[len(root) :].lstrip(os.sep)
        name = protected_name_in(f"{os.path.basename(root)}/{relative}", grants)
        if name is None:
            found = found or find_protected_places(root, grants)
            name = found.inside_of or _closing_place(root, path, found, is_link=is_link)
        yield name or _repository_above(root, relative, grants) or _shared_file(root, path, found)


def _closing_place(root: str, path: str, found: ProtectedPlaces, *, is_link: bool) -> str | None:
    above = path
    while above != root:
        if above in found.targets or above in found.closed:
            return os.path.relpath(above, root)
        above = os.path.dirname(above)
    below = (one for one in (*found.targets, *found.closed) if is_link and is_inside(one, path))
    return next((os.path.relpath(one, root) for one in below), None)


def _repository_above(root: str, relative: str, grants: Collection[str]) -> str | None:
    """The repository of any name that a path lies in or would complete, also in folders that are not searched."""
    folder = root
    for part in relative.split(os.sep):
        listing = folder_listings.get(folder)
        if not listing.is_readable:
            return None
        if listing.is_repository and folder != root:
            return os.path.relpath(folder, root)
        if listing.has_head and not listing.is_repository and normal_name(part) in OF_REPOSITORIES:
            return os.path.relpath(os.path.join(folder, "HEAD"), root)
        folder = os.path.join(folder, part)
        if normal_name(part) in REPOSITORY and part in grants:
            return None
    return None


def _shared_file(root: str, path: str, found: ProtectedPlaces | None) -> str | None:
    """The protected file that a path is another name of, by a hard link."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    if found is None or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return None
    file = shared_files(found).get((status.st_dev, status.st_ino))
    return file and (os.path.relpath(file, root) if is_inside(file, root) else file)
