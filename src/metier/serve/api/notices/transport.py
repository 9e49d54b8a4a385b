"""Requests to receivers: to public addresses alone, unless settings allow others, and never where one sends them on.

Boundary: whoever may add a webhook chooses where this server sends requests. A name is looked up once, its address is
judged, and exactly that address is connected to; the answer is not shown, but for its status.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Mapping
from http.client import HTTPException

from metier._hosts import is_address, is_loopback, is_public_address
from metier.errors import InvalidArgument
from metier.hub.sources.connection import BoundedConnection, HttpUrl, failure_reason, parse_http_url

SECONDS = 10.0
"""The longest that a receiver may take for everything."""
_MAX_URL = 2_000
_PROVIDERS = frozenset({"fd00:ec2::254", "fd20:ce::254"})
"""Addresses like private ones at which clouds give credentials to a machine."""


class DeliveryFailed(Exception):
    """The reason why a receiver has not taken a message."""


def check_url(url: str, *, allow_private: bool) -> None:
    """Raise `InvalidArgument` for an address that nothing is ever sent to."""
    if len(url) > _MAX_URL:
        raise InvalidArgument("The address of the webhook is too long.", hint=f"At most {_MAX_URL} characters.")
    host, _ = parse_http_url(url).place
    if is_address(host) and not _may_reach(host, allow_private):
        raise InvalidArgument(
            f"{host} is no public address.",
            hint="Name a public one, or let the server have `webhooks: {allow_private: true}` in its settings.",
        )


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool, seconds: float = SECONDS) -> int:
    """The status of the answer to a message; raises `DeliveryFailed` where there is none."""
    try:
        at = parse_http_url(url)
        with BoundedConnection(time.monotonic() + seconds) as connection:
            _connect(connection, at, allow_private)
            if at.scheme == "https":
                connection.encrypt(at.place[0])
            length = {"Content-Length": str(len(body)), "Connection": "close"}
            return connection.send("POST", at.target, at.authority, {**headers, **length}, body).status
    except InvalidArgument as error:
        raise DeliveryFailed(error.message) from None
    except (OSError, HTTPException, ValueError) as error:
        raise DeliveryFailed(failure_reason(error)) from None


def _connect(connection: BoundedConnection, url: HttpUrl, allow_private: bool) -> None:
    """Connect to the first address of a host that may be reached and answers."""
    host, port = url.place
    problem = OSError("its name leads to no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not _may_reach(str(place[0]), allow_private):
            problem = OSError("it has no public address")
            continue
        if url.scheme == "http" and not is_loopback(str(place[0])):
            problem = OSError("plain http is spoken only with this machine")
            continue
        try:
            connection.connect(socket.socket(family, kind, protocol), place)
        except OSError as error:
            problem = error
            continue
        return
    raise problem


def _may_reach(address: str, allow_private: bool) -> bool:
    """Whether a message may be sent to an address; never to one that only the provider of a machine answers at."""
    if is_public_address(address):
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    plain = getattr(parsed, "ipv4_mapped", None) or parsed
    is_nobody = plain.is_link_local or plain.is_unspecified or plain.is_multicast or str(plain) in _PROVIDERS
    return allow_private and (plain.is_private or plain.is_loopback) and not is_nobody
