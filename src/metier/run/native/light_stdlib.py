"""Signals, sockets and `suppress` for the launcher process, without the modules of the standard library that wrap them.

Those bring `enum`, `collections` and `functools`, which is half of the time that the process takes to start, and memory
that each of its forks has to copy.
"""

from __future__ import annotations

import _socket
import struct

TYPE_CHECKING = False  # what type checkers take for true
if TYPE_CHECKING:
    import signal as signal
    import socket
    from collections.abc import Sequence
    from contextlib import suppress as suppress

    Socket = socket.socket
else:
    import _signal as signal  # noqa: F401

    class suppress:  # noqa: N801  (it is written like that of `contextlib`)
        """Leave a block that fails with one of these errors as if it had not."""

        def __init__(self, *errors: type[BaseException]) -> None:
            self._errors = errors

        def __enter__(self) -> None:
            pass

        def __exit__(self, error: type[BaseException] | None, *_: object) -> bool:
            return error is not None and issubclass(error, self._errors)

    class Socket(_socket.socket):
        """A socket that is closed at the end of a block."""

        def __enter__(self) -> Socket:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()


AF_INET, SOCK_STREAM = _socket.AF_INET, _socket.SOCK_STREAM
_NUMBER = struct.calcsize("i")


def send_fds(sender: Socket, message: bytes, descriptors: Sequence[int]) -> None:
    """Send a message with descriptors."""
    given = struct.pack(f"{len(descriptors)}i", *descriptors)
    sender.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, given)])


def recv_fds(receiver: Socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Receive a message, and the descriptors that came with it."""
    message, given, _, _ = receiver.recvmsg(size, _socket.CMSG_LEN(most * _NUMBER))
    found: list[int] = []
    for level, kind, data in given:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            found += struct.unpack_from(f"{len(data) // _NUMBER}i", data)
    return message, found
