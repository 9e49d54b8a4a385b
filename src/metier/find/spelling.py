"""Typing mistakes: words that one slip of a finger makes of one another share a variant with a letter left out."""

from __future__ import annotations

_SHORTEST, _LONGEST = 4, 16


def variants(word: str) -> set[str]:
    """The word and what is left of it without any one of its letters; nothing for a word too short to guess at.

    >>> sorted(variants("from") & variants("form"))
    ['fom', 'frm']
    """
    if not _SHORTEST <= len(word) <= _LONGEST:
        return set()
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def is_one_slip(a: str, b: str) -> bool:
    """Whether two words differ by one letter more, less or other, or by two neighbours changing places."""
    if a == b or abs(len(a) - len(b)) > 1:
        return a == b
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest, other = a[start:], b[start:]
    if len(rest) == len(other):
        return rest[1:] == other[1:] or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    longer, shorter = (rest, other) if len(rest) > len(other) else (other, rest)
    return longer[1:] == shorter
