"""The connection of a node to its server: requests over TLS, bounded in size and time, and never led elsewhere."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from metier._hosts import is_loopback
from metier._json_object import parse_object, text_at, value_at
from metier._version import __version__
from metier.errors import InvalidArgument, ServerRefused, ServerUnreachable
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

SECONDS = 10.0
MAX_BYTES = 64 * 1024 * 1024
_MAX_EVENT = 1024 * 1024
_MAX_PROBLEM = 64 * 1024
_PIECE = 64 * 1024
_SILENCE = 45.0
"""Seconds after which a stream that says nothing is taken for broken; the server speaks every 15."""


class ServerAnswer(NamedTuple):
    """The answer of a server to a request."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object that it is; raises `ServerUnreachable` where a server of ours would not answer like that."""
        try:
            return parse_object(self.body, most=MAX_BYTES)
        except ValueError as error:
            raise ServerUnreachable(f"The answer cannot be used: {error}.", hint=_CHECK) from None


SYNC = for_people("`metier node sync` gets it anew.")
"""The hint for what a server sent and can send again."""
_CHECK = "Check the address, and whether something between here and the server answers in its place."


class ServerConnection:
    """Requests to one server with one token."""

    def __init__(self, url: str, token: str = "") -> None:
        """Reach the server at an address; raises `InvalidArgument` where tokens would be sent in the open."""
        self.url = checked_url(url)
        self._parts = urlsplit(self.url)
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | None = None,
        seconds: float = SECONDS,
        most: int = MAX_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> ServerAnswer:
        """The answer to a request with a JSON `body` or with `data`; 304 is one, every other failure is raised.

        Raises `ServerUnreachable`, and `ServerRefused` with the code of the server's problem.
        """
        until = time.monotonic() + seconds
        with self._sending(method, path, body, data, seconds, headers) as (sock, response):
            content = _read(sock, response, until, most)
            answer = ServerAnswer(
                response.status, {name.lower(): text for name, text in response.getheaders()}, content
            )
        if response.status == http.HTTPStatus.NOT_MODIFIED or response.status < http.HTTPStatus.MULTIPLE_CHOICES:
            return answer
        raise _refusal(answer)

    def events(self, path: str) -> Iterator[tuple[str, str]]:
        """The events of a stream, each with its name and its data, until it ends."""
        with self._sending("GET", path, None, None, SECONDS, {"Accept": "text/event-stream"}) as (sock, response):
            if response.status != http.HTTPStatus.OK:
                content = _read(sock, response, time.monotonic() + SECONDS, _MAX_PROBLEM)
                raise _refusal(ServerAnswer(response.status, {}, content))
            sock.settimeout(_SILENCE)
            name, data = "message", ""
            while line := response.readline(_MAX_EVENT):
                field, _, text = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
                if field == "event":
                    name = text.removeprefix(" ")
                elif field == "data":
                    data += text.removeprefix(" ")
                elif not field and not text:
                    if data:
                        yield name, data
                    name, data = "message", ""

    @contextlib.contextmanager
    def _sending(
        self,
        method: str,
        path: str,
        body: object,
        data: bytes | None,
        seconds: float,
        headers: Mapping[str, str] | None,
    ) -> Iterator[tuple[socket.socket, http.client.HTTPResponse]]:
        sent = {"User-Agent": f"metier/{__version__}", "Accept": "application/json", "Connection": "close"}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif data is not None:
            sent["Content-Type"] = "application/octet-stream"
        wire = self._open(seconds)
        try:
            wire.request(method, self._parts.path + path, data, {**sent, **(headers or {})})
            sock = wire.sock  # which the response takes over, once nothing follows it
            # One that was read to its end keeps the socket all the same.
            with wire.getresponse() as response:
                yield sock, response
        except (OSError, http.client.HTTPException) as error:
            why = (
                error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
            )
            raise ServerUnreachable(
                f"{shown(self.url, 300)} does not answer: {shown(why, 300)}.",
                hint="What this node has holds for its lease. Check the network, and whether the server runs.",
            ) from None
        finally:
            wire.close()

    def _open(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())


def checked_url(url: str) -> str:
    """The address of a server in one form; raises `InvalidArgument` for one that is none or not safe.

    >>> checked_url("https://skills.example.com/"), checked_url("http://localhost:8400")
    ('https://skills.example.com', 'http://localhost:8400')
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment or parts.username:
        raise InvalidArgument(
            f"{shown(url, 300)!r} is no address of a server.", hint="Write https://skills.example.com."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidArgument(
            f"{shown(url, 300)} would send tokens in the open.", hint="Use its address with https://."
        )
    return url.rstrip("/")


def _read(sock: socket.socket, response: http.client.HTTPResponse, until: float, most: int) -> bytes:
    found = bytearray()
    while len(found) <= most:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        sock.settimeout(left)
        piece = response.read1(_PIECE)
        if not piece:
            return bytes(found)
        found += piece
    raise ServerUnreachable(f"The server answers with more than {most:,} bytes.", hint=_CHECK)


def _refusal(answer: ServerAnswer) -> ServerRefused | ServerUnreachable:
    """The error that an answer of failure is: a problem of our server, or the page of somebody else."""
    try:
        problem = parse_object(answer.body, most=_MAX_PROBLEM)
    except ValueError:
        problem = {}
    code, detail, hint = (text_at(problem, name) for name in ("code", "detail", "hint"))
    if not code:
        return ServerUnreachable(f"The server answers with {answer.status} and no problem of ours.", hint=_CHECK)
    wrong = [one for one in value_at(problem, "errors") or () if isinstance(one, str)][:5]
    said = " ".join((detail, *(f"({one})" for one in wrong)))
    error = ServerRefused(
        f"The server refuses it: {shown(said, 800)}", hint=shown(hint, 500), status=answer.status, problem=problem
    )
    error.code = shown(code, 100)
    return error
