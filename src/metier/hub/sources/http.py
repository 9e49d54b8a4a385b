"""Downloads over HTTP from servers that may lie about anything.

Everything comes over https; plain http is spoken only with this machine itself, because what is read in the open can be
changed on the way. Redirects are followed by hand, sizes are counted on real bytes, and one limit of time holds for the
whole transfer, however slowly it trickles.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from metier._hosts import authority, is_address, is_loopback, is_public_address
from metier._lazy import pattern
from metier.errors import IntegrityFailed, InvalidArgument, SourceUnavailable
from metier.hub.sources.address import SourceAddress
from metier.hub.sources.connection import (
    BoundedConnection,
    failure_reason,
    parse_http_url,
    shown_url,
)
from metier.hub.sources.fields import text_at
from metier.hub.sources.http_settings import credentials_for, proxy_for
from metier.skill import shown
from metier.source.unpack import ArchiveLimits
from metier.store.canonical_json import parse_strict

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from metier.hub.sources.connection import (
        HttpUrl,
    )
    from metier.hub.sources.fetch import Transfer

JSON = r"application/([\w.-]+\+)?json|text/(json|plain)|(application|binary)/octet-stream"
ARCHIVE = r"application/[\w.+-]*(zip|tar|compressed|octet-stream)|binary/octet-stream"
MARKDOWN = r"text/((x-)?markdown|plain)|(application|binary)/octet-stream"

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_PROBLEM = 16 * 1024
_MAX_JSON = 8 * 1024 * 1024
_PIECE = 64 * 1024
_TRY_LATER = "Try again later, or ask whoever runs the server."
_HINTS = {
    401: "Give a token for that host in METIER_REGISTRY_TOKENS or in ~/.netrc.",
    403: "Ask for access, or give a token for that host in METIER_REGISTRY_TOKENS or in ~/.netrc.",
    404: "Check the address.",
    410: "It was withdrawn; choose another version.",
}


class Download(NamedTuple):
    """A file that was downloaded, or read from this machine."""

    body: bytes
    url: str = ""
    """Where it was in the end, after redirects: addresses in it are relative to this one."""
    warnings: tuple[str, ...] = ()


class HttpClient:
    """Downloads the files of one source.

    Credentials go to the origin of its address alone. Where that is public, nothing leads to a private address.
    """

    def __init__(self, address: str, transfer: Transfer, *, accept: str = "*/*") -> None:
        self.origin = parse_http_url(address).origin
        self.transfer = transfer
        self.authorization = ""
        """The value of `Authorization` for the origin, in place of the one that the environment has."""
        self._accept = accept
        self._is_public: bool | None = None

    def get(
        self, url: str, what: str, *, types: str = "", max_bytes: int = 0, digest: str = "", until: float = 0
    ) -> Download:
        """A file; raises `SourceUnavailable`, or `IntegrityFailed` where it has not the digest that was announced.

        `types` is a pattern for its media type, `until` an earlier end by `time.monotonic`.
        """
        until = until or time.monotonic() + self.transfer.seconds
        most = min(max_bytes or self.transfer.max_bytes, self.transfer.max_bytes)
        first = at = parse_http_url(url)
        for _ in range(_MAX_REDIRECTS + 1):
            is_own = at.origin == self.origin
            if not is_own or at is not first:
                place = f"{at.origin}{at.target.partition('?')[0]}"  # in the one form in which policies know its host
                self.transfer.permit(SourceAddress(kind="archive", location=place), is_way=True)
                self.transfer.permit(SourceAddress(kind="well-known", location=at.origin), is_way=True)
            try:
                with BoundedConnection(until) as wire:
                    self._connect(wire, at)
                    own = self.authorization or credentials_for(*at.place) if is_own else ""
                    headers = {"Accept": self._accept, "Authorization": own, "Connection": "close"}
                    response = wire.send("GET", at.target, at.authority, headers)
                    location = response.headers.get("Location", "") if response.status in _REDIRECTS else ""
                    if not location:
                        if not is_own:
                            del response.headers["WWW-Authenticate"]  # it does not say where credentials go
                        body = self._body(url, wire, response, what, types, most)
                        break
            except (OSError, HTTPException, ValueError) as error:
                hint = "Check the address and the network." if isinstance(error, socket.gaierror) else _TRY_LATER
                raise _unavailable(url, failure_reason(error), hint) from None
            at = parse_http_url(url := joined(url, location))
        else:
            raise _unavailable(url, f"it redirects more than {_MAX_REDIRECTS} times")
        check_digest(shown_url(url), body, digest)
        moved = f"{shown(first.origin)} sent on to {shown(at.origin)} for {what}."
        return Download(body, url, () if at.origin == first.origin else (moved,))

    def get_json(self, url: str, what: str) -> tuple[dict[str, Any], Download]:
        """A JSON object, of which nothing has two readings."""
        found = self.get(url, what, types=JSON, max_bytes=_MAX_JSON)
        data = parse_strict(found.body.decode("utf-8", "replace"))
        if data is None:
            raise _unavailable(url, f"it is no JSON object that could be {what}", "Check the address.")
        return data, found

    def get_archive(self, url: str, what: str, digest: str) -> Download:
        """An archive, of at most the size that is unpacked."""
        return self.get(url, what, types=ARCHIVE, max_bytes=ArchiveLimits().archive_bytes, digest=digest)

    def _connect(self, wire: BoundedConnection, url: HttpUrl) -> None:
        """Connect to an address that may be reached, with TLS unless it is this machine."""
        host, port = url.place
        proxy = None if is_loopback(host) else proxy_for(host)
        first, first_port, credentials = proxy or (host, port, "")
        problem = OSError("its name leads to no address")
        for family, kind, protocol, _, place in socket.getaddrinfo(first, first_port, type=socket.SOCK_STREAM):
            # The address that is judged is the one that is connected to: a name may mean another one the next time.
            # A proxy looks names up itself, so that with one, only an address that is written can be judged.
            address = host if proxy else str(place[0])
            is_public = not is_address(address) or is_public_address(address)
            try:
                if url.scheme == "http" and not is_loopback(address):
                    raise OSError("plain http is spoken only with this machine")
                if self._is_public and not is_public:
                    raise OSError("a public source may not lead to a private address")
                wire.connect(socket.socket(family, kind, protocol), place)
            except OSError as error:
                problem = error
                continue
            break
        else:
            raise problem
        if self._is_public is None:
            self._is_public = is_public
        if proxy:
            asked = authority(host, port)
            status = wire.send("CONNECT", asked, asked, {"Proxy-Authorization": credentials}).status
            if status != 200:
                raise OSError(f"the proxy {authority(first, first_port)} answered {status}")
        if url.scheme == "https":
            wire.encrypt(host)

    def _body(
        self, url: str, wire: BoundedConnection, response: HTTPResponse, what: str, types: str, most: int
    ) -> bytes:
        """The file that an answer has; raises an error for one of another type or length than it should have."""
        if response.status != 200:
            raise _refusal(url, wire, response)
        found_type = response.headers.get_content_type() if "Content-Type" in response.headers else ""
        if types and found_type and not pattern(types).fullmatch(found_type):
            raise _unavailable(
                url, f"it is {shown(found_type, 60)}, which cannot be {what}", "Check the address, and log in."
            )
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        # Some servers call the compression of an archive its encoding; the bytes are taken as they are.
        if encoding != "identity" and types != ARCHIVE:
            raise _unavailable(url, f"it is encoded by {shown(encoding, 40)}, which was not asked for")
        declared, lengths = response.length, set(response.headers.get_all("Content-Length", []))
        if len(lengths) > 1 or (lengths and declared is None):
            raise _unavailable(url, "it declares its length in two ways, or in none that is a number")
        if declared is not None:
            response.length = declared + 1  # so that a byte too many is seen
        wire.allow(most)
        body = bytearray()
        while True:
            if max(len(body), declared or 0) > most:
                raise _unavailable(url, f"it has more than {most:,} bytes", "Ask its author for a smaller one.")
            if len(body) == declared:
                wire.expect_end()
            piece = response.read1(_PIECE)
            if not piece:
                break
            body += piece
            self.transfer.progress(what, len(body), declared)
        if declared not in (None, len(body)):
            raise _unavailable(url, "it has another length than it declares")
        return bytes(body)


def joined(base: str, reference: str) -> str:
    """An address that a server names, relative to where it was named; never one of a less safe kind.

    >>> joined("https://example.com/skills/index.json", "pdf.zip")
    'https://example.com/skills/pdf.zip'
    """
    with contextlib.suppress(ValueError, InvalidArgument):
        url = urljoin(base, reference)
        if parse_http_url(url).scheme in ("https", urlsplit(base).scheme):
            return url
    raise SourceUnavailable(
        f"{shown_url(base)} leads to {shown(reference, 200)!r}, which is not followed.",
        hint="Ask whoever runs the server, or use another source.",
    )


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


def _refusal(url: str, wire: BoundedConnection, response: HTTPResponse) -> SourceUnavailable:
    """The error for an answer that is no file, with the problem that the server describes (RFC 7807)."""
    problem = None
    if response.headers.get_content_type() in ("application/problem+json", "application/json"):
        wire.allow(_MAX_PROBLEM)
        try:
            problem = parse_strict(response.read(_MAX_PROBLEM).decode("utf-8", "replace"))
        except (OSError, HTTPException, ValueError):
            problem = None
    details = ": ".join(filter(None, (text_at(problem, key) for key in ("title", "detail"))))
    why = f"it answered {response.status}{f' ({details})' if details else ''}"
    challenge = response.headers.get("WWW-Authenticate", "")
    return _unavailable(url, why, _HINTS.get(response.status, _TRY_LATER), status=response.status, challenge=challenge)


def _unavailable(url: str, what: str, hint: str = _TRY_LATER, **context: object) -> SourceUnavailable:
    return SourceUnavailable(f"{shown_url(url)} was not fetched: {what}.", hint=hint, **context)
