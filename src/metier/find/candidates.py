"""Candidates of a search: skills that share the rarest words of the query, found without looking at any of them.

Common words are left to the ranking: listing every skill that has them would take longer than everything else, and
says little. So the cost of a search is bounded whatever the number of skills.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from metier.find.index_database import IndexDamaged
from metier.find.ranking import LEVELS
from metier.find.vectors import NEAREST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from metier.find.query import Query
    from metier.find.ranking import Rarity
    from metier.find.search_index import Field, IndexedSkill, SearchIndex
    from metier.find.vectors import Nearness

POSTINGS = 5_000
"""The most occurrences that are looked at in each field, unless a single word has more."""
BEST_OF_EACH = 40
"""The most candidates by what skills say of themselves, and as many by their bodies."""
BEST_OF_BOTH = 150
_SHARE = (0.15, 0.3, 0.55)
"""About how many of the skills with a word have it at each level."""
MOST_CHECKED = 2_000
"""The most skills with all words of a phrase that are searched for the phrase itself."""


class SearchCandidate(NamedTuple):
    """A skill in the index of one place."""

    place: int
    row: IndexedSkill


def candidates(
    query: Query,
    indexes: Mapping[int, SearchIndex],
    letters: Mapping[int, Mapping[str, str]],
    counts: Mapping[str, tuple[int, int]],
    rarity: Rarity,
    scopes: Mapping[int, set[int]],
    admit: Callable[[int, IndexedSkill], bool],
    near: Nearness | None,
    k: int,
) -> list[SearchCandidate]:
    """The skills worth ranking that the caller may see, by place."""
    allowed = {place: _tagged(index, query.tags) for place, index in indexes.items()} if query.tags else None
    found: dict[tuple[int, int], SearchCandidate] = {}

    def take(ids: Mapping[int, Iterable[int]], most: int) -> None:
        """The first `most` that are admitted; ids come with the likeliest first."""
        for place, ordered in ids.items():
            left = most
            for row in indexes[place].rows(ordered):
                if allowed is not None and row.id not in allowed[place]:
                    continue
                if (place, row.id) in found:
                    left -= 1
                elif admit(place, row):
                    found[place, row.id] = SearchCandidate(place, row)
                    left -= 1
                if not left:
                    break

    if near is not None:
        take({place: near.nearest(place) for place in indexes}, NEAREST)
    if query.names:
        take({place: index.named(query.names) for place, index in indexes.items()}, len(query.names) * 4)
    if query.only_phrases:
        every = tuple(dict.fromkeys(stem for phrase in query.phrases for stem in phrase))
        take({place: _with_all(index, every, letters[place]) for place, index in indexes.items()}, MOST_CHECKED)
    elif query.stems:
        # What the caller may not see must not use up what a search may look at.
        hidden = {place: index.hidden(scopes[place]) for place, index in indexes.items()}
        of_about = {stem: count[0] for stem, count in counts.items()}
        about = _likely(query, indexes, letters, "about", of_about, rarity.about, hidden)
        of_body = {stem: count[1] for stem, count in counts.items() if stem not in query.parts}
        body = _likely(query, indexes, letters, "body", of_body, rarity.body, hidden)
        if allowed is not None:
            about, body = (
                {place: {id_: score for id_, score in scores.items() if id_ in allowed[place]}
                 for place, scores in each.items()}
                for each in (about, body)
            )  # fmt: skip
        for scores in (about, body):
            take({place: _best(each, BEST_OF_EACH) for place, each in scores.items()}, BEST_OF_EACH)
        most = max(BEST_OF_BOTH, k)
        both = {place: _sum(about[place], body[place], 2 * most) for place in indexes}
        take({place: _best(each, most) for place, each in both.items()}, most)
    elif allowed is not None:
        take({place: sorted(ids) for place, ids in allowed.items()}, MOST_CHECKED)
    elif query.layers:
        take({place: index.ids(scopes[place]) for place, index in indexes.items() if scopes[place]}, MOST_CHECKED)
    return list(found.values())


def _tagged(index: SearchIndex, tags: Sequence[str]) -> set[int]:
    found = index.tagged(tags[0])
    for tag in tags[1:]:
        if not found:
            break
        found &= index.tagged(tag)
    return found


def _with_all(index: SearchIndex, stems: Sequence[str], letters: Mapping[str, str]) -> list[int]:
    if any(stem not in letters for stem in stems):
        return []
    having = [{*index.having("about", letters[stem]), *index.having("body", letters[stem])} for stem in stems]
    return sorted(set.intersection(*having))


def _likely(
    query: Query,
    indexes: Mapping[int, SearchIndex],
    letters: Mapping[int, Mapping[str, str]],
    field: Field,
    counts: Mapping[str, int],
    rarity: Mapping[str, float],
    hidden: Mapping[int, Set[int]],
) -> dict[int, dict[int, float]]:
    """A rough score of each skill, by the most telling words and the skills that have most of them."""
    scores: dict[int, dict[int, float]] = {place: {} for place in indexes}
    seen: dict[str, int] = {}
    left = POSTINGS
    lists = sorted(
        ((-rarity[stem] * level.weight, number, stem) for stem in query.stems if counts.get(stem)
         for number, level in enumerate(LEVELS))
    )  # fmt: skip
    for weight, level, stem in lists:
        if left < POSTINGS and counts[stem] * _SHARE[level] > left:
            continue
        for place, index in indexes.items():
            if stem not in letters[place]:
                continue
            ids = index.having(field, letters[place][stem], level)
            if hidden[place]:
                ids = [id_ for id_ in ids if id_ not in hidden[place]]
            left -= len(ids)
            seen[stem] = seen.get(stem, 0) + len(ids)
            mine = scores[place]
            for id_ in ids:
                mine[id_] = mine.get(id_, 0.0) - weight
    for stem, number in seen.items():
        if not number and not all(index.is_sound(field, stem) for index in indexes.values()):
            raise IndexDamaged(f"skills should have {stem!r}, and none is listed")
    return scores


def _sum(one: Mapping[int, float], other: Mapping[int, float], wide: int) -> dict[int, float]:
    """The sums of two scores, for those that are among the likeliest by one of them."""
    likely = {*itertools.islice(_best(one, wide), wide), *itertools.islice(_best(other, wide), wide)}
    return {id_: one.get(id_, 0.0) + other.get(id_, 0.0) for id_ in likely}


def _best(scores: Mapping[int, float], most: int) -> Iterable[int]:
    """The likeliest first, the same order for the same scores; the rest is sorted only when somebody asks for it."""
    if len(scores) > most * 4:
        # Sorting thousands by two keys costs more than finding out that nearly all of them are not needed.
        enough = sorted(scores.values())[-2 * most]
        yield from _in_order((-score, id_) for id_, score in scores.items() if score >= enough)
        yield from _in_order((-score, id_) for id_, score in scores.items() if score < enough)
    else:
        yield from _in_order((-score, id_) for id_, score in scores.items())


def _in_order(items: Iterable[tuple[float, int]]) -> Iterable[int]:
    return (id_ for _, id_ in sorted(items))
