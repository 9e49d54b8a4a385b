"""Keeping an index what its source is: only what differs is read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.find.text import about_of, key_of, stamp_of, storable, text_of
from metier.find.vectors import embedded, packed
from metier.library.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

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
    missing = []
    there = set()
    for number in range(len(shelf)):
        entry = Entry(place, shelf, number)
        key = key_of(entry)
        if entry.is_broken:
            continue
        there.add(key)
        # A stale skill is served as it was, and as it was it is indexed.
        if known.get(key) != stamp_of(entry) and not (entry.is_stale and key in known):
            missing.append(entry)
    gone = [key for key in known if key not in there]
    for start in range(0, len(gone), BATCH):
        index.update([], gone[start : start + BATCH])
    for start in range(0, len(missing), BATCH):
        if progress is not None:
            progress(start, len(missing))
        index.update([text_of(entry) for entry in missing[start : start + BATCH]])


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
