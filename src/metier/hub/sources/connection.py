"""Connections to servers that may lie about anything, bounded in time and bytes, and the addresses that lead there."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from metier._hosts import is_local, split_authority
from metier._version import __version__
from metier.errors import InvalidArgument
from metier.hub.sources.address import split_url
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import WriteableBuffer

_MAX_HEADERS = 256 * 1024
_PIECE = 16 * 1024
_PORTS = {"https": 443, "http": 80}


class HttpUrl(NamedTuple):
    """The parts of an address that is spoken with."""

    scheme: str
    authority: str
    """The host, with a port where that is no usual one."""
    target: str

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def place(self) -> tuple[str, int]:
        """The host and the port."""
        host, port = split_authority(self.authority)
        return host, port or _PORTS[self.scheme]


class BoundedConnection(io.RawIOBase):
    """A connection that is read until a moment, and for a number of bytes, and no further."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until
        self._left = _MAX_HEADERS
        self._is_complete = False
        self._sock = socket.socket()

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def _limit_time(self, most: float = float("inf")) -> None:
        left = min(self._until - time.monotonic(), most)
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def connect(self, sock: socket.socket, place: Any) -> None:
        """Reach an address, which may take half a minute at most."""
        self._sock.close()
        self._sock = sock
        self._limit_time(30)
        sock.connect(place)

    def encrypt(self, host: str) -> None:
        """Speak TLS from now on, with a host that has a certificate."""
        import ssl

        self._limit_time()
        self._sock = ssl.create_default_context().wrap_socket(self._sock, server_hostname=host)

    def send(self, method: str, target: str, host: str, headers: Mapping[str, str], body: bytes = b"") -> HTTPResponse:
        """The beginning of the answer to a request."""
        headers = {"Host": host, "User-Agent": f"metier/{__version__}", "Accept-Encoding": "identity", **headers}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value)]
        message = "\r\n".join([*lines, "", ""]).encode("ascii") + body
        for start in range(0, len(message), _PIECE):
            self._limit_time()  # each piece has what is left of the time, however slowly the one before was read
            self._sock.sendall(message[start : start + _PIECE])
        response = HTTPResponse(cast("socket.socket", self))
        response.begin()
        return response

    def makefile(self, _mode: str) -> io.BufferedReader:
        """The reader of a response, as `http.client` asks for it."""
        return io.BufferedReader(self)

    def close(self) -> None:
        """Stay open behind an answer that was read, because another may follow; the end of the context closes it."""

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Bytes of the other side."""
        try:
            self._limit_time()
            count = self._sock.recv_into(buffer)
        except OSError:
            if self._is_complete:
                return 0
            raise
        self._left -= count
        if self._left < 0:
            raise OSError("it sends more than it may")
        return count

    def allow(self, most: int) -> None:
        """Let a body follow that has at most that many bytes; chunks have lengths of their own between them."""
        self._left = 2 * most + _MAX_HEADERS

    def expect_end(self) -> None:
        """Wait for a second only: all that was declared is here, and the server was asked to close the connection."""
        self._is_complete = True
        self._until = min(self._until, time.monotonic() + 1)


def shown_url(url: str) -> str:
    """An address as it is printed: without its query, which may be a key."""
    return shown(url.partition("#")[0].partition("?")[0], 300)


def parse_http_url(url: str) -> HttpUrl:
    """The parts of an address; raises an error for one that is not spoken with."""
    scheme, host, rest = split_url(url)
    if scheme not in _PORTS or not url.isprintable():
        raise InvalidArgument(f"{shown_url(url)} is no address.", hint="Write one such as https://example.com/pdf.zip.")
    if scheme == "http" and not is_local(host):
        raise InvalidArgument(
            f"{shown_url(url)} would be read in the open, where it can be changed on the way.", hint="Use https."
        )
    path = rest.partition("#")[0]
    return HttpUrl(scheme, host, quote(path if path.startswith("/") else f"/{path}", safe="/%:@!$&'()*+,;=~?"))


def failure_reason(error: Exception) -> str:
    """The reason why a server could not be asked, in words."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, HTTPException) or not isinstance(error, OSError):
        return f"its answer is no proper HTTP ({type(error).__name__})"
    reason = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return shown(str(reason), 200).rstrip(".") or type(error).__name__
