"""Starting sandboxes: the parent's side of the launcher process, and sandboxes to be used again.

A sandbox can take another job with the same places, limits and network if the one before it left nothing behind, which
saves most of the work of starting it. All processes of that job are dead by then, and its temporary folders are empty.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import marshal
import os
import select
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from metier.errors import IsolationMissing
from metier.hints import for_people
from metier.run.environment import isolated_python, package_folder
from metier.run.native.protocol import parse_report, recv_fds, send_fds, socket_pair, write_request

if TYPE_CHECKING:
    from metier.run.native.protocol import Socket
    from metier.run.native.request import Base, SandboxRequest

_CODE = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from metier.run.native.launcher_process import main; main(int(sys.argv[2]))"
)
_ANSWER = 4_096
_SECONDS = 10.0
"""Seconds that the launcher process may take to answer; it does nothing but fork."""
_MOST_IDLE = 2
"""Sandboxes that are kept; each ends by itself when nobody needs it for a while."""
_MOST_REPORT = 64 * 1024


class Launcher:
    """A running launcher process."""

    def __init__(self) -> None:
        ours, theirs = socket_pair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*isolated_python(), "-c", _CODE, package_folder(), str(theirs.fileno())],
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

    def ask(self, base: Base, descriptors: list[int]) -> int:
        """Have a sandbox made; the descriptor of its supervisor. Raises `OSError` when that fails."""
        data = marshal.dumps({"flags": base.flags, "maps_all": base.maps_all, "base": base.key})
        with self._lock:
            try:
                if base.key not in self._known:
                    self._send_base(base)
                send_fds(self._requests, data, descriptors)
                answer, received = recv_fds(self._requests, _ANSWER, 1)
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

    def _send_base(self, base: Base) -> None:
        """Send the part that many requests have in common."""
        content = write_request(base.content)
        try:
            send_fds(self._requests, marshal.dumps({"learn": base.key}), [content])
        finally:
            os.close(content)
        self._known.add(base.key)

    def close(self) -> None:
        """End it, and with it every sandbox that it made."""
        self._requests.close()
        if self._owner != os.getpid():
            return
        try:
            self._process.wait(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Sandbox:
    """A sandbox by the control socket and the process descriptor of its supervisor."""

    def __init__(self, control: Socket, supervisor: int) -> None:
        self.control, self.supervisor = control, supervisor
        self.is_used = False
        """Whether another job ran in it before."""

    def kill(self) -> None:
        """End it at once, whatever state it is in."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.supervisor, signal.SIGKILL)

    def wait_for_report(self, seconds: float) -> dict[str, str]:
        """The report of its supervisor when the job has ended; empty if that takes longer."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        deadline, report = time.monotonic() + seconds, b""
        while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
            data = self.control.recv(_MOST_REPORT)
            report += data
            if not data or len(report) > _MOST_REPORT:
                break
        return parse_report(report)

    def close(self) -> None:
        """Release it, which ends it."""
        self.control.close()
        os.close(self.supervisor)


_lock = threading.Lock()
_shared: Launcher | None = None
_idle: list[tuple[object, Sandbox]] = []
"""Empty sandboxes of this process, each with what a job must have to fit into it."""


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
    """End the launcher of this process and the idle sandboxes; the next job starts another."""
    global _shared
    close_idle()
    atexit.unregister(close_shared)
    with _lock:
        launcher, _shared = _shared, None
    if launcher is not None:
        launcher.close()


def close_idle() -> None:
    """End the idle sandboxes."""
    global _idle
    with _lock:
        idle, _idle = _idle, []
    for _, sandbox in idle:
        sandbox.close()


def _after_fork() -> None:
    """In the child of a fork the lock may be held by a thread that is not there; sandboxes are the parent's."""
    global _lock, _shared, _idle
    _lock = threading.Lock()
    _shared, _idle = None, []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def launch(request: SandboxRequest, streams: tuple[int, int, int]) -> Sandbox:
    """Start a job with these streams in a new sandbox."""
    control, theirs = socket_pair()
    try:
        with theirs, contextlib.ExitStack() as given:
            content = write_request(request.content)
            given.callback(os.close, content)
            descriptors = [content, theirs.fileno(), *streams]
            try:
                return Sandbox(control, shared().ask(request.base, descriptors))
            except (BrokenPipeError, ConnectionResetError):
                return Sandbox(control, shared().ask(request.base, descriptors))
    except BaseException:
        control.close()
        raise


def enter_sandbox(request: SandboxRequest, streams: tuple[int, int, int], *, anew: bool = False) -> Sandbox:
    """Start a job with these streams, in an idle sandbox if there is one that it fits into."""
    if request.fit is not None and not anew:
        with _lock:
            at = next((at for at, (fit, _) in enumerate(_idle) if fit == request.fit), None)
            sandbox = None if at is None else _idle.pop(at)[1]
        if sandbox is not None:
            if _send_job(sandbox, request, streams):
                sandbox.is_used = True
                return sandbox
            sandbox.close()
    return launch(request, streams)


def keep_sandbox(request: SandboxRequest, sandbox: Sandbox) -> None:
    """Keep an empty sandbox for another job like this one; the one that waited longest goes if there are too many."""
    with _lock:
        _idle.append((request.fit, sandbox))
        oldest = _idle.pop(0)[1] if len(_idle) > _MOST_IDLE else None
    if oldest is not None:
        oldest.close()


def _send_job(sandbox: Sandbox, request: SandboxRequest, streams: tuple[int, int, int]) -> bool:
    """Whether an idle sandbox got the job; it may have ended by itself."""
    content = write_request(request.content)
    try:
        with contextlib.suppress(OSError):
            send_fds(sandbox.control, b"job", [content, *streams])
            return True
    finally:
        os.close(content)
    return False
