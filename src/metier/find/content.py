"""A skill taken apart into words, and how the index keeps them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.database import checked_count
from metier.find.letters import letters_in
from metier.find.weights import (
    ABOUT_LENGTH_MATTERS,
    BODY_LENGTH_MATTERS,
    NAME_WEIGHT,
    length_norm,
    level_of,
    word_count,
)
from metier.find.words import split_stems, stems

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 64 * 1024
"""How much of a body is indexed; 99 in 100 are shorter than half of it."""
MAX_ABOUT = 8 * 1024
"""How much of what a skill says of itself is; descriptions may have a thousand letters."""
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


class Stems(NamedTuple):
    """The stems of a skill's name, of what else it says of itself, and of its body, in order."""

    name: list[str]
    about: list[str]
    body: list[str]


def stems_of(text: SkillText) -> Stems:
    """The stems of a skill."""
    return Stems(split_stems(text.name), split_stems(text.about[:MAX_ABOUT]), stems(text.body[:MAX_TEXT]))


class Words(NamedTuple):
    """The stems of a skill as the index keeps them: one letter for each."""

    name: str
    about: str
    body: str
    about_length: int
    """How long what a skill says of itself is, where the name counts more than once."""
    length: int
    """How many words the body has."""

    @classmethod
    def spelled(cls, skill: Stems, letters: Mapping[str, str]) -> Words:
        """Stems written with their letters."""
        spell = letters.__getitem__
        return cls(
            "".join(map(spell, skill.name)),
            "".join(map(spell, skill.about)),
            "".join(map(spell, skill.body)),
            NAME_WEIGHT * word_count(skill.name) + word_count(skill.about),
            word_count(skill.body),
        )

    @classmethod
    def unpacked(cls, name: bytes, about: bytes, body: bytes, about_length: int, length: int) -> Words:
        """Words as they lie in the file."""
        return cls(name.decode(), about.decode(), body.decode(), checked_count(about_length), checked_count(length))

    def packed(self) -> tuple[bytes, bytes, bytes, int, int]:
        """Words as they lie in the file."""
        return self.name.encode(), self.about.encode(), self.body.encode(), self.about_length, self.length

    def counted(self) -> tuple[Counter[str], Counter[str]]:
        """How often each letter stands in what it says of itself, and in the body."""
        about = Counter(letters_in(self.about))
        for letter in letters_in(self.name):
            about[letter] += NAME_WEIGHT
        return about, Counter(letters_in(self.body))


def postings(words: Words, about: Mapping[str, int], body: Mapping[str, int]) -> set[str]:
    """The letters of a skill, each marked with its field and how much the skill has of it."""
    norm = length_norm(words.about_length / _USUAL_ABOUT, ABOUT_LENGTH_MATTERS)
    marks = {count: level_of(count, norm).about for count in set(about.values())}
    marked = {letter + marks[count] for letter, count in about.items()}
    norm = length_norm(words.length / _USUAL_BODY, BODY_LENGTH_MATTERS)
    marks = {count: level_of(count, norm).body for count in set(body.values())}
    marked.update([letter + marks[count] for letter, count in body.items()])
    return marked
