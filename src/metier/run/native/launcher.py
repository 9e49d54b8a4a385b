"""This side of the launcher: it is started once for a process and asked for a cage for each job."""

from __future__ import annotations

import atexit
import contextlib
import errno
import marshal
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.errors import IsolationMissing
from metier.hints import for_people
from metier.run.environment import own_python

if TYPE_CHECKING:
    from metier.run.native.request import Base

_CODE = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from metier.run.native.launcher_process import main; main(int(sys.argv[2]))"
)
_ANSWER = 4_096
_SECONDS = 10.0
"""How long the launcher may take to answer; it does nothing but fork."""


class Launcher:
    """A running launcher."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*python(), "-c", _CODE, package_folder(), str(theirs.fileno())],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise IsolationMissing(
                    f"The launcher of the sandbox cannot be started: {error.strerror or error}.",
                    hint=for_people("`metier doctor` shows what this machine can enforce."),
                    missing=["files"],
                ) from None
        ours.settimeout(_SECONDS)
        self._requests = ours
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._known: set[int] = set()
        self._is_broken = False

    @property
    def is_usable(self) -> bool:
        """Whether it still answers, and to this process: a fork of it shares the socket and must not use it."""
        return not self._is_broken and self._owner == os.getpid() and self._process.poll() is None

    def ask(self, message: dict[str, Any], base: Base, descriptors: list[int]) -> int:
        """Have a cage made; the descriptor of its warden. Raises OSError when that cannot be."""
        data = marshal.dumps({**message, "base": base.key})
        with self._lock:
            try:
                if base.key not in self._known:
                    self._teach(base)
                socket.send_fds(self._requests, [data], descriptors)
                answer, received, _, _ = socket.recv_fds(self._requests, _ANSWER, 1)
            except BaseException:
                # An answer that comes later would be taken for that to the next request.
                self._is_broken = True
                raise
            if not answer:
                self._is_broken = True
                raise BrokenPipeError(errno.EPIPE, "the launcher has ended")
        if not received:
            raise OSError(answer.decode(errors="replace"))
        os.set_inheritable(received[0], False)
        return received[0]

    def _teach(self, base: Base) -> None:
        """Tell it what many requests have in common."""
        from metier.run.native.request import written

        paper = written(base.content)
        try:
            socket.send_fds(self._requests, [marshal.dumps({"learn": base.key})], [paper])
        finally:
            os.close(paper)
        self._known.add(base.key)

    def close(self) -> None:
        """End it, and with it every cage that it made."""
        self._requests.close()
        if self._owner != os.getpid():
            return
        try:
            self._process.wait(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_lock = threading.Lock()
_shared: Launcher | None = None


def shared() -> Launcher:
    """The launcher of this process, started when it is first needed, and again if it has ended."""
    global _shared
    with _lock:
        if _shared is not None and not _shared.is_usable:
            _shared.close()
            _shared = None
        if _shared is None:
            _shared = Launcher()
            atexit.register(close_shared)
        return _shared


def close_shared() -> None:
    """End the launcher of this process; the next job starts another."""
    global _shared
    from metier.run.native import cages

    cages.clear()
    atexit.unregister(close_shared)
    with _lock:
        launcher, _shared = _shared, None
    if launcher is not None:
        launcher.close()


def _after_fork() -> None:
    """In the child of a fork the lock may be held by a thread that is not there."""
    global _lock, _shared
    _lock = threading.Lock()
    _shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def python() -> list[str]:
    """A Python that takes nothing from its surroundings: no variables, no site packages, no bytecode to write."""
    return [own_python(), "-I", "-S", "-B", "-X", "utf8"]


def package_folder() -> str:
    """Where this package is imported from."""
    return str(Path(__file__).absolute().parents[3])


def kill(warden: int) -> None:
    """End a cage by its warden's descriptor, whatever state it is in."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(warden, signal.SIGKILL)
