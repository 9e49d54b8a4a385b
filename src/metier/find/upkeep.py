"""Keeping an index what its source is: only what differs is read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.find.text import about_of, key_of, stamp_of, storable, text_of
from metier.find.vectors import embedded, packed
from metier.library.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.find.index import Index
    from metier.find.vectors import Embedder
    from metier.library import Place
    from metier.library.shelf import Shelf

BATCH = 200
"""How many skills are written at once: so long others wait to write, and so much is lost when a process is killed."""


def bring_up_to_date(
    index: Index, place: Place, shelf: Shelf, progress: Callable[[int, int], None] | None = None
) -> None:
    """Make an index hold exactly the skills of a shelf; only what differs is read and written."""
    index.database.follow()
    known = index.stamps()
    _take_out(index, _gone(shelf, known))
    _write(index, _differing(place, shelf, known), progress)


def restore(index: Index, place: Place, shelf: Shelf) -> None:
    """Put back what another process took out or wrote otherwise, where this one knows better.

    A folder that was elsewhere for a moment, say, and is as it was. What has changed since this process looked is left
    as it is, else two processes that look at different moments would write against one another.
    """
    index.database.follow()
    known, now = index.stamps(), place.source.identity
    _take_out(index, [key for key in _gone(shelf, known) if "\0" not in key and now(key) is None])
    _write(index, [entry for entry in _differing(place, shelf, known) if now(entry.key) == entry.identity])


def _gone(shelf: Shelf, known: Iterable[str]) -> list[str]:
    there = {storable(key) for key in shelf.columns.keys}
    return [key for key in known if key not in there]


def _differing(place: Place, shelf: Shelf, known: Mapping[str, str]) -> list[Entry]:
    found = []
    for number in range(len(shelf)):
        entry = Entry(place, shelf, number)
        key = key_of(entry)
        # A broken skill that was good once, and a stale one, may be served as they were, and so they stay indexed.
        if known.get(key) != stamp_of(entry) and not entry.is_broken and not (entry.is_stale and key in known):
            found.append(entry)
    # In an order of their own: among equals those that were written first are found first.
    found.sort(key=key_of)
    return found


def _take_out(index: Index, keys: Sequence[str]) -> None:
    for start in range(0, len(keys), BATCH):
        index.update([], keys[start : start + BATCH])


def _write(index: Index, entries: Sequence[Entry], progress: Callable[[int, int], None] | None = None) -> None:
    for start in range(0, len(entries), BATCH):
        if progress is not None:
            progress(start, len(entries))
        index.update([text_of(entry) for entry in entries[start : start + BATCH]])


def embed_what_is_new(index: Index, place: Place, shelf: Shelf, embedder: Embedder) -> None:
    """Make the vectors that are missing; only what a skill says of itself is embedded."""
    missing = set(index.without_vector(embedder.name))
    if not missing:
        return
    numbers = [number for number, key in enumerate(shelf.columns.keys) if storable(key) in missing]
    for start in range(0, len(numbers), BATCH):
        entries = [Entry(place, shelf, number) for number in numbers[start : start + BATCH]]
        rows = embedded(embedder, [f"{entry.name.replace('-', ' ')}. {about_of(entry.skill)}" for entry in entries])
        if rows is None:
            return
        index.put_vectors(embedder.name, zip(map(key_of, entries), packed(rows), strict=True))
