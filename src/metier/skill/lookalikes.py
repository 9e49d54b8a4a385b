"""Names that look like others: one with a letter of another script is taken for the plain one by whoever sees it."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import islice, product

_MOST = 64
"""Readings of one name that are looked at."""


@lru_cache(maxsize=1_024)
def readings(name: str) -> tuple[str, ...]:
    """All that a name may be read as, itself first; nothing else for one of plain letters.

    >>> readings("data"), readings("d\\u0430ta")[1:]
    (('data',), ('data',))
    """
    if name.isascii():
        return (name,)
    # What a letter looks like comes before the letter, so that the most likely readings are among the first.
    options = [(letter,) if letter.isascii() else (*_alike(letter), letter) for letter in name]
    found = ("".join(letters) for letters in islice(product(*options), _MOST))
    return tuple(dict.fromkeys((name, *found)))


def is_taken_for(name: str, other: str) -> bool:
    """Whether a name is another one, or would be taken for it by whoever sees it; upper and lower case are the same.

    The plain name is never taken for the one that imitates it.

    >>> is_taken_for("d\\u0430ta", "data"), is_taken_for("data", "d\\u0430ta")
    (True, False)
    """
    if name.isascii():
        return name.casefold() == other.casefold()
    return not {one.casefold() for one in readings(name)}.isdisjoint(one.casefold() for one in readings(other))


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
def _alike(letter: str) -> tuple[str, ...]:
    """The plain letters that another one is taken for: of its script, or without its marks."""
    from confusable_homoglyphs import confusables

    found = [
        one["c"].casefold()
        for known in confusables.is_confusable(letter, greedy=True, preferred_aliases=[]) or ()
        for one in known["homoglyphs"]
    ]
    bare = "".join(one for one in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(one)).casefold()
    if bare != letter:
        found += [bare] if bare.isascii() else [one for part in bare for one in _alike(part)]
    return tuple(dict.fromkeys(one for one in found if one.isascii() and one.isalnum()))
