"""Messages between the parent, the launcher process and the supervisor of a job.

The module `socket` takes longer to import than all that they say to each other: sockets are those of its C part.
"""

from __future__ import annotations

import _socket
import marshal
import os
import struct

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from typing import Any

    Socket = socket.socket
else:

    class Socket(_socket.socket):
        """A socket that is closed at the end of a block."""

        def __enter__(self) -> Socket:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()


TAKEN = b"taken 1\n"
"""The supervisor took another job into its sandbox."""
PROXY_PORT = 3128
"""The port of the proxy in the empty network of a job, in which no other port is taken."""

AF_INET, SOCK_STREAM = _socket.AF_INET, _socket.SOCK_STREAM
_NUMBER = struct.calcsize("i")


def write_request(request: Mapping[str, Any]) -> int:
    """A descriptor with a request in it: a file without a name."""
    descriptor = os.memfd_create("metier-request", os.MFD_CLOEXEC)
    try:
        data = memoryview(marshal.dumps(dict(request)))
        while data:
            data = data[os.write(descriptor, data) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_request(descriptor: int) -> dict[str, Any]:
    """The request that a descriptor was written with."""
    request: dict[str, Any] = marshal.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    return request


def format_report(**facts: object) -> bytes:
    """Lines of a report, each a name and a value; None is left out."""
    text = "".join(f"{name} {value}\n" for name, value in facts.items() if value is not None)
    return text.encode(errors="backslashreplace")


def parse_report(report: bytes) -> dict[str, str]:
    """The names and values of a report."""
    lines = report.decode(errors="replace").splitlines()
    return dict([line.partition(" ")[::2] for line in lines])


def identity(path: str) -> tuple[int, int]:
    """The device and number of a file or folder, which no other has."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def socket_pair() -> tuple[Socket, Socket]:
    """The two ends of a connection in this machine that keeps messages apart."""
    one, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return Socket(fileno=one.detach()), Socket(fileno=other.detach())


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
