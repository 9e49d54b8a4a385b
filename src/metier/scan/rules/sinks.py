"""Data that goes out by a side door: to a catcher of requests, or in an address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._flows import carried
from metier.scan.rules._judging import doubt, farthest, weighed
from metier.scan.rules._programs import code_together
from metier.scan.rules._reading import reading
from metier.scan.rules._sending import sends_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView


_NAME_LOOKUP = re.compile(
    r"(?:(?<![\w-])(?:nslookup|dig|drill)|(?:^|[;&|(`\"'=]\s{0,4}|\$\s|\b(?:sudo|run|then|do|else|exec)\s)(?:host|ping))"
    r"\s+(?![\"']?`n)[^\n|;&,]{0,60}(?:\$\(|`"
    r"|\$\{?\w+\}?\.)[^\n]{0,120}\.[a-z]{2,}|https?://[^\s\"'<>]{0,120}\$\(\s*(?:whoami|hostname|cat|env|id|base64"
    r"|printenv|uname)\b|https?://[^\s\"'<>]{0,120}\$\([^\n]{0,80}(?:environ|process\.env|getenv|cat\s)"
    r"|https?://[^\s\"'<>]{0,120}`(?:whoami|hostname|cat |env|id|base64)"
    r"|https?://[^\s\"'<>$]{4,120}\?[^\s\"'<>]{0,80}=\$\{?\w{0,30}(?:key|token|secret|password|passwd"
    r"|credential)\w{0,10}\}?"
    r"|gethostbyname\(\s*f?[\"'][^\"'\n]{0,40}\{|dns\.(?:lookup|resolve)\(\s*`[^`\n]{0,40}\$\{",
    re.IGNORECASE,
)

_WAYS_OUT = ("://", "nslookup", "dig", "drill", "host", "ping", "dns.")

_PICTURE = re.compile(r"!\[[^\]\n]{0,80}\]\(\s*https?://[^)\s]{1,200}[?&/][\w-]{1,30}=?(?:\{|\$|<|%7b)", re.IGNORECASE)


_OF_ITS_OWN = re.compile(r"=\$\{?(?P<brand>[A-Za-z0-9]{3,20})_")
"""A key that is named after the service it is for."""
_POURS = re.compile(r"(?:\$\(|`)[^\n]{0,80}(?:cat|env|environ|getenv|printenv|base64|process\.env)", re.IGNORECASE)
"""Whole files or the environment, which no service needs in an address."""


_ENCODES = re.compile(
    r"b(?:32|64|16|85)encode\(|hexlify\(|\.hex\(\)|tostring\(\s*[\"'](?:hex|base64(?:url)?)[\"']|btoa\(|\bbase(?:32|64)\b|\bxxd\s+-p"
    r"|encodetostring\(|encode\([\"']hex",
    re.IGNORECASE,
)
_ENCODE_MARKS = ("encode", "hexlify", ".hex()", "tostring(", "btoa(", "base32", "base64", "xxd ")
_LOOKS_UP = re.compile(
    r"gethostbyname(?:_ex)?\(|getaddrinfo\(|dns\.(?:promises\.)?(?:lookup|resolve\w{0,6})\(|resolver\.(?:resolve|query)\("
    r"|(?<![\w-])(?:nslookup|dig|drill|kdig)\s|resolve-dnsname\s|(?:^|[;&|(]\s{0,4})(?:host|ping)\s[^\n]{0,40}\$"
    r"|\[[\"'](?:nslookup|dig|host|ping)[\"']\s*,",
    re.IGNORECASE,
)
_LOOK_MARKS = ("gethostbyname", "getaddrinfo", "dns", "resolve", "nslookup", "dig", "drill", "host ", "ping")


def _looked_up(read: SkillStatements) -> Iterator[Hit]:
    """Something is encoded so that it can stand in a name, and the name is looked up: whoever has the zone reads it."""
    if not read.has("gethostbyname", "getaddrinfo", "dns", "resolver", "nslookup", "dig ", "ping ", "host "):
        return

    def encodes(one: Statement) -> bool:
        return read.sees(one, _ENCODE_MARKS) and _ENCODES.search(one.text) is not None

    def looks_up(one: Statement) -> bool:
        return read.sees(one, _LOOK_MARKS) and _LOOKS_UP.search(one.text) is not None

    for code in code_together(read):
        for _, call in carried(code, encodes, looks_up):
            yield call[0].hit(call[0].text, weighed("high", call[0], None, read))


def _leaked(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    yield from _looked_up(read)
    for one in read.told():
        if (
            ("$" in one.text or "`" in one.text or "{" in one.text)
            and read.sees(one, _WAYS_OUT)
            and (found := _NAME_LOOKUP.search(one.text)) is not None
            and not (one.kind == "row" and one.warned)
        ):
            places = [doubt(address, read) for address in one.places]
            own = bool(places) and max(places) <= 1
            if (named := _OF_ITS_OWN.search(found[0])) is not None:
                own = own or named["brand"].lower() in " ".join(place.host for place in one.places)
            severity: Severity = "low" if own and not _POURS.search(found[0]) else "high"
            yield one.hit(found[0], weighed(severity, one, found, read))
        elif "](" in one.text and (found := _PICTURE.search(one.text)) is not None:
            far = farthest((one,), read)
            bids = re.search(
                r"\b(?:include|render|embed|append|add|display|show|output|respond|always|encode)\w{0,3}\b",
                f"{one.low} {one.lead}",
            )
            if far >= 2 or (far == 1 and bids):
                yield one.hit(found[0], weighed("high" if bids else "medium", one, found, read))


def _sink(view: SkillView) -> Iterator[Hit]:
    """Something is handed over where only the one who set the trap can see it."""
    read = reading(view)
    for one in read.told("code", "frontmatter"):
        if not one.places or not sends_off(one, read):
            continue
        hook = one.kind == "frontmatter"
        for address in one.places:
            if hook and doubt(address, read) >= 2:
                yield one.hit(one.text, "high")
                break
            if address.kind in ("sink", "paste", "tunnel") or (address.kind == "address" and not address.secure):
                handed = re.search(r"\$\(|`|\$\{?\w|@\S|\bdata=|\bjson=|\bbody\b|--data|-d\b|-F\b", one.text)
                testing = re.search(r"\btest|debug|example|try it|verify\b", f"{one.heading} {one.lead}")
                severity: Severity = "low" if testing or not handed else "high" if address.kind == "sink" else "medium"
                yield one.hit(one.text, weighed(severity, one, None, read))
                break
    for one in read.told("prose", "comment", "frontmatter"):
        if one.places and any(address.kind == "sink" for address in one.places) and not one.warned:
            sends = re.search(
                r"\b(?:send|post|upload|report|forward|submit|transmit|ping|call|notify|log)\w{0,4}\b|发送|上传|отправ"
                r"|\benv[ií](?!ro)",
                one.low,
            )
            testing = re.search(r"\btest|debug|inspect|example\b", f"{one.heading} {one.low}")
            yield one.hit(one.text, "low" if testing or not sends else "medium")


RULES = (
    ScanRule(
        id="DATA_IN_ADDRESS",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It writes data into an address or a host's name, which sends it off unnoticed.",
        hint="Do not run it, and do not let the agent show pictures from there.",
        check=_leaked,
    ),
    ScanRule(
        id="EXFIL_SINK",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It hands data to a service that catches requests for whoever set it up.",
        hint="Find out whose it is. What you send there is read by its owner, not by the service it names.",
        check=_sink,
    ),
)
