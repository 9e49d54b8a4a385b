"""Hosts and lists of hosts: the form of an entry, the hosts it means, and the addresses no name may lead to.

Names are compared in one form only: lower case, as they are on the wire (`xn--...`), without the dot at the end. That
form is also what is looked up, so that nothing can be one host for the list and another for the resolver. An entry
without a port means `DEFAULT_PORTS`, wherever lists are compared.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MAX_HOSTS = 256
"""The longest list."""
DEFAULT_PORTS = frozenset({80, 443})
"""The ports of an entry that names none."""

Match: TypeAlias = Literal["listed", "not-listed", "port"]
"""Whether a host is on a list; `port` is a host that is, but not with that port."""

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII).fullmatch
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII).fullmatch
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII).fullmatch
_LONGEST = 253
_TWO_READINGS = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters that the two versions of the rules for such names write differently on the wire."""

_REFUSED = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            # A service for the machine itself that a large cloud has at an address which looks public.
            "168.63.129.16/32",
        ),
    )
)  # fmt: skip
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
# The first has tunnels in it, and so has 2002::, by which any IPv4 address can be written.
_REFUSED_6 = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
_EMBEDDING = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
"""Networks whose last 32 bits are an IPv4 address that is reached by it."""


def checked_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """A list of hosts as it is compared; raises `InvalidArgument` for an entry that is none.

    An entry is a host, or all hosts below one, with a port or without. An address is meant literally.

    >>> checked_hosts(["API.Example.com.", "*.example.org:8443", "bücher.example", "[::1]:80"])
    ('api.example.com', '*.example.org:8443', 'xn--bcher-kva.example', '[::1]:80')
    """
    return tuple([str(entry) for entry in _parse_entries(hosts)])


def covers_host(entry: str, other: str) -> bool:
    """Whether one entry of a list means all that another one does; two that are no entries must be equal.

    >>> covers_host("*.example.com", "api.example.com"), covers_host("example.com", "example.com:8443")
    (True, False)
    >>> covers_host("example.com", "example.com:443")
    True
    """
    try:
        return _parse_entry(entry).covers(_parse_entry(other))
    except InvalidArgument:
        return entry == other


def common_hosts(granted: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """The entries that are in both lists: of two that overlap, the narrower one.

    >>> common_hosts(["*.example.com"], ["api.example.com", "evil.test"])
    ('api.example.com',)
    """
    found: dict[str, None] = {}
    entries = [(text, _parse_entry(text)) for text in granted]
    for text in asked:
        wanted = _parse_entry(text)
        for granted_text, entry in entries:
            if entry.covers(wanted):
                found.setdefault(text)
            elif wanted.covers(entry):
                found.setdefault(granted_text)
    return tuple(found)


class HostList:
    """A list of hosts that may be reached. An empty list is nobody.

    >>> some = HostList(["example.com", "*.example.org", "localhost:8080"])
    >>> some.match("example.com", 443), some.match("evilexample.com", 443)
    ('listed', 'not-listed')
    >>> some.match("a.b.example.org", 443), some.match("example.org", 443)
    ('listed', 'not-listed')
    >>> some.match("localhost", 443)
    'port'
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._entries = _parse_entries(hosts)

    def match(self, host: str, port: int, default_ports: Collection[int] = DEFAULT_PORTS) -> Match:
        """The match of a host in canonical form; a request may have fewer `default_ports` than others."""
        found = [entry for entry in self._entries if entry.names(host)]
        if not found:
            return "not-listed"
        is_listed = any(port in (default_ports if entry.port is None else (entry.port,)) for entry in found)
        return "listed" if is_listed else "port"


def canonical_host(text: str) -> str:
    """The one form of a host's name or address; raises `ValueError` for what is none.

    >>> canonical_host("WWW.Example.COM."), canonical_host("[0:0::1]")
    ('www.example.com', '::1')
    """
    if text.startswith("[") and text.endswith("]"):
        if "%" in text:
            raise ValueError("an address with a scope is no host")
        return str(ipaddress.IPv6Address(text[1:-1]))
    if not text or len(text) > _LONGEST + 1:
        raise ValueError("a host has a name of at most 253 characters")
    if not text.isascii():
        if not _TWO_READINGS.isdisjoint(text):
            raise ValueError("it has a character that is written in two ways; write the name as it begins with xn--")
        text = text.encode("idna").decode("ascii")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST or not all(map(_LABEL, labels)):
        raise ValueError("a host's name is letters, digits and hyphens between dots")
    if _NUMBER(labels[-1]):
        # Resolvers take `127.1`, `0x7f000001` and the like for addresses; there is one way to write one here.
        return str(ipaddress.IPv4Address(name))
    return name


def split_authority(text: str) -> tuple[str, int | None]:
    """A canonical host, and the port after it; raises `ValueError`.

    >>> split_authority("Example.com:8443"), split_authority("[::1]")
    (('example.com', 8443), ('::1', None))
    """
    host, colon, port = text.rpartition(":") if re.search(r":[^\]]*\Z", text) else (text, "", "")
    if not colon:
        return canonical_host(host), None
    if not _PORT(port) or int(port) > 65_535:
        raise ValueError("a port is a number from 1 to 65535")
    return canonical_host(host), int(port)


def authority(host: str, port: int | None = None) -> str:
    """A host with its port as it is written in requests.

    >>> authority("::1", 80)
    '[::1]:80'
    """
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def is_address(host: str) -> bool:
    """Whether a canonical host is an address, and nothing to be looked up."""
    return ":" in host or bool(_NUMBER(host.rpartition(".")[2]))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, which nobody else reaches by that name.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("example.com")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(authority: str) -> bool:
    """Whether a host, perhaps with a port, is this machine itself.

    >>> is_local("[::1]:5000"), is_local("localhost"), is_local("localhost.example.com:80")
    (True, True, False)
    """
    try:
        return is_loopback(split_authority(authority)[0])
    except ValueError:
        return False


def is_public_address(address: str) -> bool:
    """Whether an address is one of the open internet, and not of this machine, its network or its provider.

    >>> is_public_address("1.1.1.1"), is_public_address("169.254.169.254"), is_public_address("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if any(parsed in network for network in _EMBEDDING):
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
            return is_public_address(str(inner)) and not _is_own(parsed)
        is_open = parsed in _PUBLIC_6 and not any(parsed in network for network in _REFUSED_6)
    else:
        is_open = not any(parsed in network for network in _REFUSED)
    return is_open and not _is_own(parsed)


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether this machine has that address: only then can a socket be bound to it.

    Where the system lets anybody bind to any address, every one counts as its own, and names lead nowhere.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of a list."""

    host: str
    is_wildcard: bool
    port: int | None

    def names(self, host: str) -> bool:
        return host.endswith(f".{self.host}") if self.is_wildcard else host == self.host

    def covers(self, other: _Entry) -> bool:
        ports, others = [DEFAULT_PORTS if entry.port is None else {entry.port} for entry in (self, other)]
        if not others <= ports:
            return False
        if not self.is_wildcard:
            return not other.is_wildcard and other.host == self.host
        return self.names(other.host) or (other.is_wildcard and other.host == self.host)

    def __str__(self) -> str:
        return ("*." if self.is_wildcard else "") + authority(self.host, self.port)


def _parse_entries(hosts: Sequence[str]) -> tuple[_Entry, ...]:
    if isinstance(hosts, str | bytes):
        raise InvalidArgument("A list of hosts is no text.", hint=f"Write [{hosts[:80]!r}].")
    if len(hosts) > MAX_HOSTS:
        raise InvalidArgument(f"{len(hosts)} hosts are too many.", hint=f"A list has at most {MAX_HOSTS}.")
    return tuple(dict.fromkeys(map(_parse_entry, hosts)))


def _parse_entry(text: str) -> _Entry:
    if not isinstance(text, str):
        raise _no_host(text, "Entries are text.")
    if "://" in text:
        raise _no_host(text, "Write the domain alone, without http:// and without a path.")
    if "/" in text:
        raise _no_host(text, "A path cannot be part of it: a host is reached as a whole or not at all.")
    if "*" in text.removeprefix("*.") or text == "*.":
        raise _no_host(text, "A star stands alone at the beginning, before a domain: *.example.com.")
    is_wildcard = text.startswith("*.")
    name = text.removeprefix("*.")
    if not is_wildcard and name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"
    try:
        host, port = split_authority(name)
    except ValueError as error:
        # The messages of the language are for programmers; the sentences of this module are for everybody.
        why = "" if isinstance(error, UnicodeError | ipaddress.AddressValueError) else f" ({error})"
        raise _no_host(text, f"Write a host like api.example.com, *.example.com or example.com:8443{why}.") from None
    if is_address(host):
        if is_wildcard:
            raise _no_host(text, "An address has nothing below it.")
        parsed = ipaddress.ip_address(host)
        if parsed.is_unspecified or parsed.is_multicast:
            raise _no_host(text, "Nobody in particular has that address.")
    return _Entry(host, is_wildcard, port)


def _no_host(text: object, hint: str) -> InvalidArgument:
    return InvalidArgument(f"{str(text)[:80]!r} is no host for a list of hosts.", hint=hint, host=str(text)[:200])
