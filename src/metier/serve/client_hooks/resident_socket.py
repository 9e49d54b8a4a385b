"""The socket of the resident process: where it lies, whom it is trusted of, and the messages on it.

`hook.pl` does the same on the side of the client; every rule here has its twin there.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import sys
import time
from typing import TYPE_CHECKING

from metier._lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.serve.client_hooks.event import Output

MAX_INPUT = 16 * 2**20
"""The most bytes that a client may send; of more, one byte too many is passed on, which the gate refuses."""
MAX_IDENTITY = 2**18
MAX_PATH = 103
"""The longest path of a socket on macOS, and so everywhere."""
VARIABLES = (
    *("HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TEMP", "TMP", "TZ", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGDATABASE"),
    *("PGSERVICE", "PGSERVICEFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGOPTIONS"),
    *("METIER_", "LD_", "DYLD_", "GIT_", "OTEL_", "DBUS_"),
)
"""The variables that may change a decision, or how it is told; a name with `_` at its end is of all that begin so.

A resident process has no others, and answers nobody whose variables differ.
"""
OWN_VARIABLES = "METIER_" + "HOOK_"
"""The beginning of variables that concern the hook itself, and no decision."""
_HEADER = re.compile(rb"([a-z][a-z0-9-]{0,30}) ([0-9]{1,8}) ([0-9]{1,8})\n")
_MAX_HEADER = 64


class NoAnswer(Exception):
    """A message that is not whole, or not of this protocol: whoever gets it acts as if there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of one hook, the client that it is from, and the identity of the process that it is for."""

    client: str
    identity: bytes
    data: bytes


def identity_of(python: str, environ: Mapping[bytes, bytes]) -> bytes:
    """The Python and the variables that a resident process decides by; processes that differ in it share none.

    >>> identity_of("/usr/bin/python3", {b"HOME": b"/home/ada", b"TERM": b"xterm", b"METIER_HOOK_IDLE": b"1"})
    b'/usr/bin/python3\\x00HOME=/home/ada'
    """
    named = decisive_variables(environ)
    return b"\0".join([os.fsencode(python), *(name + b"=" + named[name] for name in sorted(named))])


def decisive_variables(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Those of `VARIABLES`."""
    wanted, own = {name.encode() for name in VARIABLES}, OWN_VARIABLES.encode()
    return {
        name: value
        for name, value in environ.items()
        if (name in wanted or name[: name.find(b"_") + 1] in wanted) and not name.startswith(own)
    }


def socket_name(identity: bytes) -> str:
    """A name for an identity, by a sum that Perl has without a module; the process compares the identity itself.

    >>> socket_name(b"/usr/bin/python3")
    '2294593269-16.sock'
    """
    padded = identity + bytes(-len(identity) % 4)
    total = sum(struct.unpack(f"<{len(padded) // 4}I", padded)) & 0xFFFFFFFF
    return f"{total}-{len(identity)}.sock"


def socket_path(fallback: str, python: str, environ: Mapping[bytes, bytes]) -> str:
    """The path of the socket for these variables; "" where there can be none."""
    runtime = os.fsdecode(environ.get(b"XDG_RUNTIME_DIR", b""))
    folder = f"{runtime}/metier" if runtime.startswith("/") and is_own(runtime, stat.S_IFDIR) else fallback
    path = f"{folder}/{socket_name(identity_of(python, environ))}"
    return path if folder and len(os.fsencode(path)) <= MAX_PATH else ""


def is_own(path: str, kind: int) -> bool:
    """Whether this is no link, of the kind (`stat.S_IFDIR`, `stat.S_IFSOCK`), of this user, and open to nobody else."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def peer_option() -> tuple[int, int]:
    """The level and name of the socket option that tells who is at the other end; its second number is the user."""
    if sys.platform != "linux":
        return 0, 1  # LOCAL_PEERCRED of macOS and the BSDs
    return socket.SOL_SOCKET, socket.SO_PEERCRED


def is_peer_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is of this user."""
    try:
        found = connection.getsockopt(*peer_option(), 256)
    except OSError:
        return False
    return len(found) >= 8 and struct.unpack_from("=II", found)[1] == os.geteuid()


def read_request(connection: socket.socket, seconds: float) -> Request:
    """The request on a connection; raises `NoAnswer` if it is not whole in time, or none."""
    until = time.monotonic() + seconds
    received = bytearray()
    while (end := received.find(b"\n", 0, _MAX_HEADER)) < 0:
        if len(received) >= _MAX_HEADER:
            raise NoAnswer
        _receive(connection, received, until)
    header = _HEADER.fullmatch(received[: end + 1])
    if header is None:
        raise NoAnswer
    known, length = int(header[2]), int(header[3])
    if known > MAX_IDENTITY or length > MAX_INPUT + 1:
        raise NoAnswer
    whole = end + 1 + known + length
    while len(received) < whole:
        _receive(connection, received, until)
    if len(received) > whole:
        raise NoAnswer
    begin = end + 1 + known
    return Request(
        client=header[1].decode(), identity=bytes(received[end + 1 : begin]), data=bytes(received[begin:whole])
    )


def format_answer(output: Output) -> bytes:
    """An answer as the client reads it: only one that is whole counts.

    >>> from metier.serve.client_hooks.event import Output
    >>> format_answer(Output(exit_code=2, stdout="", stderr="No."))
    b'metier 2 0 3\\nNo.'
    """
    stdout, stderr = output.stdout.encode(errors="replace"), output.stderr.encode(errors="replace")
    return b"metier %d %d %d\n" % (output.exit_code, len(stdout), len(stderr)) + stdout + stderr


def _receive(connection: socket.socket, received: bytearray, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise NoAnswer
    connection.settimeout(left)
    try:
        part = connection.recv(2**18)
    except OSError:
        raise NoAnswer from None
    if not part:
        raise NoAnswer
    received += part
