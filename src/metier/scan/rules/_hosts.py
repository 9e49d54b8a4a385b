"""Addresses in a text, and where they lead."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.scan.rules._kinds import SHADY, kind_of, odd
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rules._kinds import HostKind

_URL = re.compile(
    r"""(?<![a-z0-9])(?P<scheme>h(?:tt|xx)ps?|wss?|ftp|tcp|socks5)(?:://|\[:\]//|:\\\\)
        (?:[^\s/@"'<>`]{1,80}@)?
        (?P<host>[^\s/:?\#"'<>`)(|,;\\]{1,253}|\[[0-9a-f:.]{2,45}\])
        (?::(?P<port>[0-9]{1,5}))?
        (?P<path>/[^\s"'<>`)|]{0,2000})?""",
    re.IGNORECASE | re.VERBOSE,
)
_DOTTED = re.compile(r"\.\w")
_BARE = re.compile(
    r"(?<![a-z0-9@./_-])(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,40}[a-z0-9])?\.){1,4}[a-z]{2,12}"
    r"|(?:[0-9]{1,3}\.){3}[0-9]{1,3})"
    r"(?::(?P<port>[0-9]{2,5}))?(?P<path>/[^\s\"'<>`)|]{0,500})?(?![a-z0-9(])",
    re.IGNORECASE,
)
_ENDINGS = word_set(
    "com net org io ai app dev co info biz xyz top click site online space store website live club "
    "icu cyou buzz tk ml ga cf gq rest quest sbs cfd bond "
    "lol pw su fun win download help link shop tech cloud systems network tools software digital agency host "
    "services support works run page new ru cn de fr es uk eu us "
    "br jp kr in it nl pl ua ca au me tv gg la so to ly im is chat news pro one world today life zone center wiki "
    "finance money trade market exchange"
)
_MAILBOX = re.compile(r"(?<![\w.+/@-])[\w.+-]{1,64}@(?P<host>(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,12})\b", re.IGNORECASE)
_ANYBODY = word_set(
    "you your user name me someone somebody john jane alice bob foo bar test example recipient "
    "sender email mail a b git noreply no-reply support hello info contact sales security admin boss client customer "
    "friend "
    "john.doe jane.doe first.last firstname.lastname username your-email youremail your.email user1 team bot"
)
_MAIL_PROVIDERS = word_set(
    "gmail.com proton.me protonmail.com outlook.com hotmail.com yahoo.com icloud.com qq.com "
    "163.com 126.com yandex.ru mail.ru tutanota.com tuta.com gmx.com gmx.de mail.com zoho.com aol.com"
)


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
        names = parts[:-1] if len(parts) > 1 else parts
        if self.kind == "known" and "git" in self.host:
            return tuple(part for part in self.path.split("/")[1:3] if part)
        if self.kind in SHADY:
            return tuple(names[:1])
        return tuple(name for name in names if name not in {"www", "api", "app", "get", "docs", "cdn", "co", "com"})


def addresses(text: str, *, bare: bool = False) -> Iterator[HostAddress]:
    """The addresses in a text; with `bare` also hosts of a doubtful kind that stand without `https://`."""
    seen: list[tuple[int, int]] = []
    if "://" in text or "[:]//" in text or ":\\\\" in text:
        for found in _URL.finditer(text):
            host = _bare_host(found["host"])
            if host:
                seen.append(found.span())
                secure = found["scheme"].lower() in {"https", "wss", "hxxps"}
                kind = kind_of(host, found["path"] or "")
                yield HostAddress(found[0], host, kind, found["path"] or "", secure, *found.span())
    if bare and _DOTTED.search(text):
        for found in _BARE.finditer(text):
            if any(start <= found.start() < end for start, end in seen):
                continue
            host = _bare_host(found["host"])
            kind = kind_of(host, found["path"] or "")
            named = kind in ("unknown", "known") and _is_host(text, found, host)
            if (
                named
                or (
                    kind in SHADY
                    # A short address without a path leads nowhere: `s.id` is the field of a record.
                    and (kind != "short" or len(found["path"] or "") > 1)
                    and (
                        kind != "address"
                        or found["port"]
                        or (found["path"] and len(found["path"]) > 4)
                        or _REACHED.search(text[max(0, found.start() - 40) : found.start()].lower())
                    )
                )
            ):
                yield HostAddress(found[0], host, kind, found["path"] or "", True, *found.span())


def mailboxes(text: str) -> Iterator[HostAddress]:
    """Mail addresses of somebody in particular; one at a provider for everybody counts as nobody's."""
    if "@" not in text:
        return
    for found in _MAILBOX.finditer(text):
        host = found["host"].lower()
        kind: HostKind = "share" if host in _MAIL_PROVIDERS else kind_of(host)
        if (
            kind in ("unknown", "share")
            and found[0].split("@")[0].lower() not in _ANYBODY
            and host not in {"company.com", "acme.com", "b.com", "test.com", "domain.com", "email.com"}
        ):
            yield HostAddress(found[0], host, kind, "", True, *found.span())


def _bare_host(host: str) -> str:
    return host.lower().replace("[.]", ".").replace("(.)", ".").rstrip(".*_").removeprefix("www.")


def _is_host(text: str, found: re.Match[str], host: str) -> bool:
    """Whether a word with a dot is meant as a host: by its ending, and by what leads to it or follows."""
    if host.rsplit(".", 1)[-1] not in _ENDINGS and kind_of(host) != "known":
        return False
    if host.endswith(".app") and not found["path"]:
        return False  # a program on a Mac
    if _FETCHED.search(text[max(0, found.start() - 60) : found.start()].lower()):
        return True
    before = text[max(0, found.start() - 24) : found.start()].lower()
    leads = re.search(
        r"\b(?:from|at|visit|to|via|on|open|see|site|page|host|domain|server|go to|of|txt|short|desde|de|с"
        r"|из)\s[\"'(<*]{0,2}$|(?:从|访问|到)\s?$",
        before,
    )
    return bool(
        (found["path"] and len(found["path"]) > 1 and not re.search(r"\.\w{1,5}$", found["path"][:60]) and leads)
        or (leads and ("-" in host or odd(host) or found["path"]))
    )


_FETCHED = re.compile(r"\b(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)\s+(?:-\S{1,20}\s+){0,4}[\"'(]?$")
_REACHED = re.compile(
    r"\b(?:curl|wget|nc|ncat|ssh|scp|ping|telnet|connect|server|host|from|to)\b[^|;&]{0,20}$"
    r"|(?:connect(?:ion)?|socket|dial|client)\w{0,6}\(\s*\(?\s*(?:\d{1,5}\s*,\s*)?[\"'`]$"
)
