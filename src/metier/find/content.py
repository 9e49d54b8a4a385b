"""A skill taken apart into words, and how the index keeps them."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import NamedTuple

from metier.find.database import Damaged
from metier.find.weights import (
    ABOUT_LENGTH_MATTERS,
    BODY_LENGTH_MATTERS,
    NAME_WEIGHT,
    length_norm,
    level_of,
    word_count,
)
from metier.find.words import split_stems, stems

MAX_TEXT = 64 * 1024
"""How much of a body is indexed; 99 in 100 are shorter than half of it."""
MOST_COUNTED = 8
"""How often a word of a body counts at most; more often says no more."""
_USUAL_ABOUT, _USUAL_BODY = 60, 650
"""How many words there usually are; the true means are not known while they are being counted."""


class SkillText(NamedTuple):
    """What is indexed of a skill."""

    key: str
    stamp: str
    """Differs when the content does."""
    name: str
    about: str = ""
    """Its description, when to use it, tags and triggers."""
    body: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    """Who may see it, as text; "" for anyone. Words are counted apart for each, so that what is hidden counts not."""
    unlisted: bool = False
    """Whether it is not for models to find."""
    needs: str = ""
    """What it requires of the machine, as text."""


class Words(NamedTuple):
    """The stems of one skill, but for the order of its body."""

    name: list[str]
    about: list[str]
    tally: list[str]
    """The stems of the body that occur once, those that occur twice ..., each group in one text."""
    length: int
    """How many words the body has."""

    @property
    def about_length(self) -> int:
        """How long what a skill says of itself is."""
        return NAME_WEIGHT * word_count(self.name) + word_count(self.about)

    @property
    def every_about(self) -> set[str]:
        """Each stem of what it says of itself."""
        return {*self.name, *self.about}

    @property
    def every_body(self) -> set[str]:
        """Each stem of the body."""
        return {stem for group in self.tally for stem in group.split()}


def words_of(text: SkillText) -> tuple[Words, list[str]]:
    """The words of a skill, and those of its body in order."""
    body = stems(text.body[:MAX_TEXT])
    groups: list[list[str]] = [[] for _ in range(MOST_COUNTED)]
    for stem, count in Counter(body).items():
        groups[count - 1 if count < MOST_COUNTED else -1].append(stem)
    tally = [" ".join(group) for group in groups]
    return Words(split_stems(text.name), split_stems(text.about[:MAX_TEXT]), tally, word_count(body)), body


def postings(words: Words) -> list[str]:
    """The stems of a skill, each marked with its field and how much the skill has of it."""
    counts = Counter(words.about)
    for stem in words.name:
        counts[stem] += NAME_WEIGHT
    norm = length_norm(words.about_length / _USUAL_ABOUT, ABOUT_LENGTH_MATTERS)
    marked = [stem + level_of(count, norm).about for stem, count in counts.items()]
    norm = length_norm(words.length / _USUAL_BODY, BODY_LENGTH_MATTERS)
    for times, group in enumerate(words.tally, 1):
        mark = level_of(times, norm).body
        marked.extend([stem + mark for stem in group.split()])
    return marked


def deflated(text: str) -> bytes:
    """A text as the index keeps it when it is long."""
    return zlib.compress(text.encode(), 1)


def inflated(packed: bytes) -> str:
    """The text again; raises `Damaged` for anything else."""
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, ValueError, TypeError) as error:
        raise Damaged(str(error)) from None


def unpacked(about: str, tally: str, length: int) -> Words:
    """The words of a skill as the index keeps them."""
    try:
        name, rest = about.split("\n")
        return Words(name.split(), rest.split(), tally.split("\n"), int(length))
    except (ValueError, AttributeError, TypeError) as error:
        raise Damaged(str(error)) from None
