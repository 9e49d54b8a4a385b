"""Cages that are empty: a job that fits into one needs no other, which saves most of the work of starting it.

A job fits where another ran before it with the same places, the same limits and the same network, and left nothing
behind. All its processes are dead by then, and its folders for temporary files are empty.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.run.native.request import SandboxRequest

_MOST = 2
"""How many are kept; each ends by itself when nobody needs it for a while."""


class Sandbox:
    """A cage and the line to its warden."""

    def __init__(self, control: socket.socket, warden: int, *, is_used: bool = False) -> None:
        self.control, self.warden = control, warden
        self.is_used = is_used
        """Whether another job ran in it before."""

    def close(self) -> None:
        """Let go of it, which ends it."""
        self.control.close()
        os.close(self.warden)


class _Idle:
    """The empty cages of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cages: list[tuple[object, Sandbox]] = []

    def take(self, fit: object) -> Sandbox | None:
        """An empty cage that a job fits into."""
        with self._lock:
            for at, (other, cage) in enumerate(self._cages):
                if other == fit:
                    del self._cages[at]
                    return cage
        return None

    def keep(self, fit: object, cage: Sandbox) -> None:
        """Keep a cage for the next job; the one that waited longest goes if there are too many."""
        gone = None
        with self._lock:
            self._cages.append((fit, cage))
            if len(self._cages) > _MOST:
                gone = self._cages.pop(0)[1]
        if gone is not None:
            gone.close()

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            cages, self._cages = self._cages, []
        for _, cage in cages:
            cage.close()


_idle = _Idle()


def enter_sandbox(wanted: SandboxRequest, streams: tuple[int, int, int], *, anew: bool = False) -> Sandbox:
    """Have a job started with these streams, in an empty cage if there is one that it fits into."""
    from metier.run.native.runner import launch

    if wanted.fit is not None and not anew:
        cage = _idle.take(wanted.fit)
        if cage is not None:
            if _given(cage, wanted, streams):
                cage.is_used = True
                return cage
            cage.close()
    return Sandbox(*launch(wanted, streams))


def keep(wanted: SandboxRequest, cage: Sandbox) -> None:
    """Keep an empty cage for another job like this one."""
    _idle.keep(wanted.fit, cage)


def clear() -> None:
    """Let go of all empty cages."""
    _idle.clear()


def _given(cage: Sandbox, wanted: SandboxRequest, streams: tuple[int, int, int]) -> bool:
    """Whether a cage could be told of a job; it may have ended by itself."""
    from metier.run.native.request import written

    paper = written(wanted.asked)
    try:
        with contextlib.suppress(OSError):
            socket.send_fds(cage.control, [b"job"], [paper, *streams])
            return True
    finally:
        os.close(paper)
    return False


def _after_fork() -> None:
    """The cages of a process are not those of its fork."""
    global _idle
    _idle = _Idle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
