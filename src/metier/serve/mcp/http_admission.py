"""Admission over HTTP: requests for this machine or hosts that are named, from no foreign page, with the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, unquote_plus

from starlette.responses import JSONResponse

from metier._lazy import dataclass, logger
from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    Answer: TypeAlias = Callable[[int, str, str, dict[str, str] | None], Response]
    """Makes an answer of a status, a code, a hint and headers."""

log = logger("metier.serve")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANY_HOST = "*"
_HOST = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\\]+)")
_ONCE = (b"host", b"origin", b"authorization", b"content-type", b"mcp-session-id", b"mcp-protocol-version")
"""Headers that a request has once: of two, one part of a program would believe the first and another the last."""
_QUERIED = frozenset(["access_token", "api_key", "apikey", "auth", "authorization", "bearer", "key", "token"])
_MAX_PORT = 65_535
_MAX_HEAD = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAndPort:
    """A host that a request names, and the port if it names one."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> HostAndPort | None:
        """The address in a `Host` header, compared by meaning and not by letters; None for a text that is no host.

        >>> HostAndPort.parse("LocalHost.:80")
        HostAndPort(host='localhost', port=80)
        >>> HostAndPort.parse("localhost:evil"), HostAndPort.parse("a@localhost"), HostAndPort.parse("localhost:99999")
        (None, None, None)
        """
        found = _HOST.fullmatch(text.lower()) if text.isascii() and len(text) <= 300 else None
        if found is None:
            return None
        port = int(found["port"]) if found["port"] else None
        if port is not None and not 0 < port <= _MAX_PORT:
            return None
        if found["six"] is None:
            return cls(host=found["name"], port=port)
        try:
            return cls(host=f"[{ipaddress.IPv6Address(found['six'])}]", port=port)
        except ValueError:
            return None

    def is_meant_by(self, allowed: Iterable[HostAndPort]) -> bool:
        """Whether it is one of those that are allowed; one of them without a port allows every port."""
        return any(one.host == self.host and one.port in (None, self.port) for one in allowed)


class HttpAdmission:
    """Lets requests through that are for a host which is allowed, from no foreign page, and have the token."""

    def __init__(
        self, app: ASGIApp, token: str | None, allowed_hosts: Sequence[str], *, answer: Answer | None = None
    ) -> None:
        """Requests may be for this machine and `allowed_hosts`; `*` is every host, where there is a token.

        `answer` makes the answer to what is not let in; an app that has one also looks at the forms of bodies itself.
        """
        _require_usable(token)
        self._answer = answer or _answer
        self._checks_form = answer is None
        if isinstance(allowed_hosts, str):
            raise InvalidArgument("allowed_hosts is a list of names.", hint=f"Write allowed_hosts=[{allowed_hosts!r}].")
        if ANY_HOST in allowed_hosts and token is None:
            raise InvalidArgument(
                "A server for every host name needs a token.", hint="Give a token, or name the hosts."
            )
        self._app = app
        self._token = None if token is None else token.encode()
        self._allowed = None if ANY_HOST in allowed_hosts else list(map(_parse_allowed, (*LOOPBACK, *allowed_hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is not let in, before any of its body is read."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[bytes, list[bytes]] = {}
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEAD:
            return self._answer(431, "bad-request", "Send fewer headers.", None)
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        for name in _ONCE:
            if len(headers.get(name, ())) > 1:
                return self._answer(400, "bad-request", f"Send the header {name.decode()} once.", None)
        one = {name: values[0] for name, values in headers.items()}
        if b"transfer-encoding" in one and b"content-length" in one:
            # A proxy before this server may believe the other of the two: the rest is not to become the next request.
            return self._answer(400, "bad-request", "Say once how long the body is.", {"Connection": "close"})
        if not scope["path"].startswith("/"):
            return self._answer(400, "bad-request", "Name the path alone: this is no proxy.", None)
        host = HostAndPort.parse(one.get(b"host", b"").decode("latin-1"))
        if host is None or not (self._allowed is None or host.is_meant_by(self._allowed)):
            log.warning(
                "a request for another host was refused: Host %s", shown(one.get(b"host", b"").decode("latin-1"))
            )
            return self._answer(
                421, "misdirected", "This server is not for that host; allowed_hosts names others.", None
            )
        if b"origin" in one and not self._is_own_page(one[b"origin"].decode("latin-1")):
            log.warning("a page of another host was refused: Origin %s", shown(one[b"origin"].decode("latin-1")))
            return self._answer(403, "forbidden", "Pages of other hosts may not use this server.", None)
        if not self._has_token(one.get(b"authorization", b"")):
            hint = "Send the header `Authorization: Bearer TOKEN`."
            return self._answer(401, "unauthorized", hint, {"WWW-Authenticate": "Bearer"})
        if self._has_secret(scope["query_string"].decode("latin-1")):
            # Addresses are logged, shown and passed on by whatever stands between.
            return self._answer(
                400, "bad-request", "A token goes into the header Authorization, never into the address.", None
            )
        return _wrong_form(scope, one) if self._checks_form else None

    def _is_own_page(self, origin: str) -> bool:
        if self._allowed is None:
            return True
        found = _ORIGIN.fullmatch(origin.lower())
        host = None if found is None else HostAndPort.parse(found["host"])
        return host is not None and host.is_meant_by(self._allowed)

    def _has_token(self, given: bytes) -> bool:
        if self._token is None:
            return True
        scheme, _, token = given.partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"

    def _has_secret(self, query: str) -> bool:
        """Whether the address of a request has the token in it, or something that is called one."""
        if any(name.lower() in _QUERIED for name, _ in parse_qsl(query, keep_blank_values=True)):
            return True
        token = "" if self._token is None else self._token.decode()
        # Who passes an address on as a part of another one escapes it once more.
        return bool(token) and any(token in text for text in (query, unquote_plus(query), unquote(unquote(query))))


def _wrong_form(scope: Scope, headers: dict[bytes, bytes]) -> JSONResponse | None:
    """The answer to an admitted request of a wrong form; None for a right one."""
    if scope["method"] == "POST":
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            return _answer(400, "bad-request", "Invalid Content-Type header: send application/json.")
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            return _answer(415, "unsupported", "Send the body as it is, not compressed.")
    return None


def _answer(status: int, error: str, hint: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error, "hint": hint}, status_code=status, headers=headers)


def _parse_allowed(host: str) -> HostAndPort:
    # An address of version 6 may be named as it is, without the brackets that a URL wants.
    bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    found = HostAndPort.parse(bare)
    if found is None:
        raise InvalidArgument(
            f"{shown(host)!r} is no host.", hint="Write a name, or a name and a port: example.com:443."
        )
    return found


def _require_usable(token: str | None) -> None:
    if token is not None and (not token.strip() or not token.isascii() or not token.isprintable()):
        raise InvalidArgument(
            "The token is empty, or has characters that no header can have.",
            hint="Make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`.",
        )
