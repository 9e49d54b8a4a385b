"""A request to a proxy, read so strictly that no server behind it can read it differently.

Whatever has two readings is refused: lines that end in something else than CR LF, folded headers, two lengths, a `Host`
that is not the one in the address, a user name before it. What is passed on is written anew from what was understood.
"""

from __future__ import annotations

import re

from metier._hosts import authority, split_authority
from metier._lazy import dataclass, field

MAX_HEADERS = 128
END_OF_HEAD = b"\r\n\r\n"

_ENDS_BADLY = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\0")
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/(1\.[01])").fullmatch
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*").fullmatch
_URL = re.compile(r"http://([^/?#\\@%]+)(/[^#\\]*|\?[^#\\]*)?", re.IGNORECASE).fullmatch
_LENGTH = re.compile(r"[0-9]{1,15}", re.ASCII).fullmatch
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ONE_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "upgrade", "transfer-encoding"})
"""Headers for whoever is at the other end of this connection alone. The last is written anew."""
_OF_THE_MESSAGE = frozenset({"host", "content-length", "transfer-encoding"})
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n").match
_BEGINS_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}\r?").fullmatch


class BadRequest(Exception):
    """A request that is refused before it is known whom it is for."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """A request of a client of the proxy."""

    host: str
    """In canonical form."""
    port: int
    is_tunnel: bool
    head: bytes = b""
    """The first bytes for the server; nothing for a tunnel."""
    length: int | None = 0
    """Bytes of the body; None is a body in chunks."""


def ends_badly(data: bytes | bytearray, start: int = 0) -> bool:
    """Whether there is something in the beginning of a request that no request has, so that its end is not awaited."""
    return _ENDS_BADLY.search(data, start) is not None


def parse_request(head: bytes) -> ProxyRequest:
    """Read the head of a request, up to the empty line and without it; raises `BadRequest`.

    >>> parse_request(b"GET http://Example.com/a?b HTTP/1.1\\r\\nHost: example.com\\r\\nProxy-X: 1").head
    b'GET /a?b HTTP/1.1\\r\\nHost: example.com\\r\\nConnection: close\\r\\n\\r\\n'
    """
    if ends_badly(head) or head.endswith(b"\r"):
        raise BadRequest("Lines end in CR LF, and there is no NUL in them.")
    first, *lines = head.split(b"\r\n")
    matched = _REQUEST_LINE(first)
    if matched is None:
        raise BadRequest("The first line is no request of HTTP/1.1 to a proxy.")
    method, target, version = (part.decode("ascii") for part in matched.groups())
    headers = _Headers.read(lines)
    if method == "CONNECT":
        return _tunnel(target, headers)
    if method not in _METHODS:
        raise BadRequest("That method is not passed on.")
    return _plain_request(method, target, version, headers)


def _tunnel(target: str, headers: _Headers) -> ProxyRequest:
    host, port = _split(target)
    if port is None:
        raise BadRequest("CONNECT needs a host and a port.")
    if "content-length" in headers.values or "transfer-encoding" in headers.values:
        raise BadRequest("CONNECT has no body.")
    if (named := headers.one("host")) is not None:
        _check_same(named, host, port, default_port=port)
    return ProxyRequest(host=host, port=port, is_tunnel=True)


def _plain_request(method: str, target: str, version: str, headers: _Headers) -> ProxyRequest:
    url = _URL(target)
    if url is None:
        raise BadRequest("This is a proxy: it takes CONNECT HOST:PORT, and addresses that begin with http://HOST.")
    host, given = _split(url[1])
    port = given or 80
    named = headers.one("host")
    if named is None and version == "1.1":
        raise BadRequest("There is no Host header.")
    if named is not None:
        _check_same(named, host, port, default_port=80)
    length = headers.length(version)
    path = url[2] or ("*" if method == "OPTIONS" else "")
    lines = [
        f"{method} {path if path.startswith(('/', '*')) else f'/{path}'} HTTP/{version}".encode("ascii"),
        f"Host: {authority(host, None if port == 80 else port)}".encode("ascii"),
        *headers.to_pass_on(),
        *([b"Transfer-Encoding: chunked"] if length is None else []),
        b"Connection: close",
    ]
    head = b"\r\n".join(lines) + END_OF_HEAD
    return ProxyRequest(host=host, port=port, is_tunnel=False, head=head, length=length)


def _check_same(named: str, host: str, port: int, *, default_port: int) -> None:
    other_host, other_port = _split(named)
    if (other_host, other_port or default_port) != (host, port):
        raise BadRequest("The Host header names another host than the request.")


def _split(text: str) -> tuple[str, int | None]:
    try:
        return split_authority(text)
    except ValueError:
        raise BadRequest("It names no host, or no port.") from None


@dataclass(frozen=True, slots=True)
class _Headers:
    """The headers of a request, in their order, and by their name in lower case."""

    lines: list[tuple[str, bytes]] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: list[bytes]) -> _Headers:
        if len(lines) > MAX_HEADERS:
            raise BadRequest("There are too many headers.", 431)
        headers = cls()
        for line in lines:
            written, colon, value = line.partition(b":")
            if not colon or not _NAME(written) or not _VALUE(value):
                # Also one that begins with a space, which once continued the line before.
                raise BadRequest("There is a line that is no header.")
            name, value = written.decode("ascii").lower(), value.strip(b" \t")
            headers.lines.append((name, written + b": " + value))
            headers.values.setdefault(name, []).append(value.decode("latin-1"))
        return headers

    def one(self, name: str) -> str | None:
        """The value of a header that must not be there twice."""
        values = self.values.get(name, [])
        if len(values) > 1:
            raise BadRequest(f"There is more than one {name} header.")
        return values[0] if values else None

    def length(self, version: str) -> int | None:
        """The length of the body, None for one in chunks."""
        length, coding = self.one("content-length"), self.one("transfer-encoding")
        if coding is not None:
            if length is not None or coding.lower() != "chunked" or version != "1.1":
                raise BadRequest("Where the body ends could be read in two ways.")
            return None
        if length is not None and not _LENGTH(length):
            raise BadRequest("The length of the body is no number.")
        return int(length or 0)

    def to_pass_on(self) -> list[bytes]:
        """All lines but those for this proxy."""
        named = {word.strip().lower() for value in self.values.get("connection", []) for word in value.split(",")}
        if named & _OF_THE_MESSAGE:
            raise BadRequest("The Connection header names what the message needs.")
        dropped = _ONE_HOP | named | {"host"}
        return [line for name, line in self.lines if name not in dropped and not name.startswith("proxy-")]


class Body:
    """Cuts the body of a request out of what a client sends, so that nothing after it goes on to the server.

    >>> body = Body(3)
    >>> body.feed(b"abcGET http://elsewhere/"), body.is_over
    (b'abc', True)
    """

    def __init__(self, length: int | None) -> None:
        self._left = length or 0
        self._is_chunked = length is None
        self._held = bytearray()
        self._awaits_end = False
        self.is_over = length == 0

    def feed(self, data: bytes) -> bytes:
        """The part of it that belongs to the body and is understood; raises `BadRequest`."""
        if self._is_chunked:
            return self._chunks(data)
        part = data[: self._left]
        self._left -= len(part)
        self.is_over = not self._left
        return part

    def _chunks(self, data: bytes) -> bytes:
        held = self._held
        held += data
        out = bytearray()
        while held and not self.is_over:
            if self._left:
                part = held[: self._left]
                self._left -= len(part)
                out += part
                del held[: len(part)]
            elif self._awaits_end:
                if not b"\r\n".startswith(held[:2]):
                    raise BadRequest("A chunk of the body is longer than it says.")
                if len(held) < 2:
                    break
                out += b"\r\n"
                del held[:2]
                self._awaits_end = False
            elif not self._next_chunk(out):
                break
        return bytes(out)

    def _next_chunk(self, out: bytearray) -> bool:
        """Read the line with the size of a chunk; False if it has not come as a whole."""
        held = self._held
        size = _CHUNK_SIZE(held)
        if size is None:
            if not _BEGINS_SIZE(held):
                raise BadRequest("The body is not in chunks as it says.")
            return False
        end = size.end()
        self._left = int(size[1], 16)
        self._awaits_end = bool(self._left)
        if not self._left:
            # The last one is taken together with the empty line after it: nothing is passed on between them.
            if not b"\r\n".startswith(held[end : end + 2]):
                raise BadRequest("There is something after the last chunk of the body.")
            end += 2
            if len(held) < end:
                return False
            self.is_over = True
        out += held[:end]
        del held[:end]
        return True
