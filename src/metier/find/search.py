"""Searching a library: keep the indexes current, find what may fit, rank it, and say why."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from metier.errors import InvalidArgument
from metier.find.candidates import candidates
from metier.find.database import Busy, Damaged
from metier.find.groups import groups
from metier.find.index import Index, Totals
from metier.find.ranking import Ranking, Rarity
from metier.find.result import Result
from metier.find.spelling import is_one_slip
from metier.find.text import key_of, scope_of
from metier.find.upkeep import bring_up_to_date, embed_what_is_new
from metier.find.vectors import Meanings, Nearness, checked, embedded
from metier.find.words import split_stems
from metier.library.layers import admits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.find.candidates import Candidate
    from metier.find.index import Row
    from metier.find.listed import Listed
    from metier.find.query import Query
    from metier.find.ranking import Fit
    from metier.find.vectors import Embedder
    from metier.library import Caller, Entry, Place
    from metier.library.shelf import Shelf
    from metier.library.snapshot import Snapshot, View

_log = logging.getLogger("metier.find")

MAX_RESULTS = 1_000
_OVERVIEWS_KEPT = 16
_SHORTEST_CORRECTED = 5
_CORRECTED_AT_MOST = 8
"""A query of more words than this is prose, in which a word nobody knows is rarely a mistyped name."""
_WORDS_SHOWN = 5
_NEAR_ENOUGH_TO_SAY = 0.5


Found = TypeVar("Found")


class Finder:
    """The search indexes of a library's places, kept current as the library changes."""

    def __init__(self, folder: str | None, embedder: Embedder | None = None) -> None:
        self._folder = folder
        self._process = os.getpid()
        self.embedder = embedder
        self._meanings: dict[int, tuple[Shelf, Meanings]] = {}
        self._indexes: dict[int, Index] = {}
        self._current: dict[int, Shelf] = {}
        """The shelf that each place's index holds."""
        self._overviews: WeakKeyDictionary[View, dict[Any, tuple[int, list[tuple[str, int]], list[Entry]]]] = (
            WeakKeyDictionary()
        )
        self._in_memory: set[int] = set()
        """Places whose files cannot be used."""
        self._updating = threading.Lock()

    # --- staying current ---------------------------------------------------------------------------------------------

    def update(self, snapshot: Snapshot, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what is new or changed; False when another process kept the index busy and something is missing."""
        if self._process != os.getpid():
            self._forget()
        if self._is_current(snapshot):
            return True
        # Whoever finds an index that was complete once does not wait for somebody else to bring it up to date.
        if not self._updating.acquire(blocking=len(self._current) < len(snapshot.places)):
            return False
        try:
            complete = True
            for number, (place, shelf) in enumerate(zip(snapshot.places, snapshot.shelves, strict=True)):
                if self._current.get(number) is not shelf:
                    complete &= self._update_place(number, place, shelf, progress)
            return complete
        finally:
            self._updating.release()

    def _forget(self) -> None:
        """After a fork nothing that is open may be used, and what was in memory is not shared."""
        self._process = os.getpid()
        self._updating = threading.Lock()
        self._indexes, self._current, self._meanings = {}, {}, {}

    def _is_current(self, snapshot: Snapshot) -> bool:
        return all(self._current.get(number) is shelf for number, shelf in enumerate(snapshot.shelves))

    def _update_place(
        self, number: int, place: Place, shelf: Shelf, progress: Callable[[int, int], None] | None
    ) -> bool:
        index = self._indexes.get(number)
        path = self._path(place) if number not in self._in_memory else None
        # Most default places are empty or absent, and need no file.
        is_needed = path is not None and (len(shelf) > 0 or os.path.exists(path))
        if index is None or (is_needed and index.database.path is None):
            index = self._indexes[number] = Index(path if is_needed else None)
        for last_try in (False, True):
            try:
                bring_up_to_date(index, place, shelf, progress)
                if self.embedder is not None:
                    embed_what_is_new(index, place, shelf, self.embedder)
                    self._meanings[number] = (shelf, Meanings(index, self.embedder.name))
            except Busy:
                _log.warning(
                    "Another process keeps the search index of %s busy; some skills may be missing.", place.name
                )
                return False
            except Damaged as damaged:
                if last_try:
                    raise
                index.database.start_over(str(damaged))
            except OSError as error:
                if last_try or index.database.path is None:
                    raise
                _log.warning("The search index of %s is kept in memory only: %s", place.name, error.strerror or error)
                index = self._indexes[number] = Index(None)
                self._in_memory.add(number)
            else:
                break
        self._current[number] = shelf
        return True

    def _path(self, place: Place) -> str | None:
        key = place.source.cache_key()
        if self._folder is None or key is None:
            return None
        return f"{self._folder}/search-{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:24]}.db"

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(
        self, snapshot: Snapshot, caller: Caller, query: Query, k: int, accept: Callable[[Entry, Row | None], bool]
    ) -> list[Result]:
        """The `k` skills that fit best of those the caller may see and `accept` lets through."""
        return self._surely(snapshot, lambda: self._search(snapshot, caller, query, k, accept))

    def _surely(self, snapshot: Snapshot, read: Callable[[], Found]) -> Found:
        """Read from indexes that are current; when one is damaged or locked, make it again, at last in memory."""
        for _ in range(2):
            self.update(snapshot)
            try:
                return read()
            except Damaged as damaged:
                self._start_over(str(damaged))
            except Busy:
                self._leave_files()
        self._leave_files()
        self.update(snapshot)
        return read()

    def _leave_files(self) -> None:
        """Go on in memory: somebody keeps the files to themselves."""
        _log.warning("The search index cannot be read; it is made again in memory.")
        with self._updating:
            self._indexes = {number: Index(None) for number in self._indexes}
            self._in_memory.update(self._indexes)
            self._current.clear()

    def _nearness(self, query: Query, scopes: Mapping[int, set[int]]) -> Nearness | None:
        if self.embedder is None or not query.stems or query.only_phrases:
            return None
        meanings = {number: meaning for number, (_, meaning) in self._meanings.items()}
        rows = embedded(self.embedder, [query.text])
        return None if rows is None else Nearness(rows[0], meanings, scopes, self.embedder.unrelated)

    def _start_over(self, reason: str) -> None:
        with self._updating:
            for index in self._indexes.values():
                index.database.start_over(reason)
            self._current.clear()

    def overview(self, snapshot: Snapshot, caller: Caller, listed: Listed) -> tuple[int, list[tuple[str, int]]]:
        """How many skills may be listed for a caller, and in which groups they are."""
        return self._surely(snapshot, lambda: self._overview(snapshot, caller, listed))

    def _overview(self, snapshot: Snapshot, caller: Caller, listed: Listed) -> tuple[int, list[tuple[str, int]]]:
        view = snapshot.view(caller)
        withheld = set()
        for number, index in self._indexes.items():
            for row in index.special_rows():
                entry = _meant(view, snapshot.places[number], row.name, row.key)
                if entry is None or (listed.only is not None and entry.name not in listed.only):
                    continue
                if not listed(entry, row):
                    withheld.add(entry.name)
        known = self._overviews.setdefault(view, {})
        which = (listed.only, frozenset(withheld))
        if which not in known:
            if len(known) >= _OVERVIEWS_KEPT:
                known.clear()
            known[which] = self._count(snapshot, view, listed.only, withheld)
        total, found, undescribed = known[which]
        for entry in undescribed:
            listed(entry)
        return total, found

    def _count(
        self, snapshot: Snapshot, view: View, only: frozenset[str] | None, withheld: set[str]
    ) -> tuple[int, list[tuple[str, int]], list[Entry]]:
        names = {name for name in view.active if name not in withheld and (only is None or name in only)}
        undescribed = [view.active[name] for name in names if view.active[name].is_undescribed_and_hidden]
        names.difference_update(entry.name for entry in undescribed)
        tags: Counter[str] = Counter()
        for number, index in self._indexes.items():
            for tag, name, key in index.tags():
                if name in names and _meant(view, snapshot.places[number], name, key) is not None:
                    tags[tag] += 1
        return len(names), groups(names, tags.items()), undescribed

    def use(self, embedder: Embedder | None) -> None:
        """Search by meaning with this embedder, or by words alone."""
        with self._updating:
            self.embedder = None if embedder is None else checked(embedder)
            self._meanings.clear()
            if embedder is not None:
                self._current.clear()

    def _search(
        self, snapshot: Snapshot, caller: Caller, query: Query, k: int, accept: Callable[[Entry, Row | None], bool]
    ) -> list[Result]:
        view = snapshot.view(caller)
        indexes = {number: index for number, index in self._indexes.items() if number < len(snapshot.places)}
        scopes = {number: _seen_scopes(index, caller) for number, index in indexes.items()}
        letters = {number: index.letters(query.stems) for number, index in indexes.items()}
        counts = _counts(letters, indexes, scopes)
        totals = [index.totals(scopes[number]) for number, index in indexes.items()]
        rarity = Rarity(counts, Totals(*map(sum, zip(*totals, strict=True))) if totals else Totals())
        corrected = _corrected(query, counts, indexes, scopes)
        if corrected is not query:
            query = corrected
            letters = {number: index.letters(query.stems) for number, index in indexes.items()}
            counts = _counts(letters, indexes, scopes)
            rarity = Rarity(counts, Totals(*map(sum, zip(*totals, strict=True))))
        if query.layers:
            indexes = {n: index for n, index in indexes.items() if snapshot.places[n].layer in query.layers}
        entries: dict[tuple[int, int], Entry] = {}

        def admit(number: int, row: Row) -> bool:
            entry = _meant(view, snapshot.places[number], row.name, row.key)
            if entry is None or not accept(entry, row):
                return False
            entries[number, row.id] = entry
            return True

        near = self._nearness(query, scopes)
        chosen = candidates(query, indexes, letters, counts, rarity, scopes, admit, near, k)
        fits = _ranked(Ranking(query, rarity), indexes, letters, chosen)
        if near is not None and self.embedder is not None:
            _fuse(fits, near, self.embedder.weight)
        fits.sort(key=lambda item: (entries[item[0]].name not in query.names, -item[1].score, entries[item[0]].name))
        results: list[Result] = []
        for where, fit in fits:
            result = _result(entries[where], fit, query)
            # A side file may have changed since the last refresh; the few that are shown are asked themselves.
            if result is not None and accept(result.entry, None):
                results.append(result)
            if len(results) >= k:
                break
        results.extend(_by_part_of_name(query, view, {result.name for result in results}, accept, k))
        results.sort(key=lambda result: (-result.score, result.name, result.entry.location))
        return results[:k]


def _meant(view: View, place: Place, name: str, key: str) -> Entry | None:
    """The skill that a row of an index stands for, if it is the one that answers to its name for the caller."""
    entry = view.active.get(name)
    return entry if entry is not None and entry.place is place and key_of(entry) == key else None


def _fuse(fits: Sequence[tuple[tuple[int, int], Fit]], near: Nearness, weight: float) -> None:
    """Lift what is near in meaning, the less the more its words say already: the first by words stays the first."""
    scores = [fit.score for _, fit in fits]
    best, least = max(scores, default=0.0), min(scores, default=0.0)
    for (_, fit), nearness in zip(fits, near.among([where for where, _ in fits]), strict=True):
        fit.nearness = nearness
        fit.score += weight * nearness * (best - fit.score if best > least else 1.0)


def _ranked(
    ranking: Ranking,
    indexes: Mapping[int, Index],
    letters: Mapping[int, Mapping[str, str]],
    chosen: Sequence[Candidate],
) -> list[tuple[tuple[int, int], Fit]]:
    """The candidates with their fit."""
    fits = []
    for place, index in indexes.items():
        asked = ranking.asked(letters[place])
        for id_, skill in index.words([one.row.id for one in chosen if one.place == place]).items():
            fits.append(((place, id_), ranking.by_words(skill, asked), skill, asked))
    ranking.by_order([each[1:] for each in fits])
    return [each[:2] for each in fits]


def _seen_scopes(index: Index, caller: Caller) -> set[int]:
    try:
        return {number for number, text in index.scopes().items() if admits(scope_of(text), caller)}
    except (ValueError, TypeError) as error:
        raise Damaged(str(error)) from None


def _counts(
    letters: Mapping[int, Mapping[str, str]], indexes: Mapping[int, Index], scopes: Mapping[int, set[int]]
) -> dict[str, tuple[int, int]]:
    total: dict[str, tuple[int, int]] = {}
    for number, index in indexes.items():
        for stem, (about, body) in index.counts(letters[number], scopes[number]).items():
            before = total.get(stem, (0, 0))
            total[stem] = (before[0] + about, before[1] + body)
    return total


def _corrected(
    query: Query,
    counts: Mapping[str, tuple[int, int]],
    indexes: Mapping[int, Index],
    scopes: Mapping[int, set[int]],
) -> Query:
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
        for number, index in indexes.items():
            close = [one for word in typed for one in index.spelled_like(word) if is_one_slip(word, one)]
            # A word that only hidden skills say of themselves is no word here.
            said = index.counts(index.letters(close), scopes[number])
            added.update({meant: written for meant, (about, _) in sorted(said.items()) if about})
    if not added:
        return query
    return replace(query, stems=tuple(dict.fromkeys((*query.stems, *added))), meant=added)


def _result(entry: Entry, fit: Fit, query: Query) -> Result | None:
    if query.only_phrases and len(fit.phrases) < len(query.phrases):
        return None
    if entry.name in query.names:
        exact = entry.name == query.names[0]
        return Result(
            name=entry.name, score=1.0 if exact else 0.99, why=_why(fit, query, entry, named=True), entry=entry
        )
    if not query.stems:
        # Nothing but filters, and they all hold.
        return Result(name=entry.name, score=1.0, why=_why(fit, query, entry, named=False), entry=entry)
    if fit.score <= 0:
        return None
    why = _why(fit, query, entry, named=False)
    return Result(name=entry.name, score=round(fit.score / (fit.score + 20), 4), why=why, entry=entry)


def _why(fit: Fit, query: Query, entry: Entry, *, named: bool) -> str:
    """What was found where, in the words of the query, or of the name for what was meant by a mistyped one."""
    own = {stem: word for word in entry.name.split("-") for stem in split_stems(word)}
    parts = ["asked for by name"] if named else []
    parts.extend(f'phrase: "{" ".join(query.written.get(stem, stem) for stem in phrase)}"' for phrase in fit.phrases)
    in_body = fit.in_body - fit.in_name - fit.in_about
    for label, found in (("name", fit.in_name), *_parts_of_about(entry, fit.in_about), ("body", in_body)):
        words = list(dict.fromkeys(_said(stem, query, own) for stem in query.stems if stem in found))
        if words:
            more = f" and {len(words) - _WORDS_SHOWN} more" if len(words) > _WORDS_SHOWN else ""
            parts.append(f"{label}: {', '.join(words[:_WORDS_SHOWN])}{more}")
    parts.extend(f"tag: {tag}" for tag in query.tags[:_WORDS_SHOWN])
    parts.extend(f"layer: {layer}" for layer in query.layers)
    if fit.nearness >= _NEAR_ENOUGH_TO_SAY or not parts:
        parts.append("similar meaning")
    return "; ".join(parts)


def _said(stem: str, query: Query, own: Mapping[str, str]) -> str:
    """A word of the query, or the word that was meant by a mistyped one."""
    if stem in query.meant:
        return f"{own.get(stem, stem)} (for {query.meant[stem]})"
    return query.written.get(stem, stem)


def _parts_of_about(entry: Entry, found: set[str]) -> list[tuple[str, set[str]]]:
    """Which of the words stand in the description, and which only in other fields."""
    skill = entry.skill
    parts: list[tuple[str, set[str]]] = []
    fields = (
        ("description", skill.description),
        ("when to use", skill.when_to_use or ""),
        ("tags", "\n".join(skill.tags)),
        ("triggers", "\n".join(skill.triggers)),
    )
    for label, text in fields:
        here = found.intersection(split_stems(text)) if found and text else set()
        found = found - here
        parts.append((label, here))
    parts.append(("fields", found))
    return parts


def _by_part_of_name(
    query: Query, view: View, found: set[str], accept: Callable[[Entry, Row | None], bool], k: int
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
