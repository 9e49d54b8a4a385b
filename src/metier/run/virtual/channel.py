"""The channel between a shell and its worker: frames of JSON with bytes beside it, over one socket.

A frame is two lengths, a JSON object, and bytes that the object's `sizes` take apart. The contents of its `files` are
the last of these. Both sides import this module; neither believes the other, so lengths are bounded and nothing is ever
evaluated.
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

    def send(self, head: Head, blobs: Sequence[bytes] = (), *, timeout: float | None = None) -> None:
        """Send a frame; raises `ChannelClosed` if nobody takes it."""
        if files := head.get("files"):
            head = {**head, "files": [file[:3] for file in files]}
            blobs = [*blobs, *[file[3] for file in files]]
        if blobs:
            head = {**head, "sizes": [len(blob) for blob in blobs]}
        text = _encode(head).encode()
        size = sum(map(len, blobs))
        start = _LENGTHS.pack(len(text), size) + text
        self._line.settimeout(timeout)
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
        self._fill(_LENGTHS.size, until)
        head_length, body_length = _LENGTHS.unpack_from(self._buffer)
        if head_length > self._most_head or body_length > self._most_body:
            raise ChannelBroken(f"a frame of {head_length} and {body_length} bytes is too large")
        end = _LENGTHS.size + head_length + body_length
        self._fill(end, until)
        text = bytes(self._buffer[_LENGTHS.size : _LENGTHS.size + head_length])
        body = bytes(self._buffer[_LENGTHS.size + head_length : end])
        del self._buffer[:end]
        try:
            head = json.loads(text.decode())
        except (ValueError, RecursionError) as error:
            raise ChannelBroken("a frame is not JSON") from error
        if not isinstance(head, dict):
            raise ChannelBroken("a frame is no object")
        blobs = _split_body(head.pop("sizes", []), body)
        if files := head.get("files"):
            head["files"] = _take_files(files, blobs)
        return head, blobs

    def _fill(self, wanted: int, until: float | None) -> None:
        while len(self._buffer) < wanted:
            # A frame that comes a byte at a time has no more time than one that comes at once.
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._line.settimeout(left)
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
    blobs, start = [], 0
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return blobs


def _take_files(records: object, blobs: list[bytes]) -> list[tuple[Any, ...]]:
    """The files of a frame; their contents are taken from the end of its blobs."""
    if not isinstance(records, list) or len(records) > len(blobs):
        raise ChannelBroken("the files in a frame have no contents")
    if not all(isinstance(record, list) and len(record) == 3 for record in records):
        raise ChannelBroken("a file in a frame is none")
    first = len(blobs) - len(records)
    contents, blobs[first:] = blobs[first:], []
    return [(*record, content) for record, content in zip(records, contents, strict=True)]
