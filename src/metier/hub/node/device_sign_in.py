"""Sign-in of a person at a command line: they confirm a code at the OpenID provider of a server (RFC 8628).

The secrets of the provider pass through this machine alone: it proves to the server with the provider's ID token who
somebody is, and gets a token of the server for it.
"""

from __future__ import annotations

import contextlib
import json
import time
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from metier._hosts import is_loopback
from metier._json_object import parse_object, text_at, value_at
from metier._lazy import dataclass
from metier._version import __version__
from metier.errors import InvalidArgument, MetierError, NotPermitted, SourceUnavailable
from metier.guard.node.connection import ServerConnection
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 10
_MAX_BYTES = 256 * 1024
_INTERVAL = 5
_MAX_INTERVAL = 60
_MAX_EXPIRY = 3600
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """The code that a person confirms, as a terminal may show it."""

    user_code: str
    url: str
    """The address at which it is entered."""
    complete_url: str
    """The address that has the code in it already; "" where there is none."""
    seconds: int
    """The time until it ends."""


def sign_in(url: str, show: Callable[[DeviceCode], object], *, wait: Callable[[float], object] = time.sleep) -> str:
    """The token of the server at `url` for the person who confirms the code that `show` gets.

    Raises `NotPermitted` where the provider or the server refuses, `SourceUnavailable` where one cannot be asked.
    """
    server = url.rstrip("/")
    methods = _answer_of(f"{server}/api/v1/sign-in")
    client = text_at(methods, "oidc", "client_id")
    endpoint = text_at(methods, "oidc", "device_authorization_endpoint")
    if not client or not endpoint:
        raise InvalidArgument(
            f"Nobody signs in to {shown(server, 200)} from a command line.",
            hint="Ask an admin of the server for a token, and set METIER_API_TOKEN to it.",
        )
    begun = _answer_of(endpoint, {"client_id": client, "scope": text_at(methods, "oidc", "scope")})
    show(_code_of(begun))
    form = {"grant_type": _GRANT, "client_id": client, "device_code": text_at(begun, "device_code")}
    answer = _poll(text_at(methods, "oidc", "token_endpoint"), form, begun, wait)
    proof = {name: text_at(answer, name) for name in ("id_token", "access_token")}
    token = text_at(_answer_of(f"{server}/api/v1/sign-in/exchange", json.dumps(proof)), "token")
    if not token:
        raise _unavailable(server, "its answer has no token")
    return token


def sign_out(url: str, token: str) -> None:
    """Give a token back that `sign_in` got; where that cannot be done now, it ends by itself within hours."""
    with contextlib.suppress(MetierError):
        ServerConnection(url, token).request("DELETE", "/api/v1/session")


def _code_of(begun: dict[str, Any]) -> DeviceCode:
    url, complete = text_at(begun, "verification_uri"), text_at(begun, "verification_uri_complete")
    for one in filter(None, (url, complete)):
        _require_safe(one)
    code = text_at(begun, "user_code")
    if not url or not code:
        raise SourceUnavailable("The OpenID provider gives no code.", hint="Ask an admin of the server.")
    seconds = _number(begun, "expires_in", 600, _MAX_EXPIRY)
    return DeviceCode(
        user_code=shown(code, 100), url=shown(url, 2000), complete_url=shown(complete, 2000), seconds=seconds
    )


def _poll(
    endpoint: str, form: dict[str, str], begun: dict[str, Any], wait: Callable[[float], object]
) -> dict[str, Any]:
    """The answer of the provider once the person has confirmed."""
    interval = _number(begun, "interval", _INTERVAL, _MAX_INTERVAL)
    left = _number(begun, "expires_in", 600, _MAX_EXPIRY)
    while left > 0:
        wait(interval)
        left -= interval
        try:
            status, answer = _ask(endpoint, form)
        except SourceUnavailable:
            interval = min(2 * interval, _MAX_INTERVAL)
            continue
        error = text_at(answer, "error")
        if error == "slow_down":
            interval = min(interval + _INTERVAL, _MAX_INTERVAL)
        elif error != "authorization_pending":
            return _accepted(endpoint, status, answer)
    raise NotPermitted("The code was not confirmed in time.", hint=for_people("Begin again with `metier login`."))


def _answer_of(url: str, content: dict[str, str] | str | None = None) -> dict[str, Any]:
    return _accepted(url, *_ask(url, content))


def _accepted(url: str, status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, unless it refuses: in the form of OAuth, or as a problem of ours."""
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return answer
    reason = next(filter(None, (text_at(answer, name) for name in ("detail", "error_description", "error"))), "")
    if not reason or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _unavailable(url, f"it answers {status}{f' ({shown(reason, 300)})' if reason else ''}")
    raise NotPermitted(
        f"{shown(urlsplit(url).netloc, 200)} refuses: {shown(reason, 300)}",
        hint=for_people("Begin again with `metier login`, or ask an admin of the server."),
    )


def _ask(url: str, content: dict[str, str] | str | None = None) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object of an answer to a question, to a form, or to JSON."""
    _require_safe(url)
    headers = {"Accept": "application/json", "User-Agent": f"metier/{__version__}"}
    if isinstance(content, str):
        headers["Content-Type"] = "application/json"
    data = None if content is None else (content if isinstance(content, str) else urlencode(content)).encode()
    # What is for this machine is sent to no proxy.
    local = [ProxyHandler({})] if is_loopback(urlsplit(url).hostname or "") else []
    try:
        with build_opener(_EveryStatus, *local).open(Request(url, data, headers), timeout=_SECONDS) as response:
            return response.status, parse_object(response.read(_MAX_BYTES + 1), most=_MAX_BYTES)
    except (OSError, HTTPException, ValueError) as error:
        raise _unavailable(url, shown(str(getattr(error, "reason", "") or error), 200)) from None


class _EveryStatus(HTTPErrorProcessor):
    """Answers of failure as answers; a redirect is one of them, as no secret follows it."""

    def http_response(self, request: Request, response: Any) -> Any:
        return response

    https_response = http_response


def _number(data: dict[str, Any], name: str, otherwise: int, most: int) -> int:
    found = value_at(data, name)
    return min(max(found, 1), most) if isinstance(found, int) else otherwise


def _require_safe(url: str) -> None:
    """Refuse an address where others could read what is sent."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise InvalidArgument(
            f"{shown(url, 200)} is no address at which anybody signs in.", hint="Use one that begins with https://."
        )


def _unavailable(url: str, why: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"{shown(urlsplit(url).netloc, 200)} cannot be asked: {why}.", hint="Check the address and the network."
    )
