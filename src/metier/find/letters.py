"""Stems as letters: the index numbers every stem, and writes its number as one letter of a text.

So the words of a skill are a short text, how often it has a stem is how often the text has a letter, and two stems that
stand together are two letters that do. Nothing is taken apart to be ranked.
"""

from __future__ import annotations

import re

from metier.find.database import Damaged

# Frequent stems have low numbers, so their letters are two bytes long. Surrogates are no letters.
_FIRST, _GAP, _GAP_SIZE = 0x100, 0xD800, 0x800
_LEAD, _TRAIL = 0xF0000, 0x100000
_PLANE = 0x10000
_SINGLE = _LEAD - _GAP_SIZE - _FIRST
"""How many stems have one letter, nearly a million. The rest have two, of kinds that nothing else is written with."""
_LETTER = re.compile(f"[{chr(_LEAD)}-{chr(_TRAIL - 1)}]?[^{chr(_LEAD)}-{chr(_TRAIL - 1)}]", re.DOTALL)

MOST = _SINGLE + _PLANE * _PLANE
"""How many stems can be told apart."""


def letter_of(number: int) -> str:
    """The letter of the stem with a number.

    >>> letter_of(0), letter_of(77)
    ('Ā', 'ō')
    """
    if not 0 <= number < MOST:
        raise Damaged(f"a stem has the number {number}")
    if number < _SINGLE:
        point = number + _FIRST
        return chr(point if point < _GAP else point + _GAP_SIZE)
    lead, trail = divmod(number - _SINGLE, _PLANE)
    return chr(_LEAD + lead) + chr(_TRAIL + trail)


def checked_letter(text: object) -> str:
    """A text that can be one letter; raises `Damaged` for anything else."""
    if not isinstance(text, str) or not 1 <= len(text) <= 2 or text[0] < chr(_FIRST):
        raise Damaged(f"{text!r} where a letter should be")
    return text


def letters_in(text: str) -> list[str]:
    """The letters of a text, in order."""
    return list(text) if not text or max(text) < chr(_LEAD) else _LETTER.findall(text)
