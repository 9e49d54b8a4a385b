"""The collision map of a library: skills that come up for one another's prompts.

For each skill the prompts that its author would expect are searched: those of its suite, else its name, what its
description says sentence by sentence, and its triggers. Another skill collides with it on a prompt for which it scores
nearly as much. A skill is warned of when prompts of its own suite bring up another first, or, where it has no suite,
when its name weighs little: words that many skills say, and that it hardly says itself, do not lead to it.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier.errors import MetierError
from metier.find.finder import Finder
from metier.find.tokenizer import stems
from metier.proof.suite_reader import read_suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier import Entry, Library
    from metier.find.results import Result

NEAR = 0.7
"""The least share of a skill's score on its own prompt with which another one collides."""
OFTEN = 0.5
"""The share of prompts from which on another skill is one to tell it from, whatever its name."""
LIGHT = 5.0
"""The weight below which a name is light: as much as so many words that no other skill has.

Chosen on one half of the skills of a collection with real queries, and measured on the other: `benchmarks/routing.py`.
"""
_MOST_PROMPTS, _ALL_PROMPTS = 12, 8_000
"""The most prompts of a skill, and about the most of a whole map: the larger a library, the fewer for each skill."""
_NEIGHBOURS, _WORDS = 10, 5
_SENTENCE = pattern(r"(?<=[.!?])\s+|[\n;\u3002\uff1b\uff01\uff1f\u2022]+")
_MAX_DESCRIPTION = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two skills of which the second comes up for prompts of the first."""

    skill: str
    other: str
    share: float
    """The share of the prompts of the first on which the second scores nearly as much, or more."""
    above: float
    """The share on which it scores more."""
    common: tuple[str, ...]
    """The words that bring up both, the most telling first."""
    apart: tuple[str, ...]
    """The words that bring up only the first: a prompt without them does not tell the two apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCollisions:
    """The collisions of one skill with all others."""

    skill: str
    prompts: int
    from_suite: bool
    """Whether the prompts are those of its suite, and not derived from its description."""
    first: float
    """The share of the prompts for which it comes first."""
    weight: float
    """The score of its name, counted in words that no other skill has."""
    warning: str
    """Why prompts for it are likely to bring up another; empty when they are not."""
    collisions: tuple[Collision, ...]
    """The others that come up for its prompts, the most frequent first."""

    @property
    def is_confusable(self) -> bool:
        """Whether there is a warning, or another skill that comes up for half of its prompts."""
        return bool(self.warning) or any(one.share >= OFTEN for one in self.collisions)


def collision_map(
    library: Library, entries: Sequence[Entry], progress: Callable[[int, int], None] | None = None
) -> Iterator[SkillCollisions]:
    """The collisions of each of these skills with all of the library, one after the other; of none for people only."""
    finder = Finder(library.index)
    most = max(1, min(_MOST_PROMPTS, _ALL_PROMPTS // max(1, len(entries))))
    unique = math.log(1 + (len(library) + 0.5) / 1.5)
    for number, entry in enumerate(entries):
        if progress is not None:
            progress(number, len(entries))
        if not entry.is_hidden_from_models and entry.name in library:
            yield _skill_collisions(finder, entry, most, unique)


def _skill_collisions(finder: Finder, entry: Entry, most: int, unique: float) -> SkillCollisions:
    own = _own_prompts(entry)[:_MOST_PROMPTS]
    name, *derived = derived_prompts(entry)
    by_name = finder.explain(name, _NEIGHBOURS)
    searched = [finder.explain(prompt, _NEIGHBOURS) for prompt in own or derived[: most - 1]]
    if not own:
        searched.append(by_name)
    weight = sum(one.points for one in by_name if one.name == entry.name) / unique
    best = (max(found, key=lambda one: one.points, default=None) for found in searched)
    first = sum(one is not None and one.name == entry.name for one in best) / len(searched)
    collisions = tuple(_collisions(entry.name, searched))
    return SkillCollisions(
        skill=entry.name,
        prompts=len(searched),
        from_suite=bool(own),
        first=round(first, 3),
        weight=round(weight, 2),
        warning=_warning(first, weight, collisions, from_suite=bool(own)),
        collisions=collisions,
    )


def _own_prompts(entry: Entry) -> list[str]:
    """The prompts of the suite of a skill, none where its files cannot be read: then it is judged by what it says."""
    try:
        return [case.prompt for case in read_suite(entry.package).routing if case.should_trigger]
    except MetierError:
        return []


def _warning(first: float, weight: float, collisions: Sequence[Collision], *, from_suite: bool) -> str:
    if from_suite:
        return f"Another skill comes first for {1 - first:.0%} of the prompts of its suite." if first < 1 else ""
    return "The words of its name lead to other skills as well." if collisions and weight < LIGHT else ""


def derived_prompts(entry: Entry) -> list[str]:
    """The prompts that the author of a skill would expect: its name, and then what it says of itself."""
    skill = entry.skill
    sentences = itertools.chain.from_iterable(
        _SENTENCE.split((text or "")[:_MAX_DESCRIPTION]) for text in (skill.description, skill.when_to_use)
    )
    said = [skill.description[:_MAX_DESCRIPTION], *skill.triggers, *(one.strip(" -*") for one in sentences)]
    return [" ".join(entry.name.split("-")), *(prompt for prompt in dict.fromkeys(said) if len(stems(prompt)) > 1)]


def _collisions(name: str, searched: Sequence[Sequence[Result]]) -> list[Collision]:
    met: dict[str, list[tuple[Result | None, Result]]] = {}
    for found in searched:
        own = next((one for one in found if one.name == name), None)
        for other in found:
            if other is not own and (own is None or other.points >= NEAR * own.points):
                met.setdefault(other.name, []).append((own, other))
    collisions = [_collision(name, other, pairs, len(searched)) for other, pairs in met.items()]
    return sorted(collisions, key=lambda one: (-one.share, -one.above, one.other))[:_NEIGHBOURS]


def _collision(name: str, other: str, pairs: Sequence[tuple[Result | None, Result]], prompts: int) -> Collision:
    common: dict[str, float] = {}
    apart: dict[str, float] = {}
    for mine, theirs in pairs:
        there = {word.word: word.score for word in theirs.words if word.field != "order"}
        for word in mine.words if mine is not None else ():
            if word.field == "order":
                continue
            into = common if word.word in there else apart
            into[word.word] = into.get(word.word, 0.0) + min(word.score, there.get(word.word, word.score))
    return Collision(
        skill=name,
        other=other,
        share=round(len(pairs) / prompts, 3),
        above=round(sum(mine is None or theirs.points > mine.points for mine, theirs in pairs) / prompts, 3),
        common=_most_telling(common),
        apart=_most_telling(apart),
    )


def _most_telling(words: dict[str, float]) -> tuple[str, ...]:
    return tuple(sorted(words, key=lambda word: (-words[word], word))[:_WORDS])
