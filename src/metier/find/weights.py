"""What a word is worth: BM25, its constants, and the levels it is rounded to where skills are only listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_WEIGHT = 3
"""A word of the name counts like as many in the description."""
ABOUT_LENGTH_MATTERS, BODY_LENGTH_MATTERS = 0.3, 0.75
K1 = 1.2


class Level(NamedTuple):
    """How much a skill has of a word. Each word is posted once for each field, with the mark of its level."""

    about: str
    body: str
    at_least: float
    weight: float


LEVELS = (
    Level("1", "4", 1.4, 1.7),
    Level("2", "5", 0.9, 1.1),
    Level("3", "6", 0.0, 0.6),
)


def length_norm(length: float, matters: float) -> float:
    """How much a word must occur to be half of what it can be worth; more in a text longer than the mean."""
    return K1 * (1 - matters + matters * length)


def saturated(count: int, norm: float) -> float:
    """What a count is worth: each further occurrence less than the one before (BM25)."""
    return count * (K1 + 1) / (count + norm)


def level_of(count: int, norm: float) -> Level:
    """How much a skill has of a word."""
    much = saturated(count, norm)
    return next(level for level in LEVELS if much >= level.at_least)


def word_count(stems: Sequence[str]) -> int:
    """How many words there are, where a script without blanks gives two stems for what is about one word."""
    plain = sum(map(str.isascii, stems))
    return plain + (len(stems) - plain + 1) // 2
