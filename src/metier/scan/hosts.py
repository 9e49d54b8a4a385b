"""Addresses in a text, and what kind of host each leads to: known, anybody's in a minute, or a stranger's."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from functools import cache
from ipaddress import ip_address, ip_network
from socket import inet_aton
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from metier._lazy import dataclass
from metier._regex_cache import compiled, kept_regex
from metier.scan.name_lists import entries, names, sense

if TYPE_CHECKING:
    from collections.abc import Iterator

HostKind: TypeAlias = Literal[
    "local", "known", "unknown", "address", "paste", "short", "free", "tunnel", "sink", "share"
]

SHADY: frozenset[HostKind] = frozenset({"address", "paste", "short", "tunnel", "sink", "share", "free"})
"""Hosts that anybody gets at once and without a name: where stolen data goes and payloads come from."""

_KINDS: tuple[HostKind, ...] = ("known", "share", "sink", "tunnel", "free", "short", "paste")
_URL = kept_regex(
    r"""(?<![a-z0-9])(?P<scheme>h(?:tt|xx)ps?|wss?|ftp|tcp|socks5)(?:://|\[:\]//|:\\\\)
        (?:[^\s/@"'<>`]{1,80}@)?
        (?P<host>[^\s/:?\#"'<>`)(|,;\\]{1,253}|\[[0-9a-f:.]{2,45}\])
        (?::(?P<port>[0-9]{1,5}))?
        (?P<path>/[^\s"'<>`)|]{0,2000})?""",
    re.IGNORECASE | re.VERBOSE,
)
_DOTTED = kept_regex(r"\.\w")
_BARE = kept_regex(
    r"(?<![a-z0-9@./_-])(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,40}[a-z0-9])?\.){1,4}[a-z]{2,12}"
    r"|(?:[0-9]{1,3}\.){3}[0-9]{1,3})"
    r"(?::(?P<port>[0-9]{2,5}))?(?P<path>/[^\s\"'<>`)|]{0,500})?(?![a-z0-9(])",
    re.IGNORECASE,
)
_MAILBOX = kept_regex(r"(?<![\w.+/@-])[\w.+-]{1,64}@(?P<host>(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,12})\b", re.IGNORECASE)
_FETCHED = kept_regex(r"\b(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)\s+(?:-\S{1,20}\s+){0,4}[\"'(]?$")
_REACHED = kept_regex(
    r"\b(?:curl|wget|nc|ncat|ssh|scp|ping|telnet|connect|server|host|from|to)\b[^|;&]{0,20}$"
    r"|(?:connect(?:ion)?|socket|dial|client)\w{0,6}\(\s*\(?\s*(?:\d{1,5}\s*,\s*)?[\"'`]$"
)
_LEADS = kept_regex(
    r"\b(?:from|at|visit|to|via|on|open|see|site|page|host|domain|server|go to|of|txt|short|desde|de|с"
    r"|из)\s[\"'(<*]{0,2}$|(?:从|访问|到)\s?$"
)
_ADDRESS = kept_regex(
    r"(?:0x[0-9a-f]{8}|[0-9]{8,10}|(?:0x[0-9a-f]{1,8}|[0-9]{1,10})(?:\.(?:0x[0-9a-f]{1,8}|[0-9]{1,10})){1,3}|\[[0-9a-f:.]+\])",
    re.IGNORECASE,
)
"""An address in numbers, in each way in which programs read one: `0x7f.1` is this machine, too."""
_MAPPED = kept_regex(r"(?:^|[.-])([0-9]{1,3}(?:[.-][0-9]{1,3}){3})\.(?:nip|sslip|xip)\.io")
"""A name that stands for the address in it."""
_DOCUMENTATION = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))


@dataclass(frozen=True, slots=True)
class HostAddress:
    """An address as it stands in a text."""

    url: str
    host: str
    kind: HostKind
    path: str
    secure: bool
    """Whether it begins with https or wss; a bare host counts as such."""
    start: int
    end: int

    @property
    def shady(self) -> bool:
        """Whether anybody could stand behind it."""
        return self.kind in SHADY

    @property
    def labels(self) -> tuple[str, ...]:
        """The names in it that could say whose it is: the host's own, and on a forge its owner's and project's."""
        parts = self.host.split(".")
        own = parts[:-1] if len(parts) > 1 else parts
        if self.kind == "known" and "git" in self.host:
            return tuple(part for part in self.path.split("/")[1:3] if part)
        if self.kind in SHADY:
            return tuple(own[:1])
        return tuple(name for name in own if name not in {"www", "api", "app", "get", "docs", "cdn", "co", "com"})


def addresses(text: str, *, bare: bool = False) -> Iterator[HostAddress]:
    """The addresses in a text; with `bare` also hosts of a doubtful kind that stand without `https://`."""
    seen = bytearray(len(text))
    """Where addresses with a scheme stand."""
    if "://" in text or "[:]//" in text or ":\\\\" in text:
        for found in _URL.finditer(text):
            address = _address(found, is_secure=found["scheme"].lower() in {"https", "wss", "hxxps"})
            if address.host:
                seen[found.start() : found.end()] = b"x" * len(found[0])
                yield address
    if bare and _DOTTED.search(text):
        for found in _BARE.finditer(text):
            if not seen[found.start()]:
                address = _address(found, is_secure=True)
                if _is_meant(address, text, found["port"]):
                    yield address


def mailboxes(text: str) -> Iterator[HostAddress]:
    """Mail addresses of somebody in particular; one at a provider for everybody counts as nobody's."""
    for found in _MAILBOX.finditer(text) if "@" in text else ():
        host = found["host"].lower()
        kind: HostKind = "share" if host in names("mail-hosts") else kind_of(host)
        somebody = found[0].split("@")[0].lower() not in names("nobodys-mailboxes")
        if kind in ("unknown", "share") and somebody and host not in {"b.com", "email.com"}:
            yield HostAddress(found[0], host, kind, "", True, *found.span())


def _address(found: re.Match[str], *, is_secure: bool) -> HostAddress:
    host = found["host"].lower().replace("[.]", ".").replace("(.)", ".").rstrip(".*_").removeprefix("www.")
    path = found["path"] or ""
    return HostAddress(found[0], host, kind_of(host, path) if host else "local", path, is_secure, *found.span())


def _is_meant(address: HostAddress, text: str, port: str | None) -> bool:
    """Whether a word with a dot is meant as a host: by its kind and ending, and by what leads to it or follows."""
    host, kind, path = address.host, address.kind, address.path
    before = text[max(0, address.start - 60) : address.start].lower()
    if kind in ("unknown", "known"):
        if host.rsplit(".", 1)[-1] not in names("host-endings") and kind_of(host) != "known":
            return False
        if host.endswith(".app") and not path:
            return False  # a program on a Mac
        leads = _LEADS.search(before[-24:])
        return bool(_FETCHED.search(before) or (leads and (path or "-" in host or odd(host))))
    if kind == "address":
        return bool(port or len(path) > 4 or _REACHED.search(before[-40:]))
    # A short address without a path leads nowhere: `s.id` is the field of a record.
    return kind in SHADY and (kind != "short" or len(path) > 1)


def kind_of(host: str, path: str = "") -> HostKind:
    """What kind of host a name is.

    >>> kind_of("203.0.113.9"), kind_of("files.pythonhosted.org"), kind_of("x.vercel.app"), kind_of("127.0.0.1")
    ('address', 'known', 'free', 'local')
    >>> kind_of("0x7f.1"), kind_of("10-0-0-1.nip.io"), kind_of("0x2d3d0724"), kind_of("0x2d.0x3d.7.36")
    ('local', 'local', 'address', 'address')
    """
    is_address = _ADDRESS.fullmatch(host) is not None
    if "..." in path or "…" in path or (is_address and re.fullmatch(r"/\d{1,2}", path)):
        return "local"
    if sense("hosts-to-fill-in").search(host) or ("." not in host and not is_address):
        return "local"
    if is_address:
        return _address_kind(host)
    mapped = _MAPPED.search(host)
    if mapped is not None and _address_kind(mapped[1].replace("-", ".")) == "local":
        return "local"
    labels = host.split(".")
    if host.endswith(".amazonaws.com") and any(
        label in names("rented-at-amazon") or label.startswith("s3-") for label in labels
    ):
        return "free"
    if len(labels) == 3 and labels[0] in names("forge-accounts") and host.endswith((".github.io", ".gitlab.io")):
        return "known"  # the pages of an account whose programs people run
    tails = (".".join(labels[start:]) for start in range(len(labels)))
    kind = next((_by_name()[tail] for tail in tails if tail in _by_name()), None)
    if kind is None:
        return "unknown"
    return next((other for name, start, other in _by_path() if name == host and start.search(path)), kind)


def stands_for_anybody(host: str) -> bool:
    """Whether a host is one that examples of attacks use: of a documentation network, or called like an attacker.

    >>> stands_for_anybody("203.0.113.9"), stands_for_anybody("evil.com"), stands_for_anybody("update-node.top")
    (True, True, False)
    """
    if sense("hosts-of-examples").search(host):
        return True
    try:
        return _is_documentation(ip_address(host.strip("[]")))
    except ValueError:
        return False


def odd(host: str) -> bool:
    """Whether a host ends as names do that cost nothing, or is made of random letters.

    >>> odd("update-node.top"), odd("docs.python.org")
    (True, False)
    """
    labels = host.split(".")
    if len(labels) > 2 and labels[0] in names("services-of-companies"):
        del labels[0]  # a mirror or a forge of somebody's own is called after what it mirrors
    if any(word in names("brands") for label in labels[:-1] for word in label.split("-")):
        return True
    first = host.rsplit(".", 1)[0].rsplit(".", 1)[-1]
    return labels[-1] in names("odd-endings") or (len(first) >= 10 and sum(map(str.isdigit, first)) >= 4)


@cache
def _by_name() -> dict[str, HostKind]:
    return {name: kind for kind in _KINDS for name in names(f"{kind}-hosts")}


@cache
def _by_path() -> list[tuple[str, re.Pattern[str], HostKind]]:
    """Hosts with something for everybody below some paths, the paths, and the kind that they are of."""
    return [(host, compiled(path), cast("HostKind", kind)) for host, path, kind in entries("kinds-by-path")]


def _address_kind(host: str) -> HostKind:
    try:
        address = ip_address(host.strip("[]") if host[0] == "[" else inet_aton(host))
    except (ValueError, OSError):
        return "unknown"
    if host in names("sample-addresses"):
        return "local"
    return "address" if address.is_global or _is_documentation(address) else "local"


def _is_documentation(address: Any) -> bool:
    return any(address.version == network.version and address in network for network in _DOCUMENTATION)
