"""The matcher `encoded-text`: what a line says once it is decoded, judged by the terms of the rule.

| setting | meaning |
|---|---|
| `options.forms` | how it may be encoded: the names of `_FORMS`, whose places are data: `packs/core/encoded.yaml` |
| `terms.decodes` | what decodes, on a line of its own; long words and lists of numbers are looked at anyway |
| `terms.runs` | commands; more than high when the decoded text also names a stranger's address |
| `terms.shows` | what is high only where something is decoded: an address, a path |
| `terms.orders` | what makes hidden sentences high; others are low |
"""

from __future__ import annotations

import base64
import codecs
import re
import zlib
from bisect import bisect_right
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import unquote

from metier._regex_cache import kept_regex
from metier.scan.hosts import addresses
from metier.scan.judging import doubt, weighed
from metier.scan.masks import mask_of, places_in
from metier.scan.name_lists import sense
from metier.scan.stance import warns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rule_book import Rule
    from metier.scan.statement import Statement
    from metier.scan.term import Term
    from metier.scan.text import SkillText

    Decode: TypeAlias = Callable[[re.Match[str]], bytes | str]

_MAX_BLOB = 400_000
_LEAST = 12
"""Bytes below which an encoded text says nothing."""
_MANY = 7
"""Commas of a list of numbers that may stand for letters."""
_FEW = 6
"""Different words below which a sentence cannot be told to be turned."""
_SHAPE = bytes(code if chr(code).isspace() else 120 for code in range(128)).ljust(256)
"""An `x` for each character that is not blank."""
_LONG_WORD = b"x" * 24
_GROUPS = kept_regex("[ /][ /.0-9a-f-]{18}")
"""What bytes in digits and Morse have behind the first gap in them."""
_DECODES = kept_regex(r"decode|atob|b64|exec|eval|base64")
_WORD = kept_regex(r"\b[A-Za-z]{2,14}\b[ ,.]")
_LETTERS = kept_regex("[a-z]+")
_MORSE = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
_SMALL = ("the", "and", "to", "of", "not", "you", "user", "is", "in", "it", "for", "this", "that", "send", "all", "do")


def match_encoded_text(text: SkillText, rule: Rule) -> Iterator[Hit]:
    """Lines that say something else once they are decoded."""
    mask = text.may.get(rule.terms["decodes"], 0) | text.once(_places)
    chosen = [one for one in map(text.statements.__getitem__, places_in(mask)) if len(one.text) >= _LEAST * 2]
    chosen = [one for one in chosen if "data:image" not in one.low and "data:font" not in one.low]
    whole = " ".join(dict.fromkeys(one.text for one in chosen))
    has_calls = bool(text.may.get(rule.terms["decodes"]))
    ways = [
        way
        for form in (rule.options["forms"] if chosen else ())
        for way in _FORMS[form]
        if (has_calls or not way.name.startswith("calls-")) and way.may_be_in(whole)
        if sense(way.name).search(whole) is not None
    ]
    is_turned = bool(chosen) and "turned" in rule.options["forms"] and any(_turned(whole))
    for one in chosen if ways or is_turned else ():
        for plain, is_undone in _decoded(one.text, ways, is_turned):
            judged = _judged(sense("names-of-formats").sub("", plain), is_undone, one, text, rule.terms)
            if judged is not None:
                severity, at = judged
                yield one.hit(plain[max(0, at - 60) : at + 140], _in_context(severity, one, plain, text))
                break


def _places(text: SkillText) -> int:
    """The statements with a long word, a list of numbers, bytes in digits with blanks between them, or Morse."""
    starts, shape = text.read.starts, text.read.low.encode("ascii", "replace").translate(_SHAPE)
    places = {at for at, one in enumerate(text.statements) if one.text.count(",") >= _MANY}
    found = shape.find(_LONG_WORD)
    while found >= 0:
        at = bisect_right(starts, found)
        places.add(at - 1)
        found = shape.find(_LONG_WORD, starts[at]) if at < len(starts) else -1
    in_groups = text.matching(_GROUPS) if text.read.low in _IN_GROUPS else 0
    return mask_of(places, len(starts)) | in_groups


def _judged(
    plain: str, is_undone: bool, one: Statement, text: SkillText, terms: Mapping[str, Term]
) -> tuple[Severity, int] | None:
    """How bad it is that a line says this, and where; None if it says nothing."""
    sentences = len(_WORD.findall(plain)) >= 6 and not plain.lstrip().startswith(("{", "[", "<", "-----"))
    if (found := terms["runs"].search(plain)) is not None:
        far = max((doubt(place, text.read) for place in addresses(plain)), default=0)
        return ("critical" if far >= 2 else "high"), found.start()
    if (found := terms["shows"].search(plain)) is not None:
        is_undone = is_undone or _DECODES.search(f"{one.low} {one.lead}") is not None
        is_undone = is_undone or (sentences and terms["orders"].search(plain) is not None)
        return ("high" if is_undone else "low"), found.start()
    bids = sentences and terms["orders"].search(f"{plain} {one.low} {one.lead}") is not None
    return ("high" if bids else "low", 0) if sentences else None


def _in_context(severity: Severity, one: Statement, plain: str, text: SkillText) -> Severity:
    """The severity where it stands; a command with a bare address is no example, unless what is above calls it one."""
    found = weighed(severity, one, None, text.read)
    if severity != "critical" or one.kind != "code" or found in ("high", "critical"):
        return found
    is_bare = any(place.kind == "address" for place in addresses(plain))
    return "high" if is_bare and not warns(one.heading, one.lead, security=False, code=True) else found


class _Letters:
    """So many of some letters beside each other."""

    def __init__(self, letters: str, least: int) -> None:
        of = re.compile(f"[{letters}]")
        self._shape = bytes(120 if of.match(chr(code)) else 32 for code in range(128)).ljust(256)
        self._run = b"x" * least

    def __contains__(self, text: str) -> bool:
        return self._run in text.encode("ascii", "replace").translate(self._shape)


class _Way(NamedTuple):
    """A way to encode a text."""

    name: str
    """The lexicon by which it is found."""
    needs: str | _Letters
    """The marks or letters that a text cannot have it without, which are looked for first."""
    is_undone: bool
    """Whether what the lexicon finds is decoded there."""
    decoders: tuple[Decode, ...]

    def may_be_in(self, text: str) -> bool:
        return self.needs in text if isinstance(self.needs, str) else text in self.needs


def _decoded(text: str, ways: Sequence[_Way], is_turned: bool) -> Iterator[tuple[str, bool]]:
    """The texts that are encoded in a line in some ways, and whether the line itself decodes them."""
    for way in ways:
        for found in sense(way.name).finditer(text) if way.may_be_in(text) else ():
            for decode in way.decoders:
                try:
                    plain = decode(found)
                except ValueError:
                    continue
                for one in [plain] if isinstance(plain, str) else _readable(plain):
                    yield one, way.is_undone
    if is_turned:
        yield from _turned(text)


def _base64(found: re.Match[str]) -> bytes:
    blob = found[0][:_MAX_BLOB]
    is_word = blob.isalpha() and (blob.islower() or blob.isupper())
    return b"" if is_word or blob.count("/") > len(blob) / 8 else _unbase64(blob)


def _unbase64(blob: str) -> bytes:
    """What a text in base64 says, in either alphabet and with too few letters at its end."""
    plain = blob.rstrip("=")
    return base64.urlsafe_b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "==")


def _base32(found: re.Match[str]) -> bytes:
    return base64.b32decode(found[1] + "=" * (-len(found[1]) % 8))


_BASE85: tuple[Decode, ...] = (lambda found: base64.b85decode(found[1]), lambda found: base64.a85decode(found[1]))


def _morse(found: re.Match[str]) -> str:
    letters = dict(zip(_MORSE.split(), "abcdefghijklmnopqrstuvwxyz", strict=True))
    words = re.split(r" ?/ ?| {2,}", found[0].strip())
    return " ".join("".join(letters.get(one, "") for one in word.split()) for word in words)


def _numbers(found: re.Match[str]) -> str:
    turned = sense("turned-numbers").search(found.string)
    by = int(turned[1], 0) if turned is not None else 0
    numbers = [int(one, 16 if "x" in one.lower() else 10) for one in found[0].split(",")]
    plain = "".join(chr(number ^ by) for number in numbers)
    return plain if plain.isascii() and plain.isprintable() else ""


def _short(found: re.Match[str]) -> str:
    blob = found[1] or found[2]
    is_hex = re.fullmatch(r"(?:[0-9a-fA-F]{2})+", blob) is not None
    return (bytes.fromhex(blob) if is_hex else _unbase64(blob)).decode("ascii")


_HEX = "0-9A-Fa-f"
_IN_GROUPS = _Letters(" /.0-9a-f-", 19)
_FORMS: dict[str, list[_Way]] = {
    "base64": [_Way("words-in-base64", _Letters("A-Za-z0-9+/_-", 24), False, (_base64,))],
    "base32": [_Way("words-in-base32", _Letters("A-Z2-7", 24), False, (_base32,))],
    "bytes": [_Way("bytes-apart", _Letters(_HEX + " ", 35), False, (lambda found: _of_digits(found[0].split()),))],
    "percent": [
        _Way("words-with-percent-signs", "%", False, (lambda found: unquote(found[0]),)),
        _Way("quoted-printable", _Letters("=0-9A-F", 36), True, (lambda found: unquote(found[0].replace("=", "%")),)),
    ],
    "turned": [],
    "morse": [_Way("text-in-morse", _Letters(" /.-", 23), True, (_morse,))],
    "hex": [_Way("words-in-hex", _Letters(_HEX, 32), False, (lambda found: bytes.fromhex(found[1][:_MAX_BLOB]),))],
    # Also where no call decodes it: what is none comes out as bytes that nobody can read.
    "base85": [
        _Way("calls-in-base85", "85decode", True, _BASE85),
        _Way("words-in-base85", _Letters("^\\s\"'", 40), False, _BASE85),
    ],
    # A question mark stands for digits of other scripts.
    "numbers": [_Way("lists-of-numbers", _Letters(_HEX + r"xX,\s?", 15), True, (_numbers,))],
    "rot13": [_Way("calls-in-rot13", "codecs.", True, (lambda found: codecs.decode(found[1], "rot13"),))],
    "short": [_Way("calls-in-short", "(", True, (_short,))],
}


def _of_digits(digits: list[str]) -> bytes:
    return bytes(int(one, 2 if len(one) == 8 else 16) for one in digits)


def _turned(text: str) -> Iterator[tuple[str, bool]]:
    """A sentence whose letters are moved along the alphabet, or that runs backwards, told by its small words."""
    words = frozenset(_LETTERS.findall(text.lower()))
    turned = _turns().keys() & words
    if len(words) >= _FEW and len(turned) >= 3:
        for by, count in Counter(map(_turns().__getitem__, turned)).items():
            if count >= 3:
                yield text.translate(_alphabet(by)) if by else text[::-1], True


@cache
def _turns() -> dict[str, int]:
    """How small words look backwards (0), and moved along the alphabet by so many places."""
    moved = {word.translate(_alphabet(-by)): by for by in range(1, 26) for word in _SMALL}
    return {word: by for word, by in ({word[::-1]: 0 for word in _SMALL} | moved).items() if word not in _SMALL}


def _alphabet(by: int) -> dict[int, str]:
    """Each letter, and what stands so many places before it in the alphabet."""
    return {start + at: chr(start + (at - by) % 26) for start in (65, 97) for at in range(26)}


def _readable(data: bytes, depth: int = 0) -> Iterator[str]:
    """The text that bytes are, also as UTF-16, packed, or in base64 once more."""
    if len(data) < _LEAST:
        return
    if not any(data[1:20:2]):
        data = data[::2]
    if data[:2] in (b"x\x9c", b"x\xda", b"x\x01", b"\x1f\x8b") and depth < 2:
        try:
            yield from _readable(zlib.decompressobj(47).decompress(data, _MAX_BLOB), depth + 1)
        except zlib.error:
            return
    text = data.decode("utf-8", "replace")
    if sum((letter.isprintable() and letter != "\ufffd") or letter in "\n\r\t" for letter in text) >= len(text) * 0.9:
        yield text
        if depth < 2 and sense("words-in-base64").fullmatch(text.strip()):
            yield from _readable(_unbase64(text.strip()), depth + 1)
