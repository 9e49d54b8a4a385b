"""The channel between a shell and its worker: frames of JSON with bytes beside it, over one socket.

A frame is two lengths, a JSON object, and bytes that the object's `sizes` take apart. Both sides import this module;
neither believes the other, so lengths are bounded and nothing is ever evaluated.
"""

from __future__ import annotations

import json
import struct
import time

TYPE_CHECKING = False  # the worker pays for every import when it starts
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    Head: TypeAlias = dict[str, Any]

_LENGTHS = struct.Struct(">II")
_CHUNK, _MOST_CHUNK = 32_768, 1024 * 1024
"""Read in small pieces at first: for a large one memory is taken from the system each time."""
_encode = json.JSONEncoder(separators=(",", ":")).encode
MOST_HEAD = 16 * 1024 * 1024
MOST_BODY = 256 * 1024 * 1024


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelBroken(Exception):
    """The other side sent an invalid frame."""


class Channel:
    """One end of the socket. A receive that ran out of time can be repeated: the bytes so far are kept."""

    def __init__(self, line: socket.socket, *, most_head: int = MOST_HEAD, most_body: int = MOST_BODY) -> None:
        self._line = line
        self._most_head, self._most_body = most_head, most_body
        self._buffer = bytearray()
        self._timeout: float | None = -1.0

    def send(self, head: Head, blobs: Sequence[bytes] = (), *, timeout: float | None = None) -> None:
        """Send a frame; raises `ChannelClosed` if nobody takes it."""
        if blobs:
            head = {**head, "sizes": [len(blob) for blob in blobs]}
        text = _encode(head).encode()
        size = sum(map(len, blobs))
        start = _LENGTHS.pack(len(text), size) + text
        self._wait(timeout)
        try:
            if size < _CHUNK:
                self._line.sendall(b"".join((start, *blobs)))
                return
            self._line.sendall(start)
            for blob in blobs:
                self._line.sendall(blob)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self, *, timeout: float | None = None) -> tuple[Head, list[bytes]]:
        """The next frame; raises `TimeoutError` if it has not come in time, as a whole."""
        until = None if timeout is None else time.monotonic() + timeout
        self._fill(_LENGTHS.size, timeout, until)
        head_length, body_length = _LENGTHS.unpack_from(self._buffer)
        if head_length > self._most_head or body_length > self._most_body:
            raise ChannelBroken(f"a frame of {head_length} and {body_length} bytes is too large")
        end = _LENGTHS.size + head_length + body_length
        self._fill(end, timeout, until)
        text = bytes(self._buffer[_LENGTHS.size : _LENGTHS.size + head_length])
        body = bytes(self._buffer[_LENGTHS.size + head_length : end])
        del self._buffer[:end]
        try:
            head = json.loads(text.decode())
        except (ValueError, RecursionError) as error:
            raise ChannelBroken("a frame is not JSON") from error
        if not isinstance(head, dict):
            raise ChannelBroken("a frame is no object")
        return head, _split_body(head.pop("sizes", []), body)

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _wait(self, timeout: float | None) -> None:
        # Each setting is a call into the kernel, and mostly nothing changes.
        if timeout != self._timeout:
            self._line.settimeout(timeout)
            self._timeout = timeout

    def _fill(self, wanted: int, timeout: float | None, until: float | None) -> None:
        is_first = not self._buffer
        while len(self._buffer) < wanted:
            if not is_first and until is not None:
                # A frame that comes a byte at a time has no more time than one that comes at once.
                timeout = until - time.monotonic()
                if timeout <= 0:
                    raise TimeoutError
            is_first = False
            self._wait(timeout)
            try:
                chunk = self._line.recv(max(_CHUNK, min(wanted - len(self._buffer), _MOST_CHUNK)))
            except TimeoutError:
                raise
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not chunk:
                raise ChannelClosed("the other side has hung up")
            self._buffer += chunk


def _split_body(sizes: object, body: bytes) -> list[bytes]:
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ChannelBroken("the sizes in a frame are no numbers")
    if sum(sizes) != len(body):
        raise ChannelBroken("the sizes in a frame do not add up")
    if len(sizes) == 1:
        return [body]
    blobs, start = [], 0
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return blobs
