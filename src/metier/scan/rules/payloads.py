"""Commands and messages that are hidden in encoded text."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._hosts import addresses
from metier.scan.rules._judging import weighed
from metier.scan.rules._mercy import warns
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_BLOB = re.compile(r"(?<![A-Za-z0-9+/_=-])(?:[A-Za-z0-9+/]{24,}={0,2}|[A-Za-z0-9_-]{24,}={0,2})(?![A-Za-z0-9+/_=-])")

_HEX_BLOB = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){16,}(?![0-9A-Za-z])")

_A85 = re.compile(r"(?:b85decode|a85decode)\(\s*b?([\"'])([^\"'\n]{16,4000})\1")

_WORTH_HIDING = re.compile(
    r"\b(?:curl|wget)\s|/bin/(?:ba|z)?sh|\b(?:ba|z)?sh\s+-[ci]|https?://|powershell|invoke-|\beval\b|\bexec\("
    r"|import\s+(?:os|socket|subprocess|requests)|/dev/tcp/"
    r"|\bnc\s+-|chmod\s+\+x|rm\s+-rf|child_process|os\.system|/etc/passwd|\.ssh/|authorized_keys|crontab"
    r"|ignore (?:all )?(?:previous|prior)|do not tell|system prompt|osascript",
    re.IGNORECASE,
)

_RUNS = re.compile(
    r"/bin/(?:ba|z)?sh|\b(?:ba|z)?sh\s+-[ci]|\b(?:curl|wget)\s|powershell|invoke-|\beval\b|\bexec\(|import\s+(?:os"
    r"|socket|subprocess)|/dev/tcp/|os\.system|child_process|ignore (?:all )?(?:previous|prior)|do not tell",
    re.IGNORECASE,
)

_FORMAT_NAMES = re.compile(r"https://(?:in-toto\.io/Statement/v1|model_signing/signature/v1\.0)(?=\")")
"""Addresses by which a signature (`skill.oms.sig`) names the formats of its encoded statement; they lead nowhere."""

_PROSE = re.compile(r"\b[A-Za-z]{2,14}\b[ ,.]")

_BIDS = re.compile(
    r"\b(?:ignore|never|always|must|send|fetch|do not|decode|apply|follow|obey|run|execute|instructions?)\b"
)

_MAX_BLOB = 400_000

_NUMBERS = re.compile(
    r"(?<![\w.])(?:(?:0x[0-9a-f]{1,2}|\d{1,3})\s{0,2},\s{0,2}){7,2000}(?:0x[0-9a-f]{1,2}|\d{1,3})(?![\w.])", re.I
)
_TURNED = re.compile(r"\^\s{0,2}\(?(0x[0-9a-f]{1,2}|\d{1,3})\b", re.I)
"""What each number of a list is changed by."""
_ROT13 = re.compile(r"codecs\.decode\(\s*[\"']([^\"'\n]{8,2000})[\"']\s*,\s*[\"']rot_?13")
_PLACE = re.compile(r"(?:\w{2,6}://)?(?:[a-z0-9-]{1,60}\.){1,5}[a-z]{2,12}(?::\d{2,5})?(?:/\S{0,200})?", re.I)


_ENCODED_NAME = re.compile(
    r"(?:fromhex|unhexlify|b64decode|b32decode|frombase64string|atob)\(\s*b?[\"']([A-Za-z0-9+/_-]{12,400})={0,2}[\"']"
    r"|buffer\.from\(\s*[\"']([A-Za-z0-9+/_-]{12,400})={0,2}[\"']\s*,\s*[\"'](?:hex|base64)",
    re.I,
)
_SPELL_MARKS = ("rot", "fromhex", "unhexlify", "b64decode", "frombase64", "atob(", "buffer.from")


def _is_place(plain: str) -> bool:
    """Whether a text that was encoded is the name of a host, or an address."""
    return _PLACE.fullmatch(plain) is not None and any(addresses(plain if "://" in plain else f"https://{plain}"))


def _payload(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        if len(one.text) < 24 or "data:image" in one.low or "data:font" in one.low:
            continue
        for plain in (_FORMAT_NAMES.sub("", text) for text in _decoded(one.text)):
            if (shows := _WORTH_HIDING.search(plain)) is not None:
                bad = _RUNS.search(plain) is not None or _tells(plain)
                severity = weighed("critical" if bad else "high", one, None, read)
                if (
                    not bad
                    and not re.search(r"decode|atob|b64|exec|eval|base64", f"{one.low} {one.lead}")
                    and severity != "info"
                ):
                    severity = "low"
                yield one.hit(plain[max(0, shows.start() - 60) : shows.end() + 120], _at_least(severity, one, plain))
                break
            if len(_PROSE.findall(plain)) >= 6 and not plain.lstrip().startswith(("{", "[", "<", "-----")):
                bids = _BIDS.search(f"{plain.lower()} {one.low} {one.lead}") is not None
                yield one.hit(plain[:200], weighed("high" if bids else "low", one, None, read))
                break


def _tells(plain: str) -> bool:
    """Whether an encoded text tells somebody where to look and what to do then."""
    return len(_PROSE.findall(plain)) >= 6 and _FOLLOWED.search(plain.lower()) is not None


_FOLLOWED = re.compile(
    r"\b(?:follow|obey|execute|carry out|do what|do not (?:mention|tell|show|reveal)|never (?:mention|tell|show|reveal)"
    r"|instructions?)\b"
)


def _at_least(severity: Severity, one: Statement, plain: str) -> Severity:
    """The severity; what fetches something from a bare address and runs it is no example, unless it is called one."""
    if severity not in ("info", "low") or one.kind != "code" or not _RUNS.search(plain):
        return severity
    bare = any(place.kind == "address" for place in addresses(plain))
    return "high" if bare and not warns(one.heading, one.lead, security=False, code=True) else severity


def _spelt(view: SkillView) -> Iterator[Hit]:
    """A place or a command that is written as numbers, or turned letter by letter."""
    read = reading(view)
    for one in read.told("code"):
        if one.text.count(",") < 7 and not read.sees(one, _SPELL_MARKS):
            continue
        for plain in _spelt_in(one.text):
            if _PLACE.fullmatch(plain) or _WORTH_HIDING.search(plain):
                yield one.hit(plain[:200], weighed("high", one, None, read))
                break


def _spelt_in(text: str) -> Iterator[str]:
    turned = _TURNED.search(text)
    by = int(turned[1], 0) if turned is not None and not turned[1].startswith("00") else 0
    for found in _NUMBERS.finditer(text):
        numbers = [int(one, 16) if "x" in one.lower() else int(one) for one in re.split(r"\s*,\s*", found[0])]
        plain = "".join(chr(number ^ by) for number in numbers if number ^ by < 0x110000)
        if plain.isascii() and plain.isprintable():
            yield plain
    for found in _ROT13.finditer(text) if "rot" in text else ():
        yield codecs.decode(found[1], "rot13")
    for found in _ENCODED_NAME.finditer(text) if len(text) < 2_000 else ():
        blob = found[1] or found[2]
        data = bytes.fromhex(blob) if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", blob) else _unbase64(blob)
        if data.isascii() and _is_place(plain := data.decode("ascii")):
            yield plain


def _decoded(text: str) -> Iterator[str]:
    """The readable texts that are encoded in a line."""
    for found in _BLOB.finditer(text):
        blob = found[0][:_MAX_BLOB]
        if (blob.isalpha() and (blob.islower() or blob.isupper())) or ("/" in blob and blob.count("/") > len(blob) / 8):
            continue
        yield from _readable(_unbase64(blob))
    for found in _HEX_BLOB.finditer(text):
        yield from _readable(bytes.fromhex(found[0][:_MAX_BLOB]))
    if "85decode" in text:
        for found in _A85.finditer(text):
            for decode in (base64.b85decode, base64.a85decode):
                try:
                    yield from _readable(decode(found[2]))
                except ValueError:
                    continue


def _unbase64(blob: str) -> bytes:
    stripped = blob.rstrip("=").replace("-", "+").replace("_", "/")
    stripped = stripped[: len(stripped) - (len(stripped) % 4 == 1)]
    try:
        return base64.b64decode(stripped + "=" * (-len(stripped) % 4))
    except (binascii.Error, ValueError):
        return b""


def _readable(data: bytes) -> Iterator[str]:
    if len(data) >= 12:
        if data[1:20:2] == b"\0" * len(data[1:20:2]):
            data = data[::2]
        text = data.decode("latin-1")
        if sum((letter.isprintable() and letter < "\x7f") or letter in "\n\r\t" for letter in text) >= len(text) * 0.9:
            yield text
        elif data[:2] in (b"x\x9c", b"x\xda", b"x\x01", b"\x1f\x8b"):
            yield from _readable(_inflated(data))


def _inflated(data: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(47).decompress(data, _MAX_BLOB)
    except zlib.error:
        return b""


RULES = (
    ScanRule(
        id="ENCODED_PAYLOAD",
        ast="AST01",
        category="defense_evasion_obfuscation",
        severity="critical",
        message="A command, an address or an instruction is hidden in encoded text.",
        hint="Do not run it. What it says when decoded is shown here.",
        check=_payload,
    ),
    ScanRule(
        id="SPELT_IN_NUMBERS",
        ast="AST01",
        category="defense_evasion_obfuscation",
        severity="high",
        message="A host, an address or a command is written as numbers, so that nobody finds it by reading.",
        hint="Find out whose place it is, which is shown here. There is no honest reason to write it so.",
        check=_spelt,
    ),
)
