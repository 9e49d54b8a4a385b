"""Protection of the folders that a job may write in: before it runs, while it runs, and after it, or its host, ended.

Protected places that are there are closed by the runner. Absent ones that running programs look for by themselves are
taken by stand-ins, empty folders that the runner closes too. Whatever else a job makes under a protected name is set
aside when it has ended, and a link that it replaced is put back. A journal says what was held, so that the next job
does the same for one whose host was killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import stat
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metier._log import logger
from metier._paths import is_inside, moved_path
from metier.guard.files.protected_names import MOST_FOLDERS, PROTECTED, protected_name_in
from metier.guard.files.protected_places import (
    STAND_INS,
    STAND_INS_IN_REPOSITORY,
    ProtectedPlaces,
    find_protected_places,
)
from metier.run.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from metier.run.job import Outcome

log = logger("metier.run")

_REFUSALS = ("Read-only file system", "Device or resource busy", "Permission denied", "EROFS", "EBUSY", "EACCES")
_MOST_ROUNDS = 16
_MOST_JOURNALS = 4
_LONGEST = 200
"""Bytes of a name that are kept in another one."""
_LATE = 5.0
"""Seconds that a job may take to end."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW if os.name == "posix" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What was found when a job had ended."""

    notes: tuple[str, ...] = ()
    """What was set aside or put back, a sentence each."""
    failures: tuple[str, ...] = ()
    """What could not be set aside or put back, a sentence each: the run has failed, whatever it says of itself."""


class Protection:
    """The protection of one folder for one job of at most so many seconds.

    Stand-ins help only where the runner can close them.
    """

    def __init__(
        self, folder: str, grants: Collection[str] = (), *, seconds: float = 0.0, is_closable: bool = True
    ) -> None:
        self.folder = os.path.realpath(folder)
        self._grants = frozenset(grants)
        self._recovered = _recover(self.folder)
        self.before = find_protected_places(self.folder, self._grants, with_packages=True, with_other_names=True)
        self._absent = frozenset(path for path in self.before.targets if not os.path.lexists(path))
        self._is_clean = False
        self._opened = os.open(self.folder, _FOLDER) if _FOLDER else None
        entry = {
            "folder": self.folder,
            "grants": sorted(self._grants),
            "names": sorted(self.before.names),
            "absent": sorted(self._absent),
            "links": dict(self.before.links),
            "until": time.time() + seconds + _LATE,
        }
        self._journal = journal = _journal()
        with journal.turn():
            wanted = dict(_stand_ins(self.folder, self._grants)) if is_closable else {}
            taken = {path for other in journal.held() for path in other["stand_ins"]}
            # An empty folder that no job has made is closed too, and it is the user's.
            self._made = [path for path in wanted if path in taken or not os.path.lexists(path)]
            self._number = journal.begin({**entry, "stand_ins": self._made})
            self.stand_ins = tuple(path for path, content in wanted.items() if _make_stand_in(path, content))
            """The names that are taken because nothing is there, by their absolute paths."""
        # Empty folders are nothing that a job could have made.
        files = (path for path in self.stand_ins if wanted[path] is not None)
        self.before = replace(self.before, names=self.before.names.union(files))

    def release(self) -> None:
        """Take the stand-ins away, unless another job in the folder needs them."""
        if not self._is_clean:
            self.clean_up()
        if self._opened is not None:
            os.close(self._opened)
        with self._journal.turn():
            self._journal.end(self._number)
            needed = {path for other in self._journal.held() for path in other["stand_ins"]} if self._made else ()
            remove_stand_ins([path for path in self._made if path not in needed])

    def explain(self, errors: str) -> list[str]:
        """The names to grant for what a job failed to write, as far as its errors tell."""
        if not any(error in errors for error in _REFUSALS):
            return []
        closed = (os.path.relpath(path, self.folder) for path in (*self.before.closed, *self.stand_ins))
        named = (path for path in closed if re.search(rf"{re.escape(path)}(?![\w.-])", errors) is not None)
        return [
            f"{name} is a protected place, which it cannot write. {_how_to_grant(self.folder, name)}"
            for name in dict.fromkeys(protected_name_in(path, self._grants) for path in named)
            if name is not None
        ]

    def clean_up(self) -> Cleanup:
        """Set aside what the job made under protected names, and put back the links that it replaced."""
        self._is_clean = True
        self._follow()
        found = clean_up(self.folder, self.before, self._absent, self._grants)
        more = [f"Only {MOST_FOLDERS:,} folders were searched for protected places."] if self.before.is_cut else []
        return replace(found, notes=(*self._recovered, *found.notes, *more))

    def _follow(self) -> None:
        """Find the folder where it is now, if somebody has moved it while the job ran."""
        if self._opened is None:
            return
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self.folder), os.fstat(self._opened)):
                return
        with contextlib.suppress(OSError):
            before, now = self.folder, os.readlink(f"/proc/self/fd/{self._opened}")
            if os.path.samestat(os.stat(now), os.fstat(self._opened)):
                log.warning("%s was moved to %s while a job ran in it", before, now)
                self.folder = now
                links = {moved_path(path, before, now): target for path, target in self.before.links.items()}
                names = frozenset(moved_path(path, before, now) for path in self.before.names)
                self.before = replace(self.before, names=names, links=links)
                self._absent = frozenset(moved_path(path, before, now) for path in self._absent)
                self._made = [moved_path(path, before, now) for path in self._made]


def conclude(outcome: Outcome, protections: Sequence[Protection]) -> Outcome:
    """The outcome of a job with what was found in its folders; one that left what cannot be cleaned up has failed."""
    found = [protection.clean_up() for protection in protections]
    failures = [text for one in found for text in one.failures]
    notes = [*failures, *(text for one in found for text in one.notes)]
    # A program may have failed to write something and gone on, as git does when it switches branches.
    notes += [note for one in protections for note in one.explain(outcome.stderr)]
    if failures:
        said = "".join(f"{text}\n" for text in failures)
        outcome = replace(outcome, exit_code=outcome.exit_code or 1, stderr=outcome.stderr + said)
    return replace(outcome, notes=(*outcome.notes, *dict.fromkeys(notes))) if notes else outcome


def clean_up(
    folder: str, before: ProtectedPlaces, absent: Collection[str], grants: Collection[str], until: float | None = None
) -> Cleanup:
    """The same for a folder whose protected places were surveyed before; `absent` is where some led to nothing.

    What is newer than `until` is somebody else's.
    """
    notes: list[str] = []
    failures: dict[str, str] = {}
    looked_into = set(before.unreadable)
    for _ in range(_MOST_ROUNDS):
        # What was set aside may have hidden more: a repository is not searched, nor is a folder that cannot be listed.
        after = find_protected_places(folder, grants, with_packages=True, looks_around=False)
        found = [path for path, target in before.links.items() if _target_of(path) != target]
        made = {_outermost_link(folder, path) for path in absent if os.path.lexists(path)}
        found += sorted((after.names - before.names | made) - set(found))
        found = [path for path in found if path not in failures and not (until and _is_newer(path, until))]
        closed = after.unreadable - looked_into
        if not found and not closed:
            return Cleanup(notes=tuple(notes), failures=tuple(failures.values()))
        for path in found:
            name = os.path.relpath(path, folder)
            try:
                aside = set_aside(folder, path)
                if aside is not None:
                    # What was set aside is no repository any more for whom permissions do not bind, either.
                    if not any(is_inside(path, other) for other in looked_into):
                        what = f"That is {aside} now." if aside else "It was a link, and is gone."
                        protected = protected_name_in(name, grants) or name
                        how = _how_to_grant(folder, protected)
                        notes.append(f"It made {name}, from which other programs start something. {what} {how}")
                    if aside:
                        looked_into.add(os.path.join(folder, aside))
                if path in before.links:
                    _link_again(folder, path, before.links[path])
                    notes.append(f"The link {name} is what it was.")
            except OSError as error:
                failures[path] = _failure(name, error.strerror or str(error))
        for path in closed:
            looked_into.add(path)
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
                looked_into.remove(path)
    rest = next(iter((*found, *closed)))
    failures[rest] = _failure(os.path.relpath(rest, folder), "there is too much of it")
    return Cleanup(notes=tuple(notes), failures=tuple(failures.values()))


def _how_to_grant(folder: str, name: str) -> str:
    """The sentence on how a job may write a protected name of a folder, if it ever may."""
    if name == ".git" and not os.path.lexists(os.path.join(folder, name, "HEAD")):
        # With the grant, the settings and hooks that git would make are closed all the same.
        return "Make the repository yourself, at a terminal: `git init`."
    if name in PROTECTED:
        grant = f'run: {{paths: ["{name}:rw"]}}'
        return f"A policy grants it by {grant}, to a script whose skill asks for it by allowed-paths."
    return "It stays closed whatever is granted: change it yourself, at a terminal."


def _outermost_link(folder: str, path: str) -> str:
    """The first link on the way from a folder to a path in it; the path itself where there is none."""
    at = folder
    for part in os.path.relpath(path, folder).split(os.sep):
        at = os.path.join(at, part)
        if os.path.islink(at):
            return at
    return path


def _target_of(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _is_newer(path: str, than: float) -> bool:
    """Whether something, and all that is directly in it, has changed since a moment."""
    with contextlib.suppress(OSError):
        if os.lstat(path).st_ctime <= than:
            return False
        with os.scandir(path) as entries:
            return all(entry.stat(follow_symlinks=False).st_ctime > than for entry in entries)
    return True


def _failure(name: str, why: str) -> str:
    return (
        f"It made {name}, from which other programs start something, and that cannot be set aside: {why}. "
        "Remove it before you use git, a shell, an editor or an agent there."
    )


def _link_again(folder: str, path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _parent_of(folder, path) as parent, _writable(parent):
        os.symlink(target, os.path.basename(path), dir_fd=parent)


def set_aside(folder: str, path: str) -> str | None:
    """Give something in a folder a name that nobody looks for, and that name; None if it is not there any more.

    A folder is closed besides, as git takes one with the right content for a repository whatever its name. A link is
    removed: it leads to the same by any name.
    """
    try:
        with _parent_of(folder, path) as parent:
            name = os.path.basename(path)
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            # A name that the job cannot have made before, and that is not too long.
            begin = os.fsencode(name)[:_LONGEST].decode(errors="ignore")
            aside = f"{begin}.set-aside-{secrets.token_hex(6)}"
            with _writable(parent):
                if stat.S_ISLNK(status.st_mode):
                    os.unlink(name, dir_fd=parent)
                    return ""
                os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if stat.S_ISDIR(status.st_mode):
                _close_folder(parent, aside)
    except FileNotFoundError:
        return None
    return os.path.join(os.path.relpath(os.path.dirname(path), folder), aside).removeprefix("./")


def _close_folder(parent: int, name: str) -> None:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        # Nobody can list it; who knows the names in it could still use them.
        os.chmod(name, 0, dir_fd=parent)
        return
    try:
        os.fchmod(folder, 0)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _parent_of(folder: str, path: str) -> Iterator[int]:
    """A descriptor of the folder that something is in, with no link on the way from the outermost."""
    *above, _ = os.path.relpath(path, folder).split(os.sep)
    with contextlib.ExitStack() as opened:
        at = os.open(folder, _FOLDER)
        opened.callback(os.close, at)
        for step in above:
            at = os.open(step, _FOLDER, dir_fd=at)
            opened.callback(os.close, at)
        yield at


@contextlib.contextmanager
def _writable(folder: int) -> Iterator[None]:
    """Make a folder one in which names can be changed, for a moment: a job may have taken that right away."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o300 == 0o300:
        yield
        return
    os.fchmod(folder, mode | 0o700)
    try:
        yield
    finally:
        os.fchmod(folder, mode)


def _stand_ins(folder: str, grants: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
    """The paths of stand-ins in a folder, and what is in each that is a file."""
    for name, content in STAND_INS.items():
        if name not in grants:
            yield os.path.join(folder, name), content
    repository = os.path.join(folder, ".git")
    if ".git" in grants and os.path.isfile(os.path.join(repository, "HEAD")):
        for name, content in STAND_INS_IN_REPOSITORY.items():
            yield os.path.join(repository, name), content


def _make_stand_in(path: str, content: bytes | None) -> bool:
    """Take a name; where nobody can, the job cannot either."""
    try:
        if content is None:
            os.mkdir(path, 0o755)
        else:
            with open(path, "xb") as file:
                file.write(content)
    except FileExistsError:
        return _is_stand_in(path, content)
    except OSError:
        return False
    return True


def remove_stand_ins(paths: Collection[str]) -> None:
    """Remove what still is a stand-in, and nothing else."""
    for path in paths:
        folder, name = os.path.split(path)
        with contextlib.suppress(OSError):
            parent = os.open(folder, _FOLDER)
            try:
                content = STAND_INS_IN_REPOSITORY.get(name)
                with _writable(parent):
                    if content is None:
                        os.rmdir(name, dir_fd=parent)  # which fails for a folder that has something in it
                    elif _is_stand_in(path, content):
                        os.unlink(name, dir_fd=parent)
            finally:
                os.close(parent)


def _is_stand_in(path: str, content: bytes | None) -> bool:
    try:
        status = os.lstat(path)
        if content is None:
            return stat.S_ISDIR(status.st_mode) and not os.listdir(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(content):
            return False
        with open(path, "rb") as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False


def _recover(folder: str) -> tuple[str, ...]:
    """Clean up after jobs whose hosts were killed: what was done in one folder, a sentence each."""
    texts: list[str] = []
    with _journal().turn():
        for entry in _journal().abandoned():
            try:
                remove_stand_ins(entry["stand_ins"])
                before = ProtectedPlaces(names=frozenset(entry["names"]), links=dict(entry["links"]))
                at, absent, grants = entry["folder"], frozenset(entry["absent"]), frozenset(entry["grants"])
                found = clean_up(at, before, absent, grants, entry["until"]) if os.path.isdir(at) else Cleanup()
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                log.warning("An entry of the journal of jobs cannot be used: %s", error)
                continue
            for text in found.notes + found.failures:
                log.warning("%s: %s", at, text)
                texts += [f"A job before this one was not ended by its host. {text}"] if at == folder else []
    return tuple(texts)


_journals: dict[str | None, Journal] = {}


def _journal() -> Journal:
    from metier.library.index_cache import default_cache_folder

    cache = default_cache_folder() if os.name == "posix" else None
    folder = os.path.join(cache, "jobs") if cache is not None else None
    found = _journals.get(folder)
    if found is None:
        with _opening:
            for other in [other for other, journal in _journals.items() if not journal.is_busy][:-_MOST_JOURNALS]:
                _journals.pop(other).close()
            found = _journals.get(folder) or _journals.setdefault(folder, Journal(folder))
    return found


_opening = threading.Lock()


def _close_journals() -> None:
    """Close what this process, or the one that it was forked from, has open."""
    while _journals:
        _journals.popitem()[1].close()


def _after_fork() -> None:
    """The jobs of a process are not those of its fork."""
    global _opening
    _opening = threading.Lock()
    while _journals:
        _journals.popitem()[1].abandon()


atexit.register(_close_journals)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
