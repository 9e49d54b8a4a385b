"""Standard input and output as the line to one client, waited for in the event loop."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_PIECE = 64 * 1024
_in_use = threading.Lock()


@contextlib.asynccontextmanager
async def client_streams() -> AsyncIterator[tuple[Any, Any]]:
    """The messages from and to the client, as `stdio_server` of the SDK has them, for less CPU.

    The SDK hands each line to a thread and each answer to two. A read that waits in a thread cannot be interrupted
    either, so a signal would end the server only when its client is gone.
    """
    if sys.platform == "win32" or not (_is_of(sys.stdin, 0) and _is_of(sys.stdout, 1)):
        async with stdio_server() as streams:
            yield streams
        return
    with _alone(), _diverted(0) as incoming, _diverted(1) as outgoing:
        # They have what it uses of a file of anyio's.
        lines: Any = _lines(incoming)
        output: Any = _Output(outgoing)
        async with stdio_server(lines, output) as streams:
            yield streams


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """Each line that the client sends, and at the end what has no line end."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    pieces: list[str] = []
    is_open = True
    while is_open:
        data = await _read(descriptor)
        is_open = bool(data)
        first, *others = decoder.decode(data, final=not is_open).split("\n")
        pieces.append(first)
        for line in others:
            yield "".join(pieces)
            pieces = [line]
    if last := "".join(pieces):
        yield last


async def _read(descriptor: int) -> bytes:
    """Wait for the client to send something; empty when it is gone."""
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # nobody has to wait for it, and some systems would at its end
            await anyio.lowlevel.checkpoint()
        else:
            await anyio.wait_readable(descriptor)
    except OSError:  # a device that cannot be waited for
        return await anyio.to_thread.run_sync(_read_now, descriptor, abandon_on_cancel=True)
    return _read_now(descriptor)


def _read_now(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError:  # the client ended without reading what it was sent
        return b""


class _Output:
    """Writes to the client when there is room: one that does not read holds up nothing else, nor the server's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)

    async def write(self, text: str) -> None:
        left = memoryview(text.encode())
        while left:
            if not self._room.poll(0):
                await anyio.wait_writable(self._descriptor)
            # No more than is certain to have room; the descriptor is shared, so it must stay one that blocks.
            left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]

    async def flush(self) -> None:
        """Nothing is held back."""


@contextlib.contextmanager
def _diverted(descriptor: int) -> Iterator[int]:
    """Another descriptor of a standard stream, whose own one reads nothing, or writes to standard error, meanwhile.

    Nothing that a tool or a process reads or prints is then taken for a message.
    """
    import fcntl

    own = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)  # never the number of a standard stream that is closed
    try:
        elsewhere = _open_elsewhere(descriptor)
        try:
            os.dup2(elsewhere, descriptor)
        finally:
            os.close(elsewhere)
        try:
            yield own
        finally:
            os.dup2(own, descriptor)
    finally:
        os.close(own)


def _open_elsewhere(descriptor: int) -> int:
    if descriptor == 0:
        return os.open(os.devnull, os.O_RDONLY)
    try:
        return os.dup(2)
    except OSError:  # it is closed
        return os.open(os.devnull, os.O_WRONLY)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    if not _in_use.acquire(blocking=False):
        raise RuntimeError("another server in this process uses standard input and output already")
    try:
        yield
    finally:
        _in_use.release()


def _is_of(stream: Any, descriptor: int) -> bool:
    """Whether a stream of `sys` is the one of the process, and not one that somebody put there."""
    try:
        return bool(stream.buffer.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False
