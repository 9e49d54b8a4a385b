"""Ranking: what a skill says of itself and its body, scored apart by BM25 and added.

Both are scored by BM25. Pairs of words that stand together in the query and in the body count extra, and so does a name
of which much was said. The weights were chosen on development queries that skill authors
wrote; see `benchmarks/retrieval.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass, field
from metier.find.lexicon import letters_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.find.indexed_text import EncodedStems
    from metier.find.query import Query
    from metier.find.search_index import Totals


NAME_WEIGHT = 3
"""A word of the name counts like as many in the description."""
ABOUT_LENGTH_MATTERS, BODY_LENGTH_MATTERS = 0.3, 0.75
K1 = 1.2


class Level(NamedTuple):
    """The share that a skill has of a word. For each word and field it stands in one list: that of its level."""

    at_least: float
    weight: float


LEVELS = (Level(1.4, 1.7), Level(0.9, 1.1), Level(0.0, 0.6))


def length_norm(length: float, matters: float) -> float:
    """The occurrences at which a word is worth half of what it can be; more in a text longer than the mean."""
    return K1 * (1 - matters + matters * length)


def saturated(count: int, norm: float) -> float:
    """The worth of a count: each further occurrence less than the one before (BM25)."""
    return count * (K1 + 1) / (count + norm)


def levels_of(counts: Iterable[int], norm: float) -> dict[int, int]:
    """The number of the level of each count."""
    high, middle, _ = (level.at_least for level in LEVELS)
    worth = {count: saturated(count, norm) for count in counts}
    return {count: 0 if much >= high else 1 if much >= middle else 2 for count, much in worth.items()}


def word_count(stems: Sequence[str]) -> int:
    """The number of words of these stems."""
    plain = sum(map(str.isascii, stems))
    return counted_words(plain, len(stems) - plain)


def counted_words(plain: int, unspaced: int) -> int:
    """The number of words, where a script without blanks gives two stems for what is about one word."""
    return plain + (unspaced + 1) // 2


PAIR_LENGTH_MATTERS = 0.5
PAIR_WEIGHT, NAME_COVERED_WEIGHT, PHRASE_WEIGHT = 1.0, 0.5, 1.0


MOST_PAIRS = 64
"""The most pairs of a query that are looked for: each costs a walk through every body in question."""
MOST_SAID, MOST_COUNTED = 6, 8
"""The most occurrences that count of a word of what a skill says of itself, and of a word of its body."""


class Rarity:
    """The rarity of each word of a query among the skills that the caller may see."""

    def __init__(self, counts: Mapping[str, tuple[int, int]], totals: Totals) -> None:
        self.about = {stem: _idf(count[0], totals.skills) for stem, count in counts.items() if count[0]}
        self.body = {stem: _idf(count[1], totals.skills) for stem, count in counts.items() if count[1]}
        self.unknown = _idf(0, totals.skills)
        self.about_mean = max(1.0, totals.about / max(1, totals.skills))
        self.body_mean = max(1.0, totals.body / max(1, totals.skills))


def _idf(count: int, of: int) -> float:
    # A skill may be taken out after its words were counted: a word that more have than there are is worth something.
    return math.log(1 + (max(0, of - count) + 0.5) / (count + 0.5))


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
    in_order: Sequence[WordScore] = ()
    """The part of pairs of words in the score, where it is to be explained."""


MatchedField: TypeAlias = Literal["name", "description", "body", "order"]


class WordScore(NamedTuple):
    """The score that a word of a query gave a skill, or a pair of words that stand together in its body."""

    word: str
    """As the query has it."""
    field: MatchedField
    """The first field that has it: also other fields of the frontmatter count as the description."""
    score: float


class Asked(NamedTuple):
    """A query in the letters of one index; what it does not know is left out."""

    about: list[tuple[str, str, float]]
    """Stem and letter, and what they are worth in what a skill says of itself."""
    body: list[tuple[str, str, float]]
    """The same in a body."""
    pairs: list[tuple[tuple[str, str], str]]
    phrases: list[tuple[tuple[str, ...], str]]


class Ranking:
    """Scores skills for one query."""

    def __init__(self, query: Query, rarity: Rarity) -> None:
        self._query = query
        self._rarity = rarity
        telling = rarity.body.get
        self._pairs = sorted(query.pairs, key=lambda pair: -telling(pair[0], 0.0) - telling(pair[1], 0.0))[:MOST_PAIRS]
        self._mass = math.sqrt(sum(telling(stem, rarity.unknown) for stem in set(query.stems)))

    def asked(self, letters: Mapping[str, str]) -> Asked:
        """The query in the letters of an index."""
        rarity, known = self._rarity, [stem for stem in self._query.stems if stem in letters]
        return Asked(
            about=[(stem, letters[stem], worth) for stem in known if (worth := rarity.about.get(stem))],
            body=[
                (stem, letters[stem], worth)
                for stem in known
                if stem not in self._query.parts and (worth := rarity.body.get(stem))
            ],
            pairs=[(pair, _spelled(pair, letters)) for pair in self._pairs if letters.keys() >= set(pair)],
            phrases=[
                (phrase, _spelled(phrase, letters)) for phrase in self._query.phrases if letters.keys() >= set(phrase)
            ],
        )

    def by_words(self, skill: EncodedStems, asked: Asked) -> Fit:
        """The fit of a skill by its words, in whatever order."""
        rarity = self._rarity
        fit = Fit(length=skill.length)
        of_about = length_norm(skill.about_length / rarity.about_mean, ABOUT_LENGTH_MATTERS)
        of_body = length_norm(skill.length / rarity.body_mean, BODY_LENGTH_MATTERS)
        score = 0.0
        named: dict[str, float] = {}
        said, in_name = skill.name + skill.about, skill.name.count
        most = K1 + 1  # as in `saturated`, which would be called thousands of times for a query
        for stem, letter, worth in asked.about:
            if letter in said:
                times = in_name(letter)
                if times:
                    named[letter] = rarity.body.get(stem, rarity.unknown)
                    fit.in_name.add(stem)
                else:
                    fit.in_about.add(stem)
                count = min(said.count(letter) + (NAME_WEIGHT - 1) * times, MOST_SAID)
                score += worth * (count * most / (count + of_about))
        text, in_body = skill.body, fit.in_body
        # Most words of a query are in no body, and looking for a letter is quicker than counting it.
        for stem, letter, worth in asked.body:
            if letter in text:
                count = text.count(letter)
                if count > MOST_COUNTED:
                    count = MOST_COUNTED
                score += worth * (count * most / (count + of_body))
                in_body.add(stem)
        if named:
            every = sum(named.get(letter, rarity.unknown) for letter in set(letters_in(skill.name)))
            score += NAME_COVERED_WEIGHT * sum(named.values()) / (every or 1.0) * self._mass
        fit.score = score
        return fit

    def words(self, skill: EncodedStems, asked: Asked, fit: Fit) -> list[WordScore]:
        """The score of a skill by its words, word for word; the words of its name share what that is more together."""
        found: list[WordScore] = []
        for stem in self._query.stems:
            about, body = ([each for each in one if each[0] == stem] for one in (asked.about, asked.body))
            alone = self.by_words(skill, Asked(about, body, [], [])) if about or body else Fit()
            if alone.score:
                field: MatchedField = "name" if alone.in_name else "description" if alone.in_about else "body"
                found.append(WordScore(self._written(stem), field, alone.score))
        found += fit.in_order
        more = (fit.score - sum(word.score for word in found)) / max(1, len(fit.in_name))
        return [word._replace(score=word.score + more) if word.field == "name" else word for word in found]

    def by_order(self, fits: Sequence[tuple[Fit, EncodedStems, Asked]], *, explain: bool = False) -> None:
        """Add what the order of words says: pairs and phrases of the query that stand together in the body.

        Pairs are weighed by how many of these skills have them: how common a pair is in the whole library is not
        known, and it is these that must be told apart.
        """
        pairs = [_pairs_in(*each) for each in fits]
        spread: dict[tuple[str, str], int] = {}
        for found in pairs:
            for pair in found:
                spread[pair] = spread.get(pair, 0) + 1
        worth = {pair: _idf(count, len(fits)) for pair, count in spread.items()}
        rarity = self._rarity
        for (fit, skill, asked), found in zip(fits, pairs, strict=True):
            norm = length_norm(fit.length / rarity.body_mean, PAIR_LENGTH_MATTERS)
            of_pairs = {pair: PAIR_WEIGHT * worth[pair] * saturated(count, norm) for pair, count in found.items()}
            fit.score += sum(of_pairs.values())
            if explain:
                fit.in_order = [WordScore(self._written(*pair), "order", score) for pair, score in of_pairs.items()]
            for phrase, letters in asked.phrases:
                if letters in skill.body or letters in skill.name or letters in skill.about:
                    fit.phrases.append(phrase)
                    fit.score += PHRASE_WEIGHT * sum(rarity.body.get(stem, rarity.unknown) for stem in phrase)

    def _written(self, *stems: str) -> str:
        return " ".join(self._query.written.get(stem, stem) for stem in stems)


def _spelled(stems: Iterable[str], letters: Mapping[str, str]) -> str:
    return "".join(letters[stem] for stem in stems)


def _pairs_in(fit: Fit, skill: EncodedStems, asked: Asked) -> dict[tuple[str, str], int]:
    """The counts of pairs of the query in a body."""
    here = fit.in_body
    return {
        pair: count
        for pair, letters in asked.pairs
        if pair[0] in here and pair[1] in here and (count := skill.body.count(letters))
    }
