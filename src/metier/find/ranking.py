"""How well a skill fits a query: what it says of itself and its body, scored apart and added.

Both are scored by BM25. For the best of them, pairs of words that stand together in the query and in the body count
extra, and so does a name of which much was said. The weights were chosen on development queries that skill authors
wrote; see `benchmarks/retrieval.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metier.find.weights import ABOUT_LENGTH_MATTERS, BODY_LENGTH_MATTERS, NAME_WEIGHT, length_norm, saturated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.find.content import Words
    from metier.find.index import Totals
    from metier.find.query import Query

PAIR_LENGTH_MATTERS = 0.5
PAIR_WEIGHT, NAME_COVERED_WEIGHT, PHRASE_WEIGHT = 1.0, 0.5, 1.0


MOST_PAIRS = 64
"""How many pairs of a query are looked for: each costs a walk through every body in question."""
MOST_SAID = 6
"""How often a word of what a skill says of itself counts at most."""


class Rarity:
    """How telling each word of a query is, among the skills that the caller may see."""

    def __init__(self, counts: Mapping[str, tuple[int, int]], totals: Totals) -> None:
        self.about = {stem: _idf(count[0], totals.skills) for stem, count in counts.items() if count[0]}
        self.body = {stem: _idf(count[1], totals.skills) for stem, count in counts.items() if count[1]}
        self.unknown = _idf(0, totals.skills)
        self.about_mean = max(1.0, totals.about / max(1, totals.skills))
        self.body_mean = max(1.0, totals.body / max(1, totals.skills))


def _idf(count: int, of: int) -> float:
    return math.log(1 + max(0.0, of - count + 0.5) / (count + 0.5))


@dataclass(slots=True)
class Fit:
    """The score of one skill, and the stems of the query that gave it."""

    score: float = 0.0
    length: int = 0
    in_name: set[str] = field(default_factory=set)
    in_about: set[str] = field(default_factory=set)
    in_body: set[str] = field(default_factory=set)
    phrases: list[tuple[str, ...]] = field(default_factory=list)
    nearness: float = 0.0


class Ranking:
    """Scores skills for one query."""

    def __init__(self, query: Query, rarity: Rarity) -> None:
        self._query = query
        self._rarity = rarity
        self._asked = set(query.stems)
        self._asked_of_body = self._asked - query.parts
        telling = rarity.body.get
        self._pairs = sorted(query.pairs, key=lambda pair: -telling(pair[0], 0.0) - telling(pair[1], 0.0))[:MOST_PAIRS]
        self._mass = math.sqrt(sum(rarity.body.get(stem, rarity.unknown) for stem in self._asked))

    @property
    def needs_order(self) -> bool:
        """Whether a skill is only found by the order of its words."""
        return self._query.only_phrases

    def by_words(self, words: Words) -> Fit:
        """How well the words of a skill fit, in whatever order."""
        rarity, asked = self._rarity, self._asked
        fit = Fit(length=words.length)
        counts: dict[str, int] = {}
        for stem in words.name:
            if stem in asked:
                counts[stem] = counts.get(stem, 0) + NAME_WEIGHT
        fit.in_name = set(counts)
        for stem in words.about:
            if stem in asked:
                counts[stem] = counts.get(stem, 0) + 1
        fit.in_about = counts.keys() - fit.in_name
        norm = length_norm(words.about_length / rarity.about_mean, ABOUT_LENGTH_MATTERS)
        score = sum(
            rarity.about.get(stem, 0.0) * saturated(min(count, MOST_SAID), norm) for stem, count in counts.items()
        )
        norm = length_norm(words.length / rarity.body_mean, BODY_LENGTH_MATTERS)
        for times, group in enumerate(words.tally, 1):
            found = self._asked_of_body.intersection(group.split())
            if found:
                score += saturated(times, norm) * sum(rarity.body.get(stem, 0.0) for stem in found)
                fit.in_body |= found
        if fit.in_name:
            every = {stem: rarity.body.get(stem, rarity.unknown) for stem in set(words.name)}
            covered = sum(every[stem] for stem in fit.in_name) / (sum(every.values()) or 1.0)
            score += NAME_COVERED_WEIGHT * covered * self._mass
        fit.score = score
        return fit

    def by_order(self, fits: Iterable[tuple[Fit, Words, str]]) -> None:
        """Add what the order of words says: pairs and phrases of the query that stand together in the body.

        Pairs are weighed by how many of these skills have them: how common a pair is in the whole library is not
        known, and it is these that must be told apart.
        """
        fits = list(fits)
        pairs = [self._pairs_in(fit, body) for fit, _, body in fits]
        spread: dict[str, int] = {}
        for found in pairs:
            for pair in found:
                spread[pair] = spread.get(pair, 0) + 1
        worth = {pair: _idf(count, len(fits)) for pair, count in spread.items()}
        for (fit, words, body), found in zip(fits, pairs, strict=True):
            norm = length_norm(fit.length / self._rarity.body_mean, PAIR_LENGTH_MATTERS)
            fit.score += PAIR_WEIGHT * sum(worth[pair] * saturated(count, norm) for pair, count in found.items())
            for phrase in self._query.phrases:
                if _has(words, body, phrase):
                    fit.phrases.append(phrase)
                    rarity = self._rarity
                    fit.score += PHRASE_WEIGHT * sum(rarity.body.get(stem, rarity.unknown) for stem in phrase)

    def _pairs_in(self, fit: Fit, body: str) -> dict[str, int]:
        found = {}
        for one, other in self._pairs:
            if one in fit.in_body and other in fit.in_body:
                pair = f" {one}  {other} "
                count = body.count(pair)
                if count:
                    found[pair] = count
        return found


def _has(words: Words, body: str, phrase: tuple[str, ...]) -> bool:
    """Whether the words of a phrase stand together somewhere."""
    wanted = f" {'  '.join(phrase)} "
    return wanted in body or wanted in f" {'  '.join(words.name)} " or wanted in f" {'  '.join(words.about)} "
