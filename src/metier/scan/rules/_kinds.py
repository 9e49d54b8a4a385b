"""What kind of host a name is: known, anybody's in a minute, or a stranger's."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Literal, TypeAlias

from metier.scan.rules import _places
from metier.scan.rules._words import word_set

HostKind: TypeAlias = Literal[
    "local", "known", "unknown", "address", "paste", "short", "free", "tunnel", "sink", "share"
]

SHADY: frozenset[HostKind] = frozenset({"address", "paste", "short", "tunnel", "sink", "share", "free"})
"""Hosts that anybody gets at once and without a name: where stolen data goes and payloads come from."""

_BY_NAME: dict[str, HostKind] = {
    **dict.fromkeys(_places.KNOWN, "known"),
    **dict.fromkeys(_places.SHARE, "share"),
    **dict.fromkeys(_places.SINK, "sink"),
    **dict.fromkeys(_places.TUNNEL, "tunnel"),
    **dict.fromkeys(_places.FREE, "free"),
    **dict.fromkeys(_places.SHORT, "short"),
    **dict.fromkeys(_places.PASTE, "paste"),
}
_RENTED = word_set("s3 execute-api elb compute compute-1 lambda-url")
"""What anybody rents below `amazonaws.com`."""
_ODD_ENDINGS = tuple(sorted(_places.ODD_ENDINGS))

_BRAND_LABELS = word_set(
    "npm npmjs pythonhosted pypi github githubusercontent googleapis google anthropic openai "
    "claude microsoft apple nodejs rubygems docker homebrew solana metamask phantom ledger binance coinbase openclaw "
    "clawhub clawd "
    "clawdbot moltbot cursor codex chrome zoom slack notion figma stripe telegram whatsapp discord spotify youtube "
    "gmail paypal aws azure cloudflare vercel"
)
"""What a stranger's host is called to be taken for another's."""

_HOLE = re.compile(
    r"[<{$%\[]|your[-_.]|xxx|\.\.\.|-xyz-|abc123|^abc\.|^(?:www\.)?(?:host|domain|proxy|server|site|mysite|myserver|foo|bar"
    r"|acme[\w-]*|company|mycompany|test|my-?app|app|vmname)\.(?:com|org|net|io|dev|app|fly\.dev|vercel\.app"
    r"|netlify\.app|onrender\.com|pages\.dev|workers\.dev|herokuapp\.com|exe\.xyz|myshopify\.com)$|^host$|^domain$",
    re.IGNORECASE,
)
_RESOLVERS = frozenset(
    {
        "1.1.1.1",
        "1.0.0.1",
        "8.8.8.8",
        "8.8.4.4",
        "9.9.9.9",
        "208.67.222.222",
        "223.5.5.5",
        "114.114.114.114",
        "1.2.3.4",
        "5.6.7.8",
        "4.3.2.1",
    }
)
_ADDRESS = re.compile(r"(?:0x[0-9a-f]{8}|[0-9]{8,10}|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-f:.]+\])", re.IGNORECASE)
_DOCUMENTATION = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))


def kind_of(host: str, path: str = "") -> HostKind:
    """What kind of host a name is.

    >>> kind_of("203.0.113.9"), kind_of("files.pythonhosted.org"), kind_of("x.vercel.app"), kind_of("127.0.0.1")
    ('address', 'known', 'free', 'local')
    """
    if "..." in path or "…" in path or (re.fullmatch(r"/\d{1,2}", path) and _ADDRESS.fullmatch(host)):
        return "local"
    if _HOLE.search(host) or ("." not in host and not _ADDRESS.fullmatch(host)):
        return "local"
    if _ADDRESS.fullmatch(host):
        return _address_kind(host)
    if host.endswith((".local", ".internal", ".localhost", ".lan", ".home", ".corp", ".intranet", ".svc")):
        return "local"
    labels = host.split(".")
    if labels[-2] == "example" and labels[-1] in {"com", "org", "net", "io", "dev"}:
        return "local"
    if host.endswith(".amazonaws.com") and any(label in _RENTED or label.startswith("s3-") for label in labels):
        return "free"
    if len(labels) == 3 and labels[0] in _places.MAKERS and host.endswith((".github.io", ".gitlab.io")):
        return "known"  # the pages of an account whose programs people run
    for start in range(len(labels)):
        kind = _BY_NAME.get(".".join(labels[start:]))
        if kind is not None:
            return _by_path(host, path, kind)
    return "unknown"


def odd(host: str) -> bool:
    """Whether a host ends as names do that cost nothing, or is made of random letters.

    >>> odd("update-node.top"), odd("docs.python.org")
    (True, False)
    """
    labels = host.split(".")
    if any(word in _BRAND_LABELS for label in labels[:-1] for word in label.split("-")):
        return True
    first = host.rsplit(".", 1)[0].rsplit(".", 1)[-1]
    digits = sum(letter.isdigit() for letter in first)
    return host.endswith(_ODD_ENDINGS) or (len(first) >= 10 and digits >= 4)


def _by_path(host: str, path: str, kind: HostKind) -> HostKind:
    lowered = path.lower()
    if host in {"discord.com", "discordapp.com", "canary.discord.com"} and "/api/webhooks/" in lowered:
        return "sink" if re.search(r"/webhooks/[0-9]{6,20}/[\w-]{6,}", path) else kind
    if host == "api.telegram.org":
        return "sink" if re.match(r"/bot[0-9]{6,12}:[\w-]{10,}", path) else kind
    if host == "hooks.slack.com":
        return "sink" if re.match(r"/services/T[0-9A-Z]{6,}/B[0-9A-Z]{6,}/\w{10,}", path) else kind
    if host in {"script.google.com"} and "/macros/s/" in lowered:
        return "sink"
    if host in {"cdn.jsdelivr.net", "esm.sh"} and lowered.startswith("/gh/"):
        return "free"  # whatever lies at a forge, in anybody's account
    if kind == "share" and host == "docs.google.com":
        return "share" if "/uc" in lowered or "/forms/" in lowered else "known"
    return kind


def _address_kind(host: str) -> HostKind:
    try:
        number = int(host, 0) if host.isdigit() or host[:2].lower() == "0x" else host.strip("[]")
        address = ip_address(number)
    except ValueError:
        return "unknown"
    if host in _RESOLVERS:
        return "local"
    documented = any(address in network for network in _DOCUMENTATION if network.version == address.version)
    return "address" if address.is_global or documented else "local"
