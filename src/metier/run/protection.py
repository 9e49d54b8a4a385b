"""Protection of the folders that a job may write in: before it runs, while it runs, and after it, or its host, ended.

Protected places that are there are closed by the runner. Absent ones that running programs look for by themselves are
taken by stand-ins, empty folders that the runner closes too. Whatever else a job makes under a protected name is set
aside when it has ended, and a link that it replaced is put back. A journal says what was held, so that the next job
does the same for one whose host was killed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import secrets
import stat
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metier._log import logger
from metier.guard.protected_names import PROTECTED, protecting
from metier.guard.protected_places import STAND_INS, STAND_INS_IN_REPOSITORY, Survey, survey
from metier.skill.folder import is_inside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from metier.run.job import Outcome

log = logger("metier.run")

_REFUSALS = ("Read-only file system", "Device or resource busy", "Permission denied", "EROFS", "EBUSY", "EACCES")
_MOST_ENTRIES = 16
_MOST_ROUNDS = 16
_MOST_JOURNAL = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW if os.name == "posix" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What was found when a job had ended."""

    notes: tuple[str, ...] = ()
    """What was set aside or put back, a sentence each."""
    failures: tuple[str, ...] = ()
    """What could not be, a sentence each: the run has failed, whatever it says of itself."""


class Protection:
    """The protection of one folder for one job; stand-ins help only where the runner can close them."""

    def __init__(self, folder: str, grants: Collection[str] = (), *, is_closable: bool = True) -> None:
        self.folder = os.path.realpath(folder)
        self._grants = frozenset(grants)
        self._hold = _holds.take(self.folder, self._grants, is_closable)
        self.before = survey(self.folder, self._grants, with_other_names=True)
        self._absent = frozenset(path for path in self.before.targets if not os.path.lexists(path))
        self._hold.write(self.before, self._absent)

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """The absent names that are taken, by their absolute paths."""
        return self._hold.stand_ins

    def release(self) -> None:
        """Take the stand-ins away, unless another job in the folder needs them."""
        _holds.release(self._hold)

    def explain(self, errors: str) -> list[str]:
        """What to grant for what a job failed to write, as far as its errors tell."""
        if not any(error in errors for error in _REFUSALS):
            return []
        closed = (os.path.relpath(path, self.folder) for path in (*self.before.closed, *self.stand_ins))
        names = dict.fromkeys(protecting(path) for path in closed if path in errors)
        return [
            f'{name} is a protected place, which it cannot write. A policy can grant it: run: {{paths: ["{name}:rw"]}}.'
            for name in names
            if name in PROTECTED
        ]

    def clean_up(self) -> Cleanup:
        """Set aside what the job made under protected names, and put back the links that it replaced."""
        found = clean_up(self.folder, self.before, self._absent, self._grants)
        recovered, self._hold.recovered = self._hold.recovered, ()
        return replace(found, notes=(*recovered, *found.notes)) if recovered else found


def conclude(outcome: Outcome, protections: Sequence[Protection]) -> Outcome:
    """The outcome of a job with what was found in its folders; one that left what cannot be cleaned up has failed."""
    found = [protection.clean_up() for protection in protections]
    failures = [text for one in found for text in one.failures]
    notes = [*failures, *(text for one in found for text in one.notes)]
    if not outcome.is_success:
        notes += [note for one in protections for note in one.explain(outcome.stderr)]
    if failures:
        said = "".join(f"{text}\n" for text in failures)
        outcome = replace(outcome, exit_code=outcome.exit_code or 1, stderr=outcome.stderr + said)
    return replace(outcome, notes=(*outcome.notes, *dict.fromkeys(notes))) if notes else outcome


def clean_up(folder: str, before: Survey, absent: Collection[str], grants: Collection[str]) -> Cleanup:
    """The same for a folder whose protected places were surveyed before; `absent` is where some led to nothing."""
    notes: list[str] = []
    failures: dict[str, str] = {}
    looked_into = set(before.unreadable)
    for _ in range(_MOST_ROUNDS):
        # What was set aside may have hidden more: a repository is not searched, nor is a folder that cannot be listed.
        after = survey(folder, grants)
        found = [path for path in before.links if before.links[path] != after.links.get(path)]
        made = {_outermost_link(folder, path) for path in absent if os.path.lexists(path)}
        found += sorted((after.names - before.names | made) - set(found))
        found = [path for path in found if path not in failures]
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
                        notes.append(f"It made {name}, from which other programs start something. That is {aside} now.")
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
    failures[found[0]] = _failure(os.path.relpath(found[0], folder), "there is too much of it")
    return Cleanup(notes=tuple(notes), failures=tuple(failures.values()))


def _outermost_link(folder: str, path: str) -> str:
    """The first link on the way from a folder to a path in it; the path itself where there is none."""
    at = folder
    for part in os.path.relpath(path, folder).split(os.sep):
        at = os.path.join(at, part)
        if os.path.islink(at):
            return at
    return path


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

    A folder is closed besides, as git takes one with the right content for a repository whatever its name.
    """
    try:
        with _parent_of(folder, path) as parent:
            name = os.path.basename(path)
            # A name that the job cannot have made before.
            aside = f"{name}.set-aside-{secrets.token_hex(6)}"
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            with _writable(parent):
                os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if stat.S_ISDIR(status.st_mode):
                inner = os.open(aside, _FOLDER, dir_fd=parent)
                try:
                    os.fchmod(inner, 0)
                finally:
                    os.close(inner)
    except FileNotFoundError:
        return None
    return os.path.join(os.path.relpath(os.path.dirname(path), folder), aside).removeprefix("./")


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


class _Hold:
    """The stand-ins of one folder, and its entry in the journal."""

    def __init__(self, folder: str, grants: frozenset[str], entry: _Entry | None) -> None:
        self.folder, self.grants = folder, grants
        self.count = 1
        self.stand_ins: tuple[str, ...] = ()
        self._entry = entry
        self.recovered = entry.take() if entry is not None else ()

    def make_stand_ins(self) -> None:
        made = []
        for path, content in self._wanted():
            try:
                if content is None:
                    os.mkdir(path, 0o755)
                else:
                    with open(path, "xb") as file:
                        file.write(content)
                made.append(path)
            except FileExistsError:
                if _is_stand_in(path, content):
                    made.append(path)  # of another process
            except OSError:
                continue  # where nobody can make it, the job cannot either
        self.stand_ins = tuple(made)

    def write(self, before: Survey, absent: Collection[str]) -> None:
        """Say in the journal what there was before the job."""
        if self._entry is not None:
            self._entry.write(before, absent, self.grants, self.stand_ins)

    def end(self) -> None:
        if self._entry is None or self._entry.is_last():
            # Nobody else makes any before the entry is released.
            remove_stand_ins(self.stand_ins)
        if self._entry is not None:
            self._entry.release()

    def _wanted(self) -> Iterator[tuple[str, bytes | None]]:
        for name, content in STAND_INS.items():
            if name not in self.grants:
                yield os.path.join(self.folder, name), content
        repository = os.path.join(self.folder, ".git")
        if ".git" in self.grants and os.path.isfile(os.path.join(repository, "HEAD")):
            for name, content in STAND_INS_IN_REPOSITORY.items():
                yield os.path.join(repository, name), content


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


class _Holds:
    """The folders in which jobs of this process run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, frozenset[str], bool], _Hold] = {}
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        """Entries of the journal that are open: to make a file for each job would take longer than the rest."""
        self._is_recovered = False

    def take(self, folder: str, grants: frozenset[str], is_closable: bool) -> _Hold:
        with self._lock:
            if not self._is_recovered:
                self._is_recovered = True
                _recover_others(folder)
            hold = self._held.get((folder, grants, is_closable))
            if hold is not None:
                hold.count += 1
                return hold
            hold = self._held[folder, grants, is_closable] = _Hold(folder, grants, self._entry(folder))
            if is_closable:
                hold.make_stand_ins()
            return hold

    def release(self, hold: _Hold) -> None:
        with self._lock:
            hold.count -= 1
            if not hold.count:
                self._held = {key: other for key, other in self._held.items() if other is not hold}
                hold.end()

    def close(self) -> None:
        """Close the journal, and forget the folders in which nothing was left."""
        with self._lock:
            while self._entries:
                self._entries.popitem()[1].close()

    def _entry(self, folder: str) -> _Entry | None:
        if any(hold.folder == folder for hold in self._held.values()):
            return _Entry.of(folder)  # with other grants: each has a lock of its own
        entry = self._entries.pop(folder, None)
        if entry is None or not entry.is_current():
            entry = _Entry.of(folder)
        if entry is not None:
            self._entries[folder] = entry
            if len(self._entries) > _MOST_ENTRIES:
                self._entries.popitem(last=False)[1].close()
        return entry


_holds = _Holds()
atexit.register(lambda: _holds.close())


class _Entry:
    """The entry of a folder in the journal: a file that every process with a job in the folder has a lock on.

    The kernel releases the locks of a process that was killed: content without a lock is of such a process.
    """

    def __init__(self, folder: str, path: str, descriptor: int) -> None:
        self._folder, self._path, self._descriptor = folder, path, descriptor

    @classmethod
    def of(cls, folder: str) -> _Entry | None:
        """The entry of a folder; None where no journal can be kept."""
        journal = _journal()
        if journal is None:
            return None
        path = os.path.join(journal, hashlib.sha256(os.fsencode(folder)).hexdigest()[:32])
        try:
            os.makedirs(journal, mode=0o700, exist_ok=True)
            return cls(folder, path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            log.warning("No journal of jobs can be kept: %s", error)
            return None

    def is_current(self) -> bool:
        """Whether it is still the file that others would open."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except OSError:
            return False

    def take(self) -> tuple[str, ...]:
        """Have the lock, and clean up after a process that was killed: what was done, a sentence each."""
        import fcntl

        while True:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if self.is_current():
                break
            # Somebody forgot the folder between opening and locking it.
            other = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.close(self._descriptor)
            self._descriptor = other
        size = os.fstat(self._descriptor).st_size
        if not size or size > _MOST_JOURNAL:
            return ()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._recover(json.loads(os.pread(self._descriptor, size, 0)))
        except BlockingIOError:
            return ()  # its process is alive
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("An entry of the journal of jobs cannot be used: %s", error)
            return ()
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _recover(self, data: dict[str, Any]) -> tuple[str, ...]:
        remove_stand_ins(data["stand_ins"])
        before = Survey(names=frozenset(data["names"]), links=dict(data["links"]))
        found = clean_up(self._folder, before, frozenset(data["absent"]), frozenset(data["grants"]))
        texts = tuple(
            f"A job before this one was not ended by its host. {text}" for text in found.notes + found.failures
        )
        for text in texts:
            log.warning("%s: %s", self._folder, text)
        return texts

    def write(
        self, before: Survey, absent: Collection[str], grants: Collection[str], stand_ins: Collection[str]
    ) -> None:
        data = {
            "folder": self._folder,
            "grants": sorted(grants),
            "names": sorted(before.names),
            "absent": sorted(absent),
            "links": dict(before.links),
            "stand_ins": list(stand_ins),
        }
        content = json.dumps(data).encode("utf-8", "surrogateescape")
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, content, 0)
            os.ftruncate(self._descriptor, len(content))

    def is_last(self) -> bool:
        """Whether no other process has a job in the folder."""
        import fcntl

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Have no lock any more."""
        import fcntl

        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of it, and forget the folder if nobody has a job there."""
        if self.is_last():
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        os.close(self._descriptor)


def _journal() -> str | None:
    """The folder of the journal; None where none can be kept."""
    from metier.library.cache import default_cache_folder

    cache = default_cache_folder()
    return os.path.join(cache, "jobs") if cache is not None and os.name == "posix" else None


def _recover_others(folder: str) -> None:
    """Clean up in all other folders whose jobs were not ended by their hosts."""
    journal = _journal()
    names: list[str] = []
    if journal is not None:
        with contextlib.suppress(OSError):
            names = os.listdir(journal)
    for name in names:
        try:
            with open(os.path.join(journal or "", name), "rb") as file:
                left = json.loads(file.read(_MOST_JOURNAL) or b"{}").get("folder")
        except (OSError, ValueError, AttributeError):
            continue
        entry = _Entry.of(left) if isinstance(left, str) and left != folder else None
        if entry is not None:
            entry.take()
            entry.close()


def _after_fork() -> None:
    """The jobs of a process are not those of its fork."""
    global _holds
    _holds = _Holds()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
