"""The journal of jobs: what each of them holds in its folder, so that it is cleaned up when its host was killed.

Every process has one file, which it keeps locked; the kernel releases the lock of a process that has ended. A line is
written before a job begins, and the file is emptied when none is left. Whoever begins or ends a job has the lock of the
folder meanwhile, so that nobody makes or removes the same at that moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metier._log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logger("metier.run")

Entry = Mapping[str, Any]
"""A line of the journal."""

_MOST_BYTES = 16 * 1024 * 1024


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
        """Have nobody else begin or end a job meanwhile."""
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
        """Write what a job holds, and return the number by which it ends."""
        self._next += 1
        self._held[self._next] = entry
        self._write({"begin": self._next, **entry})
        return self._next

    def end(self, number: int) -> None:
        """Take a job out."""
        self._held.pop(number, None)
        if self._held:
            self._write({"end": number})
        elif self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)

    def held(self) -> Iterator[Entry]:
        """What jobs of this process and of others hold now."""
        yield from tuple(self._held.values())
        for path, descriptor in self._others():
            if not _locks(descriptor):
                yield from _entries(path, descriptor)

    def abandoned(self) -> Iterator[Entry]:
        """What jobs held whose process is gone; each is forgotten when the next one is asked for."""
        for path, descriptor in self._others():
            if _locks(descriptor):
                yield from _entries(path, descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def close(self) -> None:
        """Let go of the files; a file with jobs in it stays for whoever cleans up."""
        with self._lock:
            if self._file is not None and not self._held:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files in a process that was forked from the one that they belong to."""
        for descriptor in (self._file, self._turn):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._turn = None

    def _open(self) -> None:
        if self.folder is None:
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._turn = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._path = os.path.join(self.folder, f"{os.getpid()}-{secrets.token_hex(8)}")
        try:
            with self.turn():  # or somebody would take a file that has no lock yet for one of a process that is gone
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
                if not _locks(self._file):
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


def _locks(descriptor: int) -> bool:
    """Whether a file is locked for us now: nobody else has it."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _entries(path: str, descriptor: int) -> list[Entry]:
    """The jobs in a file that have not ended."""
    found: dict[object, Entry] = {}
    try:
        for line in os.pread(descriptor, _MOST_BYTES, 0).splitlines():
            data = json.loads(line)
            if "begin" in data:
                found[data["begin"]] = data
            else:
                found.pop(data["end"], None)
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s: a line of the journal of jobs cannot be used: %s", path, error)
    return list(found.values())
