"""The resident process: one of a user, which decides about the events of hooks until nobody asks any longer.

It is started by a hook that found none (`start_resident`), and ends when it was idle, when Métier was upgraded, and
when its socket is no longer its own. When it rests and has grown large, it begins anew with the same socket. A client
that gets no whole answer of it decides without it, so that it may end or be killed at any time.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING

from metier.serve.client_hooks.resident_socket import (
    decisive_variables,
    format_answer,
    identity_of,
    is_own,
    is_peer_own,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.serve.client_hooks.event import Output

IDLE_VARIABLE = "METIER_HOOK_IDLE"
_IDLE = 900.0
_MAX_IDLE = 86_400.0
_LOOK = 30.0
"""Seconds after which it looks whether its socket is still its own, and how large it has grown if nobody asks."""
_MAX_REST = 36_000_000
"""Bytes of memory with which it may wait: signing a checkpoint of the audit log alone takes nine of them for good."""
_THREADS = 8
_SENDING = 5.0
"""Seconds in which a client must have sent its request, and in which it must take the answer."""
_FINISHING = 10.0
"""Seconds in which decisions that are under way may come to their end."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Resident:
    """A process that answers on a socket: `answer` decides about the input of a hook of a client."""

    def __init__(
        self,
        path: str,
        answer: Callable[[str, bytes], Output],
        *,
        idle: float = _IDLE,
        listener: socket.socket | None = None,
    ) -> None:
        self._path = path
        self._answer = answer
        self._idle = idle
        self._identity = identity_of(sys.executable, os.environb)
        self._package = _stamp_of_package()
        self._lock = threading.Lock()
        self._waiting = self._busy = 0
        self._threads: list[threading.Thread] = []
        self._last = time.monotonic()
        self._must_end = threading.Event()
        self._has_answered = False
        self.listener = listener or _listen(path)
        self._inode = os.lstat(path).st_ino

    def serve(self) -> bool:
        """Answer until it must end, or begin anew: then it is true, and the socket listens on.

        In the end the socket is gone, and each decision that was begun is recorded.
        """
        self._start_thread()
        while not self._must_end.is_set() and self._has_socket():
            since = time.monotonic() - self._last
            left = self._idle - since
            if left <= 0 and not self._busy:
                break
            if since >= _LOOK and self._has_answered and not self._busy and _memory() > _MAX_REST:
                return True
            self._must_end.wait(min(max(left, 0.05), _LOOK))
        if self._has_socket():
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._must_end.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # which wakes those who wait for a connection
        until = time.monotonic() + _FINISHING
        while self._busy and time.monotonic() < until:
            time.sleep(0.01)
        for thread in self._threads:
            thread.join(0.5)
        if not any(thread.is_alive() for thread in self._threads):
            # Not before: a thread might go on with another file of the same number.
            self.listener.close()
        return False

    def _has_socket(self) -> bool:
        try:
            return os.lstat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _start_thread(self) -> None:
        self._waiting += 1
        self._threads.append(threading.Thread(target=self._accept, name="hook", daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while not self._must_end.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                # It was closed, or there are too many open files for now.
                self._must_end.wait(0.1)
                continue
            with self._lock:
                self._busy += 1
                self._waiting -= 1
                if not self._waiting and len(self._threads) < _THREADS:
                    self._start_thread()
            # A connection that is closed without an answer has its client decide by itself.
            with connection, contextlib.suppress(Exception):
                self._serve_one(connection)
            with self._lock:
                self._busy -= 1
                self._waiting += 1
                self._last = time.monotonic()

    def _serve_one(self, connection: socket.socket) -> None:
        """Answer one request, if it is one of this user and for this process; raises as anything here does."""
        if not is_peer_own(connection):
            return
        request = read_request(connection, _SENDING)
        if self._package != _stamp_of_package():
            self._must_end.set()
        # A client that gave up while this process was stopped has decided otherwise by now.
        if self._must_end.is_set() or request.identity != self._identity or _has_hung_up(connection):
            return
        self._has_answered = True
        output = self._answer(request.client, request.data)
        connection.settimeout(_SENDING)
        connection.sendall(format_answer(output))


def start_resident(path: str, *, is_late: bool = False) -> None:
    """Start the process in the background unless there is one; one that was late (`is_late`) is replaced.

    Nothing is started where the folder is not of this user alone.
    """
    if sys.platform == "win32" or not _make_folder(os.path.dirname(path)):
        return
    if is_late:
        # It ends when it sees that; so does one which has its last answers to give.
        for name in (path, _lock_path(path)):
            with contextlib.suppress(OSError):
                os.unlink(name)
    if (lock := _take_lock(path)) is None:
        return
    environ = {**decisive_variables(os.environb), b"MALLOC_ARENA_MAX": b"1"}
    if idle := os.environ.get(IDLE_VARIABLE):
        environ[IDLE_VARIABLE.encode()] = os.fsencode(idle)
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        os.set_inheritable(lock, True)
        with contextlib.suppress(OSError):
            os.posix_spawn(sys.executable, _command(path, lock), environ, file_actions=nowhere)
    finally:
        os.close(lock)


def run_resident(path: str, lock: int, listener: int | None = None) -> None:
    """Be the process that `start_resident` starts, which holds the lock by its descriptor.

    One that begins anew has the descriptor of the socket that listens, too.
    """
    if listener is None:
        os.setsid()
        os.chdir("/")
        os.closerange(3, lock)
        os.closerange(lock + 1, 1024)
        if not is_own(os.path.dirname(path), stat.S_IFDIR):
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of one that was killed, as this one has the lock
    os.set_inheritable(lock, False)
    idle = os.environ.get(IDLE_VARIABLE, "")
    from metier.serve.client_hooks.gate import HookGate

    resident = Resident(
        path,
        HookGate().answer,
        idle=min(float(idle), _MAX_IDLE) if idle.isdecimal() else _IDLE,
        listener=None if listener is None else socket.socket(fileno=listener),
    )
    if not resident.serve():
        return
    import atexit

    atexit._run_exitfuncs()
    for number in (lock, resident.listener.fileno()):
        os.set_inheritable(number, True)
    os.execve(sys.executable, _command(path, lock, resident.listener.fileno()), os.environb)


def _command(path: str, *descriptors: int) -> list[str]:
    flags = ("-I",) if sys.flags.isolated else ("-E", "-P")
    return [sys.executable, *flags, "-m", __spec__.parent, "--resident", path, *map(str, descriptors)]


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Without a moment in which others could connect to it.
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def _memory() -> int:
    """The bytes of memory that this process has now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _stamp_of_package() -> object:
    """A value that changes when the files of Métier are replaced; None when they are gone."""
    try:
        status = os.stat(os.path.join(_PACKAGE, "_version.py"))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _has_hung_up(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False


def _make_folder(folder: str) -> bool:
    """Make the folder of the socket, and those above it; whether it is of this user alone."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
        os.mkdir(folder, 0o700)
    return is_own(folder, stat.S_IFDIR)


def _lock_path(path: str) -> str:
    return path.removesuffix(".sock") + ".lock"


def _take_lock(path: str) -> int | None:
    """The descriptor of the lock that one process for this socket holds as long as it lives; None if another has it."""
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(_lock_path(path), flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == os.lstat(_lock_path(path)).st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
