"""Names of skills: validity, slugs, lookalikes, and patterns in which `*` stands for anything."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier._paths import short_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_NAME = 64

_VALID = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# Some letters of Unicode are written as nothing at all; two names must not differ by what nobody sees.
_SEPARATORS = pattern("[\\W_\u115f\u1160\u3164\uffa0]+")


def is_valid_name(name: str) -> bool:
    """Whether a name keeps the specification's rule: 1 to 64 of `a-z0-9` with single hyphens between.

    >>> is_valid_name("pdf-forms"), is_valid_name("PDF_Forms")
    (True, False)
    """
    return len(name) <= MAX_NAME and _VALID.fullmatch(name) is not None


def slug(text: str) -> str:
    """The name that any text is called by: lower case, hyphens for everything but letters and digits.

    Text without a letter or digit has no slug. A slug never holds a path separator, a blank or a control character.

    >>> slug("../../My Skill (v2)")
    'my-skill-v2'
    >>> slug("技能"), slug("!!!")
    ('技能', '')
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text[:1_000]).lower())
    return _SEPARATORS.sub("-", folded).strip("-")[:MAX_NAME].rstrip("-")


def usable_name(written: str, folder: str) -> str:
    """The name of a skill: its own name, slugged when invalid, else the folder's, else one made of its bytes."""
    if is_valid_name(written):
        return written
    named = slug(written) or slug(folder)
    if named:
        return named
    return f"skill-{short_digest(f'{written}/{folder}'.encode(errors='surrogatepass'), 8)}"


_LATIN = (
    r".*\bLATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL )?"
    r"(?:BARRED |BLACKLETTER |DOTLESS |INSULAR |SCRIPT |STRETCHED )?([A-Z])(?: WITH .*)?"
)
_PALOCHKA = "\u04cf"
"""A letter that the list takes for an `i` without its dot, and that is drawn like an `l`."""


@lru_cache(maxsize=4_096)
def readings(name: str) -> tuple[str, ...]:
    """The readings of a name, itself first: in plain letters, and with letters for the digits in it.

    >>> readings("data"), readings("d\\u0430ta")[1:], readings("f0rrn")[1:]
    (('data',), ('data',), ('form',))
    """
    if is_plain(name):
        return (name,)
    plain = name if name.isascii() else "".join(map(_plain_letters, unicodedata.normalize("NFKD", name)))
    letters = plain.replace("0", "o").replace("1", "l").replace("rn", "m")
    return tuple(dict.fromkeys((name, plain, letters)))


def is_plain(name: str) -> bool:
    """Whether a name has nothing in it that may be taken for something else.

    >>> is_plain("data"), is_plain("d4ta"), is_plain("f0rmat")
    (True, True, False)
    """
    return name.isascii() and "0" not in name and "1" not in name and "rn" not in name


def is_taken_for(name: str, other: str) -> bool:
    """Whether a name is another one, or would be taken for it by whoever sees it; upper and lower case are the same.

    The plain name is never taken for the one that imitates it.

    >>> is_taken_for("d\\u0430ta", "data"), is_taken_for("data", "d\\u0430ta"), is_taken_for("poIicy", "policy")
    (True, False, True)
    """
    has_capital = "I" in name  # which is drawn like an `l`
    if is_plain(name) and not has_capital:
        return name.casefold() == other.casefold()
    mine, others = ({one.casefold() for one in readings(each)} for each in (name, other))
    if has_capital:
        mine, others = ({one.replace("i", "l") for one in each} for each in (mine, others))
    return not mine.isdisjoint(others)


def is_mixed_script(name: str) -> bool:
    """Whether a name has letters of several alphabets: nobody can tell by its look what it is.

    >>> is_mixed_script("d\\u0430ta"), is_mixed_script("\\u0434\\u0430\\u0442\\u0430-7")
    (True, False)
    """
    if name.isascii():
        return False
    from confusable_homoglyphs import confusables

    return bool(confusables.is_mixed_script(name))


@lru_cache(maxsize=4_096)
def _plain_letters(letter: str) -> str:
    """The plain letters that another one is taken for; itself where there are none, and nothing for a mark."""
    if letter.isascii() or unicodedata.combining(letter):
        return letter if letter.isascii() else ""
    if letter == _PALOCHKA:
        return "l"
    if latin := re.fullmatch(_LATIN, unicodedata.name(letter, "")):
        return latin[1].lower()
    from confusable_homoglyphs import confusables

    for known in confusables.is_confusable(letter, greedy=True, preferred_aliases=[]) or ():
        for one in known["homoglyphs"]:
            bare = "".join(each for each in unicodedata.normalize("NFKD", one["c"]) if not unicodedata.combining(each))
            if bare.isascii() and bare.isalnum():
                return bare.casefold()
    return letter


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a text is like a pattern.

    >>> glob_matches("https://x.org/*", "https://x.org/a/b"), glob_matches("a*c", "ab")
    (True, False)
    """
    return has_pieces(_pieces(pattern), text)


@lru_cache(maxsize=16_384)
def _pieces(pattern: str) -> tuple[str, ...]:
    """The texts between the stars of a pattern; found out once, as policies have the same ones for long."""
    return tuple(pattern.split("*"))


def has_pieces(pieces: tuple[str, ...], text: str) -> bool:
    """Whether a text is made of pieces, with anything between them; it takes time in proportion to the text."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if not text.startswith(first) or not text.endswith(last) or len(first) + len(last) > len(text):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def path_fits(pattern: Sequence[Callable[[str], object] | None], names: Sequence[str]) -> bool:
    """Whether the names of a path fit a pattern: a predicate for each name, and None for any number of folders.

    >>> path_fits([None, ".git".__eq__], ["a", "b", ".git"]), path_fits([".git".__eq__], ["a", ".git"])
    (True, False)
    """
    # All the positions in the pattern that the names so far can have led to, at once: nothing is ever tried again.
    positions = _positions(pattern, {0})
    for name in names:
        moved = {
            at if part is None else at + 1
            for at in positions
            if at < len(pattern) and ((part := pattern[at]) is None or part(name))
        }
        positions = _positions(pattern, moved)
        if not positions:
            return False
    return len(pattern) in positions


def _positions(pattern: Sequence[Callable[[str], object] | None], positions: set[int]) -> set[int]:
    """The positions, with those behind folders of any number."""
    reached = set(positions)
    for at in positions:
        while at < len(pattern) and pattern[at] is None:
            at += 1
            reached.add(at)
    return reached


@lru_cache(maxsize=8_192)  # every decision asks the same of the same skills
def names_skill(pattern: str, name: str, source: str) -> bool:
    """Whether a pattern names a skill: over its name, or over `name@source` where the pattern has an `@`.

    Letters are compared whatever their case, as a name that differs by that alone would be taken for the same.

    >>> names_skill("crypto-*@*", "crypto-miner", "acme"), names_skill("deploy", "Deploy", "acme")
    (True, True)
    """
    whole = f"{name}@{source}" if "@" in pattern else name
    return glob_matches(pattern.casefold(), whole.casefold())


@lru_cache(maxsize=8_192)
def may_name(pattern: str, name: str, source: str) -> bool:
    """Whether a pattern names a skill, or one that somebody would take it for; for what is denied or reserved.

    The plain name is never taken for the one that imitates it: to deny the one leaves the other alone.

    >>> may_name("data-*", "d\\u0430ta-handling", "acme"), may_name("d\\u0430ta", "data", "acme")
    (True, False)
    """
    if is_plain(name):
        return names_skill(pattern, name, source)
    return any(names_skill(one, other, source) for one in readings(pattern) for other in readings(name))


def ends_of(pattern: str) -> tuple[str, str]:
    """The beginning and the end of each skill that a pattern names, in lower case.

    >>> ends_of("Crypto-*@acme"), ends_of("*")
    (('crypto-', '@acme'), ('', ''))
    """
    pieces = pattern.casefold().split("*")
    return pieces[0], pieces[-1]
