"""The search indexes of a library's places: opened, kept current, and made again when something is wrong with them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

from metier._lazy import logger
from metier._paths import short_digest
from metier.find.index_database import IndexBusy, IndexDamaged, portions
from metier.find.indexed_text import about_of, key_of, stamp_of, storable, text_of
from metier.find.search_index import SearchIndex
from metier.find.vectors import Meanings, Nearness, checked, embedded, packed
from metier.library.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.find.query import Query
    from metier.find.vectors import Embedder
    from metier.library import Place
    from metier.library.index_rows import IndexRows
    from metier.library.snapshot import Snapshot


BATCH = 500
"""The skills that are written at once: so long others wait to write, and so much is lost when a process is killed."""
_FEW = 100
"""The skills that can be written without merging the index afterwards."""


def bring_up_to_date(
    index: SearchIndex, place: Place, rows: IndexRows, progress: Callable[[int, int], None] | None = None
) -> None:
    """Make an index hold exactly the skills of a rows; only what differs is read and written."""
    index.database.follow()
    known = index.stamps()
    _take_out(index, _gone(rows, known))
    differing = _differing(place, rows, known)
    _write(index, differing, progress)
    if len(differing) > max(_FEW, len(rows) // 4):
        index.merge()


def restore(index: SearchIndex, place: Place, rows: IndexRows) -> None:
    """Put back what another process took out or wrote otherwise, where this one knows better.

    A folder that was elsewhere for a moment, say, and is as it was. What has changed since this process looked is left
    as it is, else two processes that look at different moments would write against one another.
    """
    index.database.follow()
    known, now = index.stamps(), place.source.identity
    _take_out(index, [key for key in _gone(rows, known) if "\0" not in key and now(key) is None])
    _write(index, [entry for entry in _differing(place, rows, known) if now(entry.key) == entry.identity])


def _gone(rows: IndexRows, known: Iterable[str]) -> list[str]:
    there = {storable(key) for key in rows.keys}
    return [key for key in known if key not in there]


def _differing(place: Place, rows: IndexRows, known: Mapping[str, str]) -> list[Entry]:
    found = []
    for number in range(len(rows)):
        entry = Entry(place, rows, number)
        key = key_of(entry)
        # A broken skill that was good once, and a stale one, may be served as they were, and so they stay indexed.
        if known.get(key) != stamp_of(entry) and not entry.is_broken and not (entry.is_stale and key in known):
            found.append(entry)
    # In an order of their own: among equals those that were written first are found first.
    found.sort(key=key_of)
    return found


def _take_out(index: SearchIndex, keys: Sequence[str]) -> None:
    for some in portions(keys, BATCH):
        index.update([], some)


def _write(index: SearchIndex, entries: Sequence[Entry], progress: Callable[[int, int], None] | None = None) -> None:
    for start in range(0, len(entries), BATCH):
        if progress is not None:
            progress(start, len(entries))
        index.update([text_of(entry) for entry in entries[start : start + BATCH]])


def embed_what_is_new(index: SearchIndex, place: Place, rows: IndexRows, embedder: Embedder) -> None:
    """Make the vectors that are missing; only what a skill says of itself is embedded."""
    missing = set(index.without_vector(embedder.name))
    if not missing:
        return
    numbers = [number for number, key in enumerate(rows.keys) if storable(key) in missing]
    for some in portions(numbers, BATCH):
        entries = [Entry(place, rows, number) for number in some]
        vectors = embedded(embedder, [f"{entry.name.replace('-', ' ')}. {about_of(entry.skill)}" for entry in entries])
        if vectors is None:
            return
        index.put_vectors(embedder.name, zip(map(key_of, entries), packed(vectors), strict=True))


_log = logger("metier.find")

Found = TypeVar("Found")


class SearchIndexes:
    """An index for each place of a library, current whenever it is read."""

    def __init__(self, folder: str | None, embedder: Embedder | None = None) -> None:
        self._folder = folder
        self._process = os.getpid()
        self.embedder = embedder
        self._meanings: dict[int, Meanings] = {}
        self.all: dict[int, SearchIndex] = {}
        """By the number of their place; an empty one has none."""
        self.current: dict[int, IndexRows] = {}
        """The rows that each place's index holds."""
        self._states: dict[int, tuple[int, int]] = {}
        """In which state each index held it: another process may have brought it up to date with another folder."""
        self._in_memory: set[int] = set()
        """Places whose files cannot be used."""
        self._updating = threading.Lock()

    def update(self, snapshot: Snapshot, progress: Callable[[int, int], None] | None = None) -> bool:
        """Index what is new or changed; False when another process kept the index busy and something is missing."""
        if self._process != os.getpid():
            self._forget()
        if self._is_current(snapshot):
            return True
        # Whoever finds an index that was complete once does not wait for somebody else to bring it up to date.
        if not self._updating.acquire(blocking=len(self.current) < len(snapshot.places)):
            return False
        try:
            complete = True
            for number, (place, rows) in enumerate(zip(snapshot.places, snapshot.rows, strict=True)):
                if not self._holds(number, rows):
                    complete &= self._update_place(number, place, rows, progress)
            return complete
        finally:
            self._updating.release()

    def _forget(self) -> None:
        """After a fork nothing that is open may be used, and what was in memory is not shared."""
        self._process = os.getpid()
        self._updating = threading.Lock()
        self.all, self.current, self._states, self._meanings = {}, {}, {}, {}

    def _is_current(self, snapshot: Snapshot) -> bool:
        return all(self._holds(number, rows) for number, rows in enumerate(snapshot.rows))

    def _holds(self, number: int, rows: IndexRows) -> bool:
        if self.current.get(number) is not rows:
            return False
        index = self.all.get(number)
        try:
            return index is None or self._states.get(number) == index.database.state()
        except (IndexBusy, IndexDamaged, OSError):
            return False  # whoever brings it up to date will deal with that

    def _update_place(
        self, number: int, place: Place, rows: IndexRows, progress: Callable[[int, int], None] | None
    ) -> bool:
        index = self.all.get(number)
        path = self._path(place) if number not in self._in_memory else None
        # Most default places are empty or absent, and need no file and no index.
        is_needed = path is not None and (len(rows) > 0 or os.path.exists(path))
        if index is None and not is_needed and not len(rows):
            self.current[number] = rows
            return True
        if index is None or (is_needed and index.database.path is None):
            index = self.all[number] = SearchIndex(path if is_needed else None)
        for last_try in (False, True):
            try:
                self._fill(number, index, place, rows, progress)
            except IndexBusy:
                _log.warning(
                    "Another process keeps the search index of %s busy; some skills may be missing.", place.name
                )
                return False
            except IndexDamaged as damaged:
                if last_try:
                    raise
                index.database.start_over(str(damaged))
                self.current.pop(number, None)
            except OSError as error:
                if last_try or index.database.path is None:
                    raise
                _log.warning("The search index of %s is kept in memory only: %s", place.name, error.strerror or error)
                index = self.all[number] = SearchIndex(None)
                self._in_memory.add(number)
                self.current.pop(number, None)
            else:
                break
        self.current[number] = rows
        return True

    def _fill(
        self,
        number: int,
        index: SearchIndex,
        place: Place,
        rows: IndexRows,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Bring an index up to date; raises `IndexBusy` when another process keeps it.

        Whoever had a complete index can search in that one. Whoever had none would find next to nothing, and waits as
        long as others get on with writing.
        """
        before = None
        while True:
            try:
                state = index.database.state()
                if self.current.get(number) is rows:
                    restore(index, place, rows)
                else:
                    bring_up_to_date(index, place, rows, progress)
                if self.embedder is not None:
                    embed_what_is_new(index, place, rows, self.embedder)
                    self._meanings[number] = Meanings(index, self.embedder.name)
                self._states[number] = state
                return
            except IndexBusy:
                now = index.database.state()
                if number in self.current or now == before:
                    raise
                before = now

    def _path(self, place: Place) -> str | None:
        key = place.source.cache_key()
        if self._folder is None or key is None:
            return None
        return f"{self._folder}/search-{short_digest(key.encode(errors='surrogateescape'), 24)}.db"

    def surely(self, snapshot: Snapshot, read: Callable[[], Found]) -> Found:
        """Read from indexes that are current; when one is damaged or locked, make it again, at last in memory."""
        for _ in range(2):
            self.update(snapshot)
            try:
                return read()
            except IndexDamaged as damaged:
                self._start_over(str(damaged))
            except (IndexBusy, OSError):
                self._leave_files()
        self._leave_files()
        self.update(snapshot)
        return read()

    def _leave_files(self) -> None:
        """Go on in memory: somebody keeps the files to themselves."""
        _log.warning("The search index cannot be read; it is made again in memory.")
        with self._updating:
            self.all = {number: SearchIndex(None) for number in self.all}
            self._in_memory.update(self.all)
            self.current.clear()

    def _start_over(self, reason: str) -> None:
        with self._updating:
            for index in self.all.values():
                index.database.start_over(reason)
            self.current.clear()

    def use(self, embedder: Embedder | None) -> None:
        """Search by meaning with this embedder, or by words alone."""
        with self._updating:
            self.embedder = None if embedder is None else checked(embedder)
            self._meanings.clear()
            if embedder is not None:
                self.current.clear()

    def nearness(self, query: Query, scopes: Mapping[int, set[int]]) -> Nearness | None:
        """The nearness of skills to a query in meaning, when there is an embedder and something to embed."""
        embedder = self.embedder
        if embedder is None or not query.stems or query.only_phrases:
            return None
        rows = embedded(embedder, [query.text])
        return None if rows is None else Nearness(rows[0], dict(self._meanings), scopes, embedder)
