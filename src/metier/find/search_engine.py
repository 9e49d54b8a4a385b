"""Searching a library: find what may fit, rank it, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._cache import cached_property
from metier._lazy import replace
from metier.errors import InvalidArgument
from metier.find.candidates import SearchedPlace, candidates
from metier.find.index_database import UNEXPECTED, IndexDamaged, own_error
from metier.find.index_maintenance import SearchIndexes
from metier.find.indexed_text import meant, scope_of
from metier.find.lexicon import is_one_slip
from metier.find.ranking import Ranking, Rarity
from metier.find.results import Result, result_of
from metier.find.search_index import Totals
from metier.library.places import admits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.find.indexed_text import EncodedStems
    from metier.find.overview import Overviews
    from metier.find.query import Query
    from metier.find.ranking import Asked, Fit
    from metier.find.search_index import IndexedSkill, SearchIndex
    from metier.find.vectors import Embedder, Nearness
    from metier.find.visibility import Visibility
    from metier.library import Caller, Entry
    from metier.library.snapshot import CallerView, Snapshot

MAX_RESULTS = 1_000
_SHORTEST_CORRECTED = 5
_CORRECTED_AT_MOST = 8
"""A query of more words than this is prose, in which a word nobody knows is rarely a mistyped name."""


class SearchEngine:
    """Ranks the skills of a snapshot for a query."""

    def __init__(self, folder: str | None, embedder: Embedder | None = None) -> None:
        self.indexes = SearchIndexes(folder, embedder)

    def search(
        self,
        snapshot: Snapshot,
        caller: Caller,
        query: Query,
        k: int,
        accept: Callable[[Entry, IndexedSkill | None], bool],
        *,
        explain: bool = False,
    ) -> list[Result]:
        """The `k` skills that fit best of those the caller may see and `accept` lets through.

        With `explain` by words alone, and each result has its score word for word.
        """
        return self.indexes.surely(snapshot, lambda: self._search(snapshot, caller, query, k, accept, explain=explain))

    @cached_property
    def _overviews(self) -> Overviews:
        from metier.find.overview import Overviews

        return Overviews(self.indexes)

    def overview(self, snapshot: Snapshot, caller: Caller, listed: Visibility) -> tuple[int, list[tuple[str, int]]]:
        """The number of skills that may be listed for a caller, and their groups."""
        return self.indexes.surely(snapshot, lambda: self._overviews.of(snapshot, caller, listed))

    def _search(
        self,
        snapshot: Snapshot,
        caller: Caller,
        query: Query,
        k: int,
        accept: Callable[[Entry, IndexedSkill | None], bool],
        *,
        explain: bool,
    ) -> list[Result]:
        view = snapshot.view(caller)
        places = [
            SearchedPlace(number, index, _seen_scopes(index, caller))
            for number, index in self.indexes.all.items()
            if number < len(snapshot.places)
        ]
        counts = _look_up(query, places)
        # After the counts: skills that come in between would make a word more frequent than there are skills.
        totals = [place.index.totals(place.scopes) for place in places]
        corrected = _corrected(query, counts, places)
        if corrected is not query:
            query, counts = corrected, _look_up(corrected, places)
        rarity = Rarity(counts, Totals(*map(sum, zip(Totals(), *totals, strict=True))))
        near = None if explain else self.indexes.nearness(query, {place.number: place.scopes for place in places})
        if query.layers:
            places = [place for place in places if snapshot.places[place.number].layer in query.layers]
        entries: dict[tuple[int, int], Entry] = {}

        def admit(number: int, row: IndexedSkill) -> bool:
            entry = meant(view, snapshot.places[number], row.name, row.key)
            if entry is None or not accept(entry, row):
                return False
            entries[number, row.id] = entry
            return True

        chosen = candidates(query, places, counts, rarity, admit, near, k)
        ranking = Ranking(query, rarity)
        fits = _ranked(ranking, places, chosen, explain=explain)
        if near is not None:
            _fuse([each[:2] for each in fits], near)
        fits.sort(key=lambda item: (entries[item[0]].name not in query.names, -item[1].score, entries[item[0]].name))
        results: list[Result] = []
        for where, fit, skill, asked in fits:
            words = ranking.words(skill, asked, fit) if explain else ()
            result = result_of(entries[where], fit, query, words)
            # An `agents/openai.yaml` may have changed since the last refresh; the few that are shown are read again.
            if result is not None and accept(result.entry, None):
                results.append(result)
            if len(results) >= k:
                break
        results.extend(_by_part_of_name(query, view, {result.name for result in results}, accept, k))
        results.sort(key=lambda result: (-result.score, result.name, result.entry.location))
        return results[:k]


def _fuse(fits: Sequence[tuple[tuple[int, int], Fit]], near: Nearness) -> None:
    """Lift what is near in meaning, the less the more its words say already: the first by words stays the first."""
    scores = [fit.score for _, fit in fits]
    best, least = max(scores, default=0.0), min(scores, default=0.0)
    for (_, fit), nearness in zip(fits, near.among([where for where, _ in fits]), strict=True):
        fit.nearness = nearness
        fit.score += near.weight * nearness * (best - fit.score if best > least else 1.0)


def _ranked(
    ranking: Ranking,
    places: Sequence[SearchedPlace],
    chosen: Mapping[int, Mapping[int, IndexedSkill]],
    *,
    explain: bool,
) -> list[tuple[tuple[int, int], Fit, EncodedStems, Asked]]:
    """The candidates with their fit, and the words by which it was found out."""
    fits = []
    for place in places:
        asked = ranking.asked(place.letters)
        for id_, row in chosen[place.number].items():
            skill = _stems(row)
            fits.append(((place.number, id_), ranking.by_words(skill, asked), skill, asked))
    ranking.by_order([each[1:] for each in fits], explain=explain)
    return fits


def _stems(row: IndexedSkill) -> EncodedStems:
    try:
        return row.stems
    except UNEXPECTED as error:
        raise own_error(error) from None


def _seen_scopes(index: SearchIndex, caller: Caller) -> set[int]:
    try:
        return {number for number, text in index.scopes().items() if admits(scope_of(text), caller)}
    except (ValueError, TypeError) as error:
        raise IndexDamaged(str(error)) from None


def _look_up(query: Query, places: Sequence[SearchedPlace]) -> dict[str, tuple[int, int]]:
    """Look up the letters of a query in each place; returns how many skills have each stem, in all places together."""
    total: dict[str, tuple[int, int]] = {}
    for place in places:
        place.look_up(query.stems)
        for stem, (about, body) in place.postings.counts.items():
            before = total.get(stem, (0, 0))
            total[stem] = (before[0] + about, before[1] + body)
    return total


def _corrected(query: Query, counts: Mapping[str, tuple[int, int]], places: Sequence[SearchedPlace]) -> Query:
    """The query with words added for those that look like mistyped words of names."""
    if len(query.stems) > _CORRECTED_AT_MOST:
        return query
    added: dict[str, str] = {}
    for stem in query.stems:
        written = query.written.get(stem, stem)
        # Short words are one slip away from too many others.
        if stem in counts or len(written) < _SHORTEST_CORRECTED:
            continue
        typed = {stem, written}
        for place in places:
            close = [one for word in typed for one in place.index.spelled_like(word) if is_one_slip(word, one)]
            # A word that only hidden skills say of themselves is no word here.
            said = place.index.postings(place.index.letters(close), place.scopes).counts
            added.update({meant: written for meant, (about, _) in sorted(said.items()) if about})
    if not added:
        return query
    return replace(query, stems=tuple(dict.fromkeys((*query.stems, *added))), meant=added)


def _by_part_of_name(
    query: Query, view: CallerView, found: set[str], accept: Callable[[Entry, IndexedSkill | None], bool], k: int
) -> list[Result]:
    """Skills whose name holds what was typed, when it is one word: somebody is still typing, or knows a part."""
    if len(query.names) != 1 or len(query.stems) != 1 or query.tags or query.only_phrases:
        return []
    part = query.names[0]
    results = []
    for name, entry in view.active.items():
        if part in name and name not in found and (not query.layers or entry.layer in query.layers):
            if accept(entry, None):
                results.append(Result(name=name, score=0.01, why=f"name: {part}", entry=entry))
            if len(results) >= k:
                break
    return results


def checked_k(k: int) -> int:
    """A number of results that can be asked for."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidArgument(f"{k!r} is no number of results.", hint=f"Ask for 1 to {MAX_RESULTS:,}.")
    return min(k, MAX_RESULTS)


def searchable(query: str) -> str:
    """A query that is text, without what no text can hold."""
    if not isinstance(query, str):
        raise InvalidArgument(f"A query is text, not {type(query).__name__}.", hint="Say what the skill should do.")
    return query.encode(errors="replace").decode()
