"""Candidates of a search: skills that share the rarest words of the query, found without looking at any of them.

Common words are left to the ranking: listing every skill that has them would take longer than everything else, and
says little. So the cost of a search is bounded whatever the number of skills.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from metier.find.postings import FIELDS
from metier.find.ranking import LEVELS
from metier.find.vectors import NEAREST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from metier.find.postings import Field, Postings
    from metier.find.query import Query
    from metier.find.ranking import Rarity
    from metier.find.search_index import IndexedSkill, SearchIndex
    from metier.find.vectors import Nearness

POSTINGS = 5_000
"""The most occurrences that are looked at in each field, unless a single word has more."""
BEST_OF_EACH = 40
"""The most candidates by what skills say of themselves, and as many by their bodies."""
BEST_OF_BOTH = 150
_FEW_WORDS, _LEAST = 5, 0.35
"""The words of a query up to which all of that is done, and the least share of it that is done for a longer one.

Ranking costs candidates times words, and many words tell skills apart with fewer candidates.
"""
_SHARE = (0.15, 0.3, 0.55)
"""About how many of the skills with a word have it at each level."""
MOST_CHECKED = 2_000
"""The most skills with all words of a phrase that are searched for the phrase itself."""


class SearchedPlace:
    """One place in one search."""

    def __init__(self, number: int, index: SearchIndex, scopes: set[int]) -> None:
        self.number = number
        self.index = index
        self.scopes = scopes
        """The scopes that the caller is in."""
        self.letters: Mapping[str, str] = {}
        """The letter of each stem of the query that the index knows."""
        self.postings: Postings
        """The skills in those scopes that have them."""

    def look_up(self, stems: Sequence[str]) -> None:
        """Look up the stems of a query."""
        self.letters = self.index.letters(stems)
        self.postings = self.index.postings(self.letters, self.scopes)


def candidates(
    query: Query,
    places: Sequence[SearchedPlace],
    counts: Mapping[str, tuple[int, int]],
    rarity: Rarity,
    admit: Callable[[int, IndexedSkill], bool],
    near: Nearness | None,
    k: int,
) -> dict[int, dict[int, IndexedSkill]]:
    """The skills worth ranking that the caller may see, by the number of their place."""
    allowed = {place.number: _tagged(place.index, query.tags) for place in places} if query.tags else None
    found: dict[int, dict[int, IndexedSkill]] = {place.number: {} for place in places}
    rows: dict[int, dict[int, IndexedSkill]] = {place.number: {} for place in places}
    refused: dict[int, set[int]] = {place.number: set() for place in places}

    def take(ids_of: Callable[[SearchedPlace], Iterable[int]], most: int) -> None:
        """The first `most` of each place that are admitted; ids come with the likeliest first."""
        for place in places:
            number, left = place.number, most
            mine, known, hidden = found[number], rows[number], refused[number]
            ids = (id_ for id_ in ids_of(place) if id_ not in hidden and (allowed is None or id_ in allowed[number]))
            for row in place.index.rows(ids, known):
                id_ = row.id
                if id_ not in mine:
                    if not admit(number, row):
                        # Nothing is kept of it: words of thousands that are not shown would fill the memory.
                        hidden.add(id_)
                        del known[id_]
                        continue
                    mine[id_] = row
                left -= 1
                if not left:
                    break

    if near is not None:
        take(lambda place: near.nearest(place.number), NEAREST)
    if query.names:
        take(lambda place: place.index.named(query.names), len(query.names) * 4)
    if query.only_phrases:
        every = tuple(dict.fromkeys(stem for phrase in query.phrases for stem in phrase))
        take(lambda place: _with_all(place.postings, every), MOST_CHECKED)
    elif query.stems:
        of_about = {stem: count[0] for stem, count in counts.items()}
        share = min(1.0, max(_LEAST, _FEW_WORDS / len(query.stems)))
        postings = round(POSTINGS * share)
        about = _likely(query, places, "about", of_about, rarity.about, allowed, postings)
        of_body = {stem: count[1] for stem, count in counts.items() if stem not in query.parts}
        body = _likely(query, places, "body", of_body, rarity.body, allowed, postings)
        most = max(round(BEST_OF_BOTH * share), k)

        def take_best(likely: Mapping[int, Mapping[int, float]]) -> dict[int, set[int]]:
            """Take the best by one field; the likeliest by it, as the order of thousands is found out once."""
            orders = {number: itertools.tee(_best(scores, 2 * most)) for number, scores in likely.items()}
            take(lambda place: orders[place.number][0], round(BEST_OF_EACH * share))
            return {number: set(itertools.islice(order, 2 * most)) for number, (_, order) in orders.items()}

        by_about, by_body = take_best(about), take_best(body)
        wide = {number: by_about[number] | by_body[number] for number in by_about}
        take(lambda place: _best(_sum(about[place.number], body[place.number], wide[place.number]), most), most)
    elif allowed is not None:
        take(lambda place: sorted(allowed[place.number]), MOST_CHECKED)
    elif query.layers:
        take(lambda place: place.index.ids(place.scopes), MOST_CHECKED)
    return found


def _tagged(index: SearchIndex, tags: Sequence[str]) -> set[int]:
    found = index.tagged(tags[0])
    for tag in tags[1:]:
        if not found:
            break
        found &= index.tagged(tag)
    return found


def _with_all(postings: Postings, stems: Sequence[str]) -> list[int]:
    if any(stem not in postings.counts for stem in stems):
        return []
    having = (
        {id_ for field in FIELDS for level in range(len(LEVELS)) for id_ in postings.having(field, stem, level)}
        for stem in stems
    )
    return sorted(set.intersection(*having))


def _likely(
    query: Query,
    places: Sequence[SearchedPlace],
    field: Field,
    counts: Mapping[str, int],
    rarity: Mapping[str, float],
    allowed: Mapping[int, Set[int]] | None,
    most: int,
) -> dict[int, dict[int, float]]:
    """A rough score of each skill, by the most telling words and the skills that have most of them.

    At most so many occurrences are looked at, unless the first list has more.
    """
    scores: dict[int, dict[int, float]] = {place.number: {} for place in places}
    left = most
    lists = sorted(
        (-rarity[stem] * level.weight, number, stem)
        for stem in query.stems
        if counts.get(stem)
        for number, level in enumerate(LEVELS)
    )
    for weight, level, stem in lists:
        if left < most and counts[stem] * _SHARE[level] > left:
            continue
        for place in places:
            if stem not in place.letters:
                continue
            ids = place.postings.having(field, stem, level)
            left -= len(ids)
            mine = scores[place.number]
            before = mine.get
            for id_ in ids:
                mine[id_] = before(id_, 0.0) - weight
    if allowed is None:
        return scores
    return {
        number: {id_: score for id_, score in mine.items() if id_ in allowed[number]} for number, mine in scores.items()
    }


def _sum(one: Mapping[int, float], other: Mapping[int, float], ids: Iterable[int]) -> dict[int, float]:
    return {id_: one.get(id_, 0.0) + other.get(id_, 0.0) for id_ in ids}


def _best(scores: Mapping[int, float], most: int) -> Iterable[int]:
    """The likeliest first, the same order for the same scores; the rest is sorted only when somebody asks for it."""
    if len(scores) > most * 2:
        # Sorting thousands of ids costs more than finding out that nearly all of them are not needed.
        enough = sorted(scores.values())[-most]
        yield from _in_order([id_ for id_, score in scores.items() if score >= enough], scores)
        yield from _in_order([id_ for id_, score in scores.items() if score < enough], scores)
    else:
        yield from _in_order(scores, scores)


def _in_order(ids: Iterable[int], scores: Mapping[int, float]) -> list[int]:
    # Twice by one key, as pairs are compared several times as slowly.
    return sorted(sorted(ids), key=scores.__getitem__, reverse=True)
