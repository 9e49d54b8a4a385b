"""Memory, processes and disk of a job while it runs. This runs in the supervisor."""

from __future__ import annotations

import errno
import os
import time

from metier.run.native.light_stdlib import suppress

_PAGE = os.sysconf("SC_PAGESIZE")
_MOST_FILES = 100_000
"""More files than this that a job made or changed count as too much disk, however small they are."""

_LONG = 3_000
"""Bytes of a path, to which a name can still be added."""

_MOST_SCRATCH_FILES = 50_000
_MOST_IN_A_SOCKET = 2 * 1024 * 1024


class ProcessTree:
    """The processes of a job: all in its own namespace, or all descendants of its supervisor."""

    def __init__(self, *, is_alone: bool) -> None:
        self._is_alone = is_alone
        """Whether `/proc` shows nothing but the job and this process."""
        self._me = os.getpid()

    def processes(self) -> list[int]:
        """All processes of the job that are alive or not yet reaped."""
        if self._is_alone:
            return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != self._me]
        found: list[int] = []
        pending = [self._me]
        while pending:
            for child in children(pending.pop()):
                found.append(child)
                pending.append(child)
        return found


def children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads made them."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


class Memory:
    """The memory that the processes of a job use together, with what the kernel holds on their account."""

    def __init__(self, tree: ProcessTree, limit: int) -> None:
        self._tree, self._limit = tree, limit
        self._look_at = 0.0
        self._before = self._seen = _machine_memory()
        self._seen_used = 0
        self.peak = 0

    def is_over(self, deadline: float) -> bool:
        """Whether it is more than the limit; takes no longer than until `deadline`."""
        processes = self._tree.processes()
        used = sum(map(_resident, processes))
        available, shared = _machine_memory()
        gone, newly_shared = self._before[0] - available, shared - self._before[1]
        if used <= self._limit and max(gone, newly_shared) <= self._limit // 2:
            self.peak = max(self.peak, used)
            return False
        # Each process counts what it shares as its own, and nothing of what the kernel holds for it. To tell that apart
        # takes long when they are large: it is done now and then, and at once when they grow, or memory goes that could
        # be theirs. The machine's memory alone does not tell: others may give back what they take.
        now = time.monotonic()
        news = max(self._seen[0] - available, shared - self._seen[1], used - self._seen_used)
        if now < self._look_at and news < self._limit // 4:
            return False
        self._seen_used = used
        if used > self._limit:
            used = self._proportional(processes, deadline)
        # Others use this machine too: what the kernel holds counts only as far as that much is gone.
        held = sum(map(_held_for, processes)) + (_sockets(processes[-1]) * _MOST_IN_A_SOCKET if processes else 0)
        used += max(0, min(held, gone))
        if any(map(_shares, processes)):
            # It can be filled and then taken out of every process's sight.
            own = sum(_size(_read(f"/proc/{pid}/status"), b"RssAnon:") for pid in processes)
            used = max(used, newly_shared + own)
        self._look_at = time.monotonic() + 10 * (time.monotonic() - now)
        self._seen = available, shared
        self.peak = max(self.peak, used)
        return used > self._limit

    def _proportional(self, processes: list[int], deadline: float) -> int:
        used = 0
        for pid in processes:
            used += _proportional(pid)
            if used > self._limit or time.monotonic() > deadline:
                break
        return used


def _read(path: str) -> bytes:
    """The text of a file of the kernel's; empty if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _number(text: bytes, name: bytes) -> int:
    """The number behind a name in such a text; 0 if it is not there."""
    words = text.partition(name)[2][:64].split(maxsplit=1)
    return int(words[0]) if words and words[0].isdigit() else 0


def _size(text: bytes, name: bytes) -> int:
    """The bytes behind a name, where the kernel counts in kilobytes."""
    return _number(text, name) * 1024


def _machine_memory() -> tuple[int, int]:
    """The memory of this machine: available, and shared by processes without a file."""
    text = _read("/proc/meminfo")
    return _size(text, b"MemAvailable:"), _size(text, b"\nShmem:")


def _held_for(pid: int) -> int:
    """The memory that the kernel may hold for a process: page tables, and the content of sockets and pipes."""
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        descriptors = 0
    return _size(_read(f"/proc/{pid}/status"), b"VmPTE:") + max(0, descriptors - 16) * _MOST_IN_A_SOCKET


def _sockets(pid: int) -> int:
    """The number of sockets in the network of a process, those on their way to another included."""
    return _number(_read(f"/proc/{pid}/net/sockstat"), b"sockets: used")


def _shares(pid: int) -> bool:
    """Whether a process has memory that others can have too, by no file."""
    return b"/dev/zero (deleted)" in _read(f"/proc/{pid}/maps")


def _resident(pid: int) -> int:
    size = _resident_of(f"/proc/{pid}/statm")
    if not size:
        # A process whose first thread has ended looks like a dead one, though others go on.
        with suppress(OSError):
            threads = os.listdir(f"/proc/{pid}/task")
            size = max((_resident_of(f"/proc/{pid}/task/{thread}/statm") for thread in threads), default=0)
    return size


def _resident_of(path: str) -> int:
    pages = _read(path).split()
    return int(pages[1]) * _PAGE if len(pages) > 1 else 0


def _proportional(pid: int) -> int:
    return _size(_read(f"/proc/{pid}/smaps_rollup"), b"\nPss:") or _resident(pid)


class Disk:
    """The disk space that a job has written and left in use.

    Files are looked at only when there is reason to: its processes have written more than the limit, as the kernel
    counts, or that much less room is left.
    """

    def __init__(self, tree: ProcessTree, limit: int, folders: list[str], scratch: tuple[str, ...]) -> None:
        self._tree, self._limit, self._folders = tree, limit, folders
        self._scratch = {folder: _outside_device(folder) for folder in scratch}
        self._begun = time.time() - 1.0
        self._before = _written(os.getpid())
        self._free = {folder: _free(folder) for folder in folders}
        self._next_written, self._next_gone, self._next_made = limit, limit // 2, _MOST_FILES
        """The figures from which on the files themselves are looked at."""

    def is_over(self) -> bool:
        """Whether it is more than the limit."""
        processes = self._tree.processes()
        last = processes[-1] if processes else None
        uses = [_used(folder.format(pid=last), outside) for folder, outside in self._scratch.items() if last]
        scratch = sum(size for size, _ in uses)
        if scratch > self._limit or sum(files for _, files in uses) > _MOST_SCRATCH_FILES:
            return True
        written = sum(map(_written, (os.getpid(), *processes))) - self._before
        # What is gone from the disk may be gone to others, and what a process wrote may be written over; together with
        # the files that changed, they tell.
        gone, made = self._gone()
        if written + scratch <= self._next_written and gone <= self._next_gone and made <= self._next_made:
            return False
        if min(written, gone) + scratch > self._limit:
            # It wrote that much, and that much is gone: what cannot be found is held by no name.
            return True
        size, files = self._changed_files()
        # It is not worth another look before an eighth of the limit has been added.
        step = self._limit // 8
        self._next_written, self._next_gone = max(written, self._limit) + step, max(gone, self._limit // 2) + step
        self._next_made = max(made, _MOST_FILES) + _MOST_FILES // 8
        return min(size, max(written, gone)) + scratch > self._limit or files > _MOST_FILES

    def _gone(self) -> tuple[int, int]:
        """Bytes and number of files by which there is less room than when the job began."""
        gone, made = 0, 0
        for folder, (space, files) in self._free.items():
            now = _free(folder)
            gone, made = max(gone, space - now[0]), max(made, files - now[1])
        return gone, made

    def _changed_files(self) -> tuple[int, int]:
        """Bytes and number of the files that changed since the job began, and of those that have no name any more."""
        size, files = 0, 0
        pending: list[tuple[str, _Anchor | None]] = [(folder, None) for folder in self._folders]
        while pending:
            path, anchor = pending.pop()
            try:
                if len(os.fsencode(path)) > _LONG:
                    anchor = _Anchor(path)
                    path = anchor.path
            except OSError as error:
                if error.errno == errno.EMFILE:  # it lies deeper than anybody means to put a file
                    return size, _MOST_FILES + 1
                continue
            with suppress(OSError), os.scandir(path) as entries:
                for entry in entries:
                    with suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            pending.append((entry.path, anchor))
                        if found.st_ctime >= self._begun:
                            size += found.st_blocks * 512
                            files += 1
        return size + self._nameless(), files

    def _nameless(self) -> int:
        seen: dict[tuple[int, int], int] = {}
        for pid in self._tree.processes():
            with suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/fd"):
                    with suppress(OSError):
                        found = os.stat(f"/proc/{pid}/fd/{name}")
                        if not found.st_nlink:
                            seen[found.st_dev, found.st_ino] = found.st_blocks * 512
        return sum(seen.values())


class _Anchor:
    """A folder that is held open, so that the paths below it begin anew: the kernel takes none above 4,096 bytes."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.path = f"/proc/self/fd/{self._descriptor}"

    def __del__(self) -> None:
        with suppress(AttributeError):  # it could not be opened
            os.close(self._descriptor)


def _written(pid: int) -> int:
    """Bytes that a process, and those it has reaped, caused to be written to disk."""
    return _number(_read(f"/proc/{pid}/io"), b"\nwrite_bytes:")


def _outside_device(folder: str) -> int | None:
    """The device of a scratch folder outside of the sandbox, for one that is seen through the root of a process."""
    try:
        return os.stat(folder.format(pid="self")).st_dev if "{pid}" in folder else None
    except OSError:
        return None


def _used(folder: str, outside: int | None) -> tuple[int, int]:
    """Bytes and files in a file system that is the job's alone; none while it still is the one outside."""
    try:
        # A process of bubblewrap has the root of this machine until it has made that of the job, and never again.
        if outside is not None and os.stat(folder).st_dev == outside:
            return 0, 0
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree


def _free(folder: str) -> tuple[int, int]:
    """The free bytes and files in the file system of a folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0, 0
    return found.f_bfree * found.f_frsize, found.f_ffree
