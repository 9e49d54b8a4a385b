"""The connection to a worker: requests with deadlines, whose replies are not trusted."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from metier.run.virtual.channel import Channel, ChannelBroken, ChannelClosed
from metier.run.virtual.worker_process import WorkerLost, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.run.virtual.channel import Head
    from metier.run.virtual.worker_process import Worker

_T = TypeVar("_T")

_LOOK_UP = 0.05
"""Seconds between two calls of `should_stop`."""
_MOMENT = 0.4
"""Seconds that a worker has for an answer in the middle of a request."""
_START = 20.0
"""Seconds that a worker has for requests other than commands: it starts, or moves files."""


class WorkerRefusal(Exception):
    """A refusal of the worker; its reason may be false."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class Connection:
    """A worker and the channel to it, for one request at a time."""

    def __init__(self, worker: Worker | None = None) -> None:
        self.worker = worker or start_worker()
        self._channel = Channel(self.worker.channel)
        self._gone: WorkerLost | None = None
        self._has_answered = False
        # A process that was forked from this one has the line too, but it is not its to use or to end.
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _abandon, self.worker, self._owner)

    @property
    def is_alive(self) -> bool:
        """Whether it takes requests."""
        return self._gone is None and self._owner == os.getpid()

    def ask(
        self,
        head: Head,
        blobs: Sequence[bytes] = (),
        *,
        seconds: float = _START,
        should_stop: Callable[[], bool] | None = None,
        on_event: Callable[[Head, list[bytes]], tuple[Head, Sequence[bytes]] | None] | None = None,
    ) -> tuple[Head, list[bytes]]:
        """Send a request, and wait for the reply. Events before it go to `on_event`, which may return an answer.

        Raises `WorkerRefusal`, or `WorkerLost` when there is nobody left to ask: it crashed, took too long, was told to
        stop, or sent what nobody sends.
        """
        if self._gone is not None:
            raise self._gone
        deadline = time.monotonic() + seconds
        try:
            self._channel.send(head, blobs, timeout=seconds)
            while True:
                reply, answer = self._next(deadline, should_stop)
                if "event" not in reply:
                    break
                back = on_event(reply, answer) if on_event is not None else None
                if back is not None:
                    # However late a program outside was ended, there is a moment for what it did.
                    deadline = max(deadline, time.monotonic() + _MOMENT)
                    self._channel.send(*back, timeout=deadline - time.monotonic())
        except ChannelClosed:
            raise self._lose(None) from None
        except TimeoutError:
            raise self._lose(WorkerLost(124, "timeout", "it took too long")) from None
        except (ChannelBroken, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise self._lose(WorkerLost(139, "crash", f"it sent what nobody sends ({error})")) from None
        except BaseException:
            # Nobody knows what the worker would say next, and to whom.
            self._lose(WorkerLost(137, "cancel", "it was interrupted"))
            raise
        self._has_answered = True
        if "error" in reply:
            raise WorkerRefusal(str(reply["error"])[:40], str(reply.get("detail", ""))[:500])
        return reply, answer

    def ask_for(
        self, read: Callable[[Head, list[bytes]], _T], head: Head, blobs: Sequence[bytes] = (), **more: Any
    ) -> _T:
        """Send a request as `ask` does, and `read` the reply; a worker whose reply is invalid is lost."""
        reply, answer = self.ask(head, blobs, **more)
        try:
            return read(reply, answer)
        except (ValueError, TypeError, KeyError, IndexError):
            raise self._lose(WorkerLost(139, "crash", "it sent what nobody sends")) from None

    def close(self) -> None:
        """End the worker."""
        if self.is_alive:
            self._lose(WorkerLost(137, "cancel", "it was closed"))

    def kill(self) -> None:
        """End the worker while another thread waits for its reply, which then raises `WorkerLost`."""
        self.worker.kill()
        # A waiting thread is woken, even if something holds the other end open.
        with contextlib.suppress(OSError):
            self.worker.channel.shutdown(socket.SHUT_RDWR)

    def _next(self, deadline: float, should_stop: Callable[[], bool] | None) -> tuple[Head, list[bytes]]:
        while (left := deadline - time.monotonic()) > 0:
            if should_stop is None:
                return self._channel.receive(timeout=left)
            if should_stop():
                raise self._lose(WorkerLost(137, "cancel", "it was told to stop"))
            with contextlib.suppress(TimeoutError):
                return self._channel.receive(timeout=min(_LOOK_UP, left))
        raise TimeoutError

    def _lose(self, why: WorkerLost | None) -> WorkerLost:
        """Make sure that the worker is dead, and remember how it died."""
        if self._gone is not None:
            return self._gone
        self._end.detach()
        if why is not None:
            self.worker.kill()
        with contextlib.suppress(OSError):
            self.worker.channel.close()
        death = self.worker.wait()
        if why is None and not self._has_answered:
            # No script has been in it yet, so that nobody else had a hand in what it wrote.
            why = WorkerLost(death.exit_code, death.killed_by, f"it does not start ({death.stderr or death.why})")
        self._gone = why or death
        return self._gone


def _abandon(worker: Worker, owner: int) -> None:
    if owner != os.getpid():
        return
    worker.kill()
    with contextlib.suppress(OSError):
        worker.channel.close()
    worker.wait()
