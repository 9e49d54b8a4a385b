"""Names that look like others: one with a letter of another script, or `1` for `l`, is taken for the plain one.

The table of letters is that of Unicode's list of confusables, with what Latin letters are called (`ƒ` is an F with a
hook, `ᴍ` a small capital M). Everything that compares names by their look asks here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_LATIN = (
    r".*\bLATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL )?"
    r"(?:BARRED |BLACKLETTER |DOTLESS |INSULAR |SCRIPT |STRETCHED )?([A-Z])(?: WITH .*)?"
)
_PALOCHKA = "\u04cf"
"""A letter that the list takes for an `i` without its dot, and that is drawn like an `l`."""


@lru_cache(maxsize=4_096)
def readings(name: str) -> tuple[str, ...]:
    """All that a name may be read as, itself first: in plain letters, and with letters for the digits in it.

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
