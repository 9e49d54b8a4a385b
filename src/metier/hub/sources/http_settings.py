"""Settings of the environment for downloads: proxies, and credentials for private registries."""

from __future__ import annotations

import base64
import os

from metier._hosts import authority, split_authority
from metier.errors import InvalidArgument
from metier.skill import shown

TOKENS = "METIER_REGISTRY_TOKENS"
"""The variable with tokens: `registry.example.com=TOKEN`, several with blanks between."""


def proxy_for(host: str) -> tuple[str, int, str] | None:
    """Host and port of the proxy that `https_proxy` and `no_proxy` or the system's settings name, and credentials."""
    from urllib.parse import unquote
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    written = proxies.get("https") or proxies.get("all") or ""
    if not written or proxy_bypass(host):
        return None
    scheme, _, rest = written.rpartition("://")
    who, _, place = rest.partition("/")[0].rpartition("@")
    try:
        name, port = split_authority(place if scheme in ("http", "") else "")
    except ValueError:
        raise InvalidArgument(
            f"The proxy {shown(place)!r} cannot be used.", hint="Set https_proxy to one such as http://proxy:3128."
        ) from None
    return name, port or 80, _basic(unquote(who)) if who else ""


def credentials_for(host: str, port: int) -> str:
    """The value of `Authorization` for a host; empty where nothing names exactly this one."""
    import netrc

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
    try:
        # The entry `default` is for any host at all; it is not asked for.
        entries = netrc.netrc(os.environ.get("NETRC") or os.path.expanduser("~/.netrc")).hosts
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return ""
    login, _, password = entries.get(authority(host), ("", "", ""))
    return _basic(f"{login}:{password}") if password else ""


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"
