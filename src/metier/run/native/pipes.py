"""The pipes that a job writes to, read so that what it wrote to one before the other is also seen before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.run.output import Stream

_CHUNK = 65_536
_ONE, _MANY = 4_096, 1024 * 1024
"""Room in a pipe for what is written at once and nothing more, and for much."""


class Pipes:
    """Two pipes, and one more descriptor to wait for.

    When somebody listens, each pipe has room for a single write, and the kernel queues the pipes in the order in which
    they were written to. So the order of a job's writes is known, though they go two ways; the job waits for each to be
    read, which takes no longer than to tell of it.
    """

    def __init__(self, streams: tuple[Stream, Stream], *, is_ordered: bool) -> None:
        self._opened = contextlib.ExitStack()
        self._given = contextlib.ExitStack()
        self._poll = select.epoll()
        self._opened.callback(self._poll.close)
        self._pending: dict[int, Stream] = {}
        self._is_ordered = is_ordered
        ends = []
        for stream in streams:
            read, write = os.pipe2(os.O_CLOEXEC | (os.O_DIRECT if is_ordered else 0))
            self._opened.callback(os.close, read)
            self._given.callback(os.close, write)
            os.set_blocking(read, False)
            if is_ordered:
                with contextlib.suppress(OSError):
                    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, _ONE)
            self._poll.register(read, select.EPOLLIN | (select.EPOLLET if is_ordered else 0))
            self._pending[read] = stream
            ends.append(write)
        self.given: tuple[int, int] = (ends[0], ends[1])
        """The ends that the job writes to."""
        self.are_given = True
        """Whether this side still has them too."""

    @property
    def are_open(self) -> bool:
        """Whether more may come."""
        return bool(self._pending)

    def give_away(self) -> None:
        """Let go of the ends that the job has by now."""
        self._given.close()
        self.are_given = False

    def close(self) -> None:
        """Let go of everything."""
        self._given.close()
        self._opened.close()

    def watch(self, descriptor: int) -> None:
        """Wait for something else too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Wait for it no more."""
        self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> bool:
        """Wait, and take what came; whether there is something at the other descriptor."""
        is_other = False
        events = self._poll.poll(seconds)
        for descriptor, kind in events:
            stream = self._pending.get(descriptor)
            if stream is None:
                is_other = True
            else:
                self._take(descriptor, stream, to_end=bool(kind & (select.EPOLLHUP | select.EPOLLERR)))
        if not events and self._is_ordered:
            # Who makes a pipe larger, or writes to it by another name, may write twice and be announced once.
            for descriptor, stream in tuple(self._pending.items()):
                self._take(descriptor, stream, to_end=True)
        return is_other

    def _take(self, descriptor: int, stream: Stream, *, to_end: bool) -> None:
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._poll.unregister(descriptor)
                del self._pending[descriptor]
                return
            stream.feed(chunk)
            if self._is_ordered and stream.is_truncated:
                # Nobody is told of the rest.
                self._let_flow(descriptor)
            if not to_end or stream.is_flooded:
                return

    def _let_flow(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _MANY)
        self._poll.modify(descriptor, select.EPOLLIN)
