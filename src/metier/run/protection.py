"""Protection of the folders that a job may write in: before it runs, while it runs, and after it, or its host, ended.

The runner closes protected places that are there. Stand-ins, empty folders that the runner closes too, take absent ones
that running programs look for by themselves. Everything else that a job makes under a protected name is set aside when
it has ended, and a link that it replaced is put back.

A journal lists what each job holds in its folder, so that the next job cleans up after one whose host was killed. Every
process has one file, which it keeps locked; the kernel releases the lock of a process that has ended. A line is written
before a job begins, and the file is emptied when none is left. The lock of the folder is held while a job begins or
ends, so that nobody makes or removes the same at that moment.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, logger, replace
from metier._paths import default_cache_folder, moved_path
from metier.guard.files.protected_names import MOST_FOLDERS, protected_name_in
from metier.guard.files.protected_places import STAND_INS, STAND_INS_IN_REPOSITORY, find_protected_places

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from metier.guard.files.protected_places import ProtectedPlaces
    from metier.run.job import Job, JobPath, Outcome

    Entry: TypeAlias = Mapping[str, Any]
    """A line of the journal."""

log = logger("metier.run")

_REFUSALS = ("Read-only file system", "Device or resource busy", "Permission denied", "EROFS", "EBUSY", "EACCES")
_MOST_JOURNAL_BYTES = 16 * 1024 * 1024
_LATE = 5.0
"""Seconds that a job may take to end."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW if os.name == "posix" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """The findings after a job has ended."""

    notes: tuple[str, ...] = ()
    """Paths that were set aside or put back, a sentence each."""
    failures: tuple[str, ...] = ()
    """Paths that could not be set aside or put back, a sentence each: the run has failed, whatever its exit code."""


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
        self._opened = os.open(self.folder, FOLDER_FLAGS) if FOLDER_FLAGS else None
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
            """The absolute paths of the stand-ins."""
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
        from metier.run.cleanup import how_to_grant

        closed = (os.path.relpath(path, self.folder) for path in (*self.before.closed, *self.stand_ins))
        named = (path for path in closed if re.search(rf"{re.escape(path)}(?![\w.-])", errors) is not None)
        return [
            f"{name} is a protected place, which it cannot write. {how_to_grant(self.folder, name)}"
            for name in dict.fromkeys(protected_name_in(path, self._grants) for path in named)
            if name is not None
        ]

    def clean_up(self) -> Cleanup:
        """Set aside the protected names that the job made, and put back the links that it replaced."""
        self._is_clean = True
        self._follow()
        found = Cleanup()
        made, closed = new_places(self.folder, self.before, self._absent, self._grants)
        if made or not closed <= self.before.unreadable:
            from metier.run.cleanup import clean_up

            found = clean_up(self.folder, self.before, self._absent, self._grants)
        more = [f"Only {MOST_FOLDERS:,} folders were searched for protected places."] if self.before.is_cut else []
        return replace(found, notes=(*self._recovered, *found.notes, *more))

    def _follow(self) -> None:
        """Find the folder where it is now, if it was moved while the job ran."""
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


def protect(job: Job, places: Iterable[JobPath], held: contextlib.ExitStack, *, is_closable: bool) -> list[Protection]:
    """Protect the folders that a job may write in, until `held` is closed."""
    found = []
    for path in dict.fromkeys([place.path for place in places if place.is_writable]):
        if os.path.isdir(path):
            found.append(Protection(path, job.grants, seconds=job.limits.seconds, is_closable=is_closable))
            held.callback(found[-1].release)
    return found


def conclude(outcome: Outcome, protections: Sequence[Protection]) -> Outcome:
    """The outcome of a job with the findings in its folders; a job after which clean-up fails has failed."""
    found = [protection.clean_up() for protection in protections]
    failures = [text for one in found for text in one.failures]
    notes = [*failures, *(text for one in found for text in one.notes)]
    # A program may have failed to write something and gone on, as git does when it switches branches.
    notes += [note for one in protections for note in one.explain(outcome.stderr)]
    if failures:
        said = "".join(f"{text}\n" for text in failures)
        outcome = replace(outcome, exit_code=outcome.exit_code or 1, stderr=outcome.stderr + said)
    return replace(outcome, notes=(*outcome.notes, *dict.fromkeys(notes))) if notes else outcome


def new_places(
    folder: str, before: ProtectedPlaces, absent: Collection[str], grants: Collection[str]
) -> tuple[list[str], frozenset[str]]:
    """Protected paths that a job made or replaced, and closed folders; `absent` is where links led to nothing."""
    after = find_protected_places(folder, grants, with_packages=True, looks_around=False)
    replaced = [path for path, target in before.links.items() if _target_of(path) != target]
    led_to = {_outermost_link(folder, path) for path in absent if os.path.lexists(path)}
    made = (after.names - before.names | led_to) - set(replaced)
    return [*replaced, *sorted(made)], after.unreadable


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


def _stand_ins(folder: str, grants: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
    """The paths of stand-ins in a folder, and the content of each that is a file."""
    for name, content in STAND_INS.items():
        if name not in grants:
            yield os.path.join(folder, name), content
    repository = os.path.join(folder, ".git")
    if ".git" in grants and os.path.isfile(os.path.join(repository, "HEAD")):
        for name, content in STAND_INS_IN_REPOSITORY.items():
            yield os.path.join(repository, name), content


def _make_stand_in(path: str, content: bytes | None) -> bool:
    """Make a stand-in; where that is not possible, the job cannot make the name either."""
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
    """Remove paths that still are stand-ins, and nothing else."""
    for path in paths:
        folder, name = os.path.split(path)
        with contextlib.suppress(OSError):
            parent = os.open(folder, FOLDER_FLAGS)
            try:
                content = STAND_INS_IN_REPOSITORY.get(name)
                with writable_folder(parent):
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


@contextlib.contextmanager
def writable_folder(folder: int) -> Iterator[None]:
    """Let names in a folder be changed for a moment: a job may have taken that right away."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o300 == 0o300:
        yield
        return
    os.fchmod(folder, mode | 0o700)
    try:
        yield
    finally:
        os.fchmod(folder, mode)


class Journal:
    """The journal in a folder; without one, or where files cannot be locked, nothing is kept."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._turn: int | None = None
        self._file: int | None = None
        self._path = ""
        self._held: dict[int, Entry] = {}
        self._next = 0
        try:
            self._open()
        except OSError as error:
            self.folder = None
            log.warning("No journal of jobs can be kept: %s", error)

    @property
    def is_busy(self) -> bool:
        """Whether jobs of this process are in it."""
        return bool(self._held)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other processes from beginning or ending a job meanwhile."""
        with self._lock:
            if self._turn is None:
                yield
                return
            import fcntl

            fcntl.flock(self._turn, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._turn, fcntl.LOCK_UN)

    def begin(self, entry: Entry) -> int:
        """Write the entry of a job; the number by which it ends."""
        self._next += 1
        self._held[self._next] = entry
        self._write({"begin": self._next, **entry})
        return self._next

    def end(self, number: int) -> None:
        """Remove the entry of a job."""
        self._held.pop(number, None)
        if self._held:
            self._write({"end": number})
        elif self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def held(self) -> Iterator[Entry]:
        """The entries of running jobs, of this process and of others."""
        yield from tuple(self._held.values())
        for path, descriptor in self._others():
            if not _try_lock(descriptor):
                yield from _read_entries(path, descriptor)

    def abandoned(self) -> Iterator[Entry]:
        """The entries of jobs whose process is gone; each is removed when the next one is asked for."""
        for path, descriptor in self._others():
            if _try_lock(descriptor):
                yield from _read_entries(path, descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def close(self) -> None:
        """Close the files; a file with jobs in it stays for the process that cleans up."""
        with self._lock:
            if self._file is not None and not self._held:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
            self.abandon()

    def abandon(self) -> None:
        """Close the files in a process that was forked from the one that they belong to."""
        for descriptor in (self._file, self._turn):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._turn = None

    def _open(self) -> None:
        if self.folder is None:
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._turn = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._path = os.path.join(self.folder, f"{os.getpid()}-{os.urandom(8).hex()}")
        try:
            with self.turn():  # a file that has no lock yet looks like that of a process that is gone
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
                if not _try_lock(self._file):
                    raise BlockingIOError("its own file is locked")
        except OSError:
            self.close()
            raise

    def _write(self, line: Entry) -> None:
        if self._file is not None:
            try:
                os.write(self._file, json.dumps(line).encode("utf-8", "surrogateescape") + b"\n")
            except OSError as error:
                log.warning("The journal of jobs cannot be written: %s", error)

    def _others(self) -> Iterator[tuple[str, int]]:
        """The files of other processes, each open until the next one."""
        names: list[str] = []
        if self.folder is not None:
            with contextlib.suppress(OSError):
                names = os.listdir(self.folder)
        for name in names:
            path = os.path.join(self.folder or "", name)
            if path == self._path:
                continue
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                yield path, descriptor
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a file for this process; False if another has it."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_entries(path: str, descriptor: int) -> list[Entry]:
    """The jobs in a file that have not ended."""
    found: dict[object, Entry] = {}
    try:
        for line in os.pread(descriptor, _MOST_JOURNAL_BYTES, 0).splitlines():
            data = json.loads(line)
            if "begin" in data:
                found[data["begin"]] = data
            else:
                found.pop(data["end"], None)
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s: a line of the journal of jobs cannot be used: %s", path, error)
    return list(found.values())


def _recover(folder: str) -> tuple[str, ...]:
    """Clean up after jobs whose hosts were killed: the notes on one folder, a sentence each."""
    texts: list[str] = []
    with _journal().turn():
        for entry in _journal().abandoned():
            from metier.run.cleanup import recover

            found = recover(entry)
            if entry.get("folder") == folder:
                texts += [f"A job before this one was not ended by its host. {text}" for text in found]
    return tuple(texts)


_opening = threading.Lock()
_journals: dict[str | None, Journal] = {}
"""The journal of this process, by its folder; one that was left for another folder stays as long as it is busy."""


def _journal() -> Journal:
    cache = default_cache_folder() if os.name == "posix" else None
    folder = os.path.join(cache, "jobs") if cache is not None else None
    with _opening:
        if folder not in _journals:
            for other in [other for other, journal in _journals.items() if not journal.is_busy]:
                _journals.pop(other).close()
            _journals[folder] = Journal(folder)
        return _journals[folder]


def _close_journals() -> None:
    """Close the journals of this process."""
    while _journals:
        _journals.popitem()[1].close()


def _after_fork() -> None:
    """The jobs of a process are not those of its fork, which shares the locks of its parent until this has run."""
    global _opening
    _opening = threading.Lock()
    while _journals:
        _journals.popitem()[1].abandon()


atexit.register(_close_journals)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
