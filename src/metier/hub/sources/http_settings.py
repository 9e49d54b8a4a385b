"""Settings of the environment for downloads: proxies, and credentials for private registries."""

from __future__ import annotations

import base64
import os
from typing import NamedTuple

from metier._hosts import authority, split_authority
from metier.errors import InvalidArgument
from metier.skill import shown

TOKENS = "METIER_REGISTRY_TOKENS"
"""The variable with tokens: `registry.example.com=TOKEN`, several with blanks between."""


class Proxy(NamedTuple):
    """A proxy that connections go through."""

    host: str
    port: int
    header: str
    """The line that says who uses it."""


def proxy_for(host: str) -> Proxy | None:
    """The proxy for a host, as `https_proxy` and `no_proxy` or the system's settings name it."""
    from urllib.parse import unquote
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    written = proxies.get("https") or proxies.get("all") or ""
    if not written or proxy_bypass(host):
        return None
    scheme, _, rest = written.rpartition("://")
    who, _, place = rest.partition("/")[0].rpartition("@")
    try:
        name, port = split_authority(place)
    except ValueError:
        name, port = "", None
    if scheme not in ("http", "") or not name:
        raise InvalidArgument(
            f"The proxy {shown(place)!r} cannot be used.", hint="Set https_proxy to one such as http://proxy:3128."
        )
    header = f"Proxy-Authorization: {_basic(unquote(who))}\r\n" if who else ""
    return Proxy(name, port or 80, header)


def credentials_for(host: str, port: int) -> str:
    """The value of `Authorization` for a host; empty where nothing names exactly this one."""
    for entry in os.environ.get(TOKENS, "").split():
        place, _, token = entry.partition("=")
        try:
            named, at = split_authority(place if token else "")
        except ValueError:
            raise InvalidArgument(
                f"{TOKENS} has an entry without a host or without a token.", hint="Write registry.example.com=TOKEN."
            ) from None
        if named == host and at in (None, port) and token.isascii() and token.isprintable():
            return f"Bearer {token}"
    return _from_netrc(authority(host))


def _from_netrc(host: str) -> str:
    import netrc

    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        found = netrc.netrc(path).hosts.get(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return ""
    # The entry `default` is for any host at all; it is not asked for.
    return _basic(f"{found[0]}:{found[2]}") if found and found[2] else ""


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"
