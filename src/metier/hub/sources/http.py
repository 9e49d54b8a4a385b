"""Downloads over HTTP from servers that may lie about anything.

Everything comes over https; plain http is spoken only with this machine itself, because what is read in the open can be
changed on the way. Redirects are followed by hand, sizes are counted on real bytes, and one limit of time holds for the
whole transfer, however slowly it trickles.
"""

from __future__ import annotations

import hashlib
import io
import socket
import time
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urljoin, urlsplit

from metier._hosts import authority, is_address, is_loopback, is_public_address, split_authority
from metier._lazy import dataclass, pattern
from metier._version import __version__
from metier.errors import IntegrityFailed, InvalidArgument, SourceUnavailable
from metier.hub.sources.address import SourceAddress
from metier.hub.sources.http_settings import credentials_for, proxy_for
from metier.skill import shown
from metier.store.canonical_json import parse_strict

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from metier.hub.sources.fetch import Transfer

JSON = r"application/([\w.-]+\+)?json|text/(json|plain)|(application|binary)/octet-stream"
ARCHIVE = r"application/[\w.+-]*(zip|tar|compressed|octet-stream)|binary/octet-stream"
MARKDOWN = r"text/((x-)?markdown|plain)|(application|binary)/octet-stream"

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_HEADERS = 256 * 1024
_MAX_PROBLEM = 16 * 1024
_PIECE = 64 * 1024
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_SAFE = "/%:@!$&'()*+,;=~?"
_TRY_LATER = "Try again later, or ask whoever runs the server."


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The file that an address had."""

    url: str
    """Where it was in the end, after redirects: addresses in it are relative to this one."""
    body: bytes


class _Url(NamedTuple):
    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{authority(self.host, self.port)}"

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)


class HttpClient:
    """Downloads the files of one source.

    Credentials go to the origin of its address alone. Where that is public, nothing leads to a private address.
    """

    def __init__(self, address: str, transfer: Transfer, *, accept: str = "*/*") -> None:
        self.origin = _parsed(address).origin
        self.transfer = transfer
        self.authorization = ""
        """The value of `Authorization` for the origin, in place of the one that the environment has."""
        self._accept = accept
        self.warnings: dict[str, None] = {}
        """Sentences for the person who asked, each once."""
        self._is_public: bool | None = None

    def get(
        self, url: str, what: str, *, types: str = "", max_bytes: int = 0, digest: str = "", until: float = 0
    ) -> Download:
        """A file; raises `SourceUnavailable`, or `IntegrityFailed` where it has not the digest that was announced.

        `types` is a pattern for its media type, `until` an earlier end by `time.monotonic`.
        """
        until = until or time.monotonic() + self.transfer.seconds
        most = min(max_bytes or self.transfer.max_bytes, self.transfer.max_bytes)
        first = at = _parsed(url)
        for _ in range(_MAX_REDIRECTS + 1):
            if at.origin != self.origin:
                self.transfer.permit(SourceAddress(kind="archive", location=url.partition("?")[0]), is_way=True)
                self.transfer.permit(SourceAddress(kind="well-known", location=at.origin), is_way=True)
            try:
                with _Wire(self._connected(at, until), until) as wire:
                    own = self.authorization or credentials_for(at.host, at.port) if at.origin == self.origin else ""
                    response = wire.request(at, own, self._accept)
                    location = response.headers.get("Location", "") if response.status in _REDIRECTS else ""
                    if not location:
                        if at.origin != self.origin:
                            del response.headers["WWW-Authenticate"]  # it does not say where credentials go
                        body = _body(url, response, wire, _Expected(what, types, most), self.transfer)
                        break
            except (OSError, HTTPException, ValueError) as error:
                hint = "Check the address and the network." if isinstance(error, socket.gaierror) else _TRY_LATER
                raise _unavailable(url, _reason(error), hint) from None
            at = _parsed(url := joined(url, location))
        else:
            raise _unavailable(url, f"it redirects more than {_MAX_REDIRECTS} times", _TRY_LATER)
        if at.origin != first.origin:
            self.warnings[f"{shown(first.origin)} sent on to {shown(at.origin)} for {what}."] = None
        check_digest(shown_url(url), body, digest)
        return Download(url=url, body=body)

    def get_json(self, url: str, what: str, *, max_bytes: int) -> tuple[dict[str, Any], Download]:
        """A JSON object, of which nothing has two readings."""
        found = self.get(url, what, types=JSON, max_bytes=max_bytes)
        data = parse_strict(found.body.decode("utf-8", "replace"))
        if data is None:
            raise _unavailable(url, f"it is no JSON object that could be {what}", "Check the address.")
        return data, found

    def _connected(self, url: _Url, until: float) -> socket.socket:
        """A connection to an address that may be reached, with TLS unless it is this machine."""
        proxy = None if url.is_local else proxy_for(url.host)
        host, port = (proxy.host, proxy.port) if proxy else (url.host, url.port)
        if proxy:
            # Names are looked up by the proxy, so that only literal addresses can be judged here.
            public = not is_address(url.host) or is_public_address(url.host)
            if self._is_public and not public:
                raise OSError("a public source may not lead to a private address")
            self._is_public = public if self._is_public is None else self._is_public
        sock = self._connect(host, port, until, only_local=url.scheme == "http", judged=not proxy)
        try:
            if proxy:
                tunnel = _Wire(sock, until)
                status = tunnel.send(f"CONNECT {authority(url.host, url.port)} HTTP/1.1", url, proxy.header).status
                if status != 200:
                    raise OSError(f"the proxy {authority(host, port)} answered {status}")
            if url.scheme == "https":
                import ssl

                sock.settimeout(_left(until))
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=url.host)
        except BaseException:
            sock.close()
            raise
        return sock

    def _connect(self, host: str, port: int, until: float, *, only_local: bool, judged: bool) -> socket.socket:
        # The address that was judged is the one that is connected to: a name may mean another one the next time.
        problem = OSError("its name leads to no address")
        for family, kind, protocol, _, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = str(found[0])
            public = is_public_address(address)
            if only_local and not is_loopback(address):
                problem = OSError("plain http is spoken only with this machine")
                continue
            if judged and self._is_public and not public:
                problem = OSError("a public source may not lead to a private address")
                continue
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(min(_left(until), 30))
                sock.connect(found)
            except OSError as error:
                sock.close()
                problem = error
                continue
            if judged and self._is_public is None:
                self._is_public = public
            return sock
        raise problem


def shown_url(url: str) -> str:
    """An address as it is printed: without its query, which may be a key."""
    return shown(url.partition("#")[0].partition("?")[0], 300)


def joined(base: str, reference: str) -> str:
    """An address that a server names, relative to where it was named; never one of a less safe kind.

    >>> joined("https://example.com/skills/index.json", "pdf.zip")
    'https://example.com/skills/pdf.zip'
    """
    try:
        url = urljoin(base, reference)
        scheme = _parsed(url).scheme
    except (ValueError, InvalidArgument):
        url = scheme = ""
    if scheme not in ("https", urlsplit(base).scheme):
        raise SourceUnavailable(
            f"{shown_url(base)} leads to {shown(reference, 200)!r}, which is not followed.",
            hint="Ask whoever runs the server, or use another source.",
        )
    return url


def check_digest(name: str, data: bytes, digest: str) -> None:
    """Refuse bytes that have another digest than the one that was announced, where one was."""
    actual = sha256_of(data)
    if digest and actual != digest:
        raise IntegrityFailed(
            f"{name} is not what was announced: its SHA-256 is another.",
            hint="Do not install it; ask whoever published it.",
            expected=digest,
            actual=actual,
        )


def sha256_of(data: bytes) -> str:
    """The digest of bytes, as formats write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_digest(text: object) -> bool:
    """Whether a text is a digest as formats write it: `sha256:` and 64 hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class _Wire(io.RawIOBase):
    """A connection that is read until a moment, and for a number of bytes, and no further."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        super().__init__()
        self._sock = sock
        self._until = until
        self._left = _MAX_HEADERS
        self._reader = _KeptReader(self)

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def makefile(self, _mode: str) -> _KeptReader:
        """The reader of a response, as `http.client` asks for it."""
        return self._reader

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Bytes of the other side."""
        self._sock.settimeout(_left(self._until))
        count = self._sock.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise OSError("it sends more than it may")
        return count

    def allow(self, most: int) -> None:
        """Let a body follow that has at most that many bytes; chunks have lengths of their own between them."""
        self._left = 2 * most + _MAX_HEADERS

    def has_more(self) -> bool:
        """Whether more came than was declared; it was asked to close the connection after its answer."""
        self._until = min(self._until, time.monotonic() + 1)
        try:
            return bool(self._reader.peek(1))
        except OSError:
            return False

    def request(self, url: _Url, credentials: str, accept: str) -> HTTPResponse:
        """The beginning of the answer to a request."""
        header = f"Accept: {accept}\r\n" + (f"Authorization: {credentials}\r\n" if credentials else "")
        return self.send(f"GET {url.target} HTTP/1.1", url, f"{header}Connection: close\r\n")

    def send(self, line: str, url: _Url, headers: str) -> HTTPResponse:
        """The beginning of the answer to a line and headers."""
        default = {"https": 443, "http": 80}[url.scheme]
        host = authority(url.host, None if url.port == default else url.port)
        agent = f"User-Agent: metier/{__version__}\r\nAccept-Encoding: identity\r\n"
        self._sock.settimeout(_left(self._until))
        self._sock.sendall(f"{line}\r\nHost: {host}\r\n{agent}{headers}\r\n".encode("ascii"))
        response = HTTPResponse(cast("socket.socket", self), method="GET")
        response.begin()
        return response


class _KeptReader(io.BufferedReader):
    """Stays open when a response is done with it, so that one can see whether more follows."""

    def close(self) -> None:
        """Leave it open; the connection is closed by itself."""


class _Expected(NamedTuple):
    what: str
    types: str
    most: int


def _body(url: str, response: HTTPResponse, wire: _Wire, expected: _Expected, transfer: Transfer) -> bytes:
    if response.status != 200:
        raise _refusal(url, response, wire)
    found_type = response.headers.get_content_type() if "Content-Type" in response.headers else ""
    if expected.types and found_type and not pattern(expected.types).fullmatch(found_type):
        raise _unavailable(
            url, f"it is {shown(found_type, 60)}, which cannot be {expected.what}", "Check the address, and log in."
        )
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers call the compression of an archive its encoding; the bytes are taken as they are.
    if encoding != "identity" and expected.types != ARCHIVE:
        raise _unavailable(url, f"it is encoded by {shown(encoding, 40)}, which was not asked for", _TRY_LATER)
    lengths = set(response.headers.get_all("Content-Length", []))
    declared = int(lengths.pop()) if len(lengths) == 1 and response.length is not None else None
    if lengths or (declared is None and "Content-Length" in response.headers):
        raise _unavailable(url, "it declares its length in two ways, or in none that is a number", _TRY_LATER)
    too_large = f"it has more than {expected.most:,} bytes"
    if declared is not None and declared > expected.most:
        raise _unavailable(url, too_large, "Ask its author for a smaller one.")
    wire.allow(expected.most)
    body = bytearray()
    while piece := response.read(_PIECE):
        body += piece
        if len(body) > expected.most:
            raise _unavailable(url, too_large, "Ask its author for a smaller one.")
        transfer.progress(expected.what, len(body), declared)
    if declared is not None and (len(body) != declared or wire.has_more()):
        raise _unavailable(url, "it has another length than it declares", _TRY_LATER)
    return bytes(body)


def _refusal(url: str, response: HTTPResponse, wire: _Wire) -> SourceUnavailable:
    """The error for an answer that is no file, with the problem that the server describes (RFC 7807)."""
    status = response.status
    told = ""
    if response.headers.get_content_type() in ("application/problem+json", "application/json"):
        wire.allow(_MAX_PROBLEM)
        try:
            problem = parse_strict(response.read(_MAX_PROBLEM).decode("utf-8", "replace")) or {}
        except (OSError, HTTPException, ValueError):
            problem = {}
        told = ": ".join(shown(text, 200) for key in ("title", "detail") if isinstance(text := problem.get(key), str))
    hint = {
        401: "Give a token for that host in METIER_REGISTRY_TOKENS or in ~/.netrc.",
        403: "Ask for access, or give a token for that host in METIER_REGISTRY_TOKENS or in ~/.netrc.",
        404: "Check the address.",
        410: "It was withdrawn; choose another version.",
    }.get(status, _TRY_LATER)
    said = f"it answered {status}{f' ({told})' if told else ''}"
    return _unavailable(url, said, hint, status=status, challenge=response.headers.get("WWW-Authenticate", ""))


def _parsed(url: str) -> _Url:
    """The parts of an address; raises an error for one that is not spoken with."""
    try:
        parts = urlsplit(url)
        host, port = split_authority(parts.netloc)
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise InvalidArgument(
            "The address has a user or a password in it.", hint="Put them into ~/.netrc, and leave them out here."
        )
    if parts.scheme not in ("https", "http") or not host or not url.isprintable():
        raise InvalidArgument(f"{shown_url(url)} is no address.", hint="Write one such as https://example.com/pdf.zip.")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    found = _Url(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)
    if found.scheme == "http" and not found.is_local:
        raise InvalidArgument(
            f"{shown_url(url)} would be read in the open, where it can be changed on the way.", hint="Use https."
        )
    return found


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, HTTPException) or not isinstance(error, OSError):
        return f"its answer is no proper HTTP ({type(error).__name__})"
    told = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return shown(str(told), 200).rstrip(".") or type(error).__name__


def _unavailable(url: str, what: str, hint: str, **context: object) -> SourceUnavailable:
    return SourceUnavailable(f"{shown_url(url)} was not fetched: {what}.", hint=hint, **context)
