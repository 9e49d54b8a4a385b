"""Overviews: the number of skills for a caller and their groups, for a catalog without room for all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from metier._cache import BoundedCache
from metier._lazy import pattern
from metier.find.catalog_format import one_line
from metier.find.indexed_text import meant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.find.index_maintenance import SearchIndexes
    from metier.find.visibility import Visibility
    from metier.library import Caller, Entry
    from metier.library.snapshot import CallerView, Snapshot


_FEWEST = 3
_MOST = 200
_LONGEST = 32
# Words without commas, none but the first beginning with a digit: a tag must not pass for several with their counts.
_PLAIN = pattern(r"\w[\w+#.&/-]*(?: [^\W\d][\w+#.&/-]*){0,2}")


def groups(names: Iterable[str], tags: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Groups of skills, the largest first: by tag, and by the first word of the name.

    >>> groups(["azure-ai", "azure-vm", "azure-db", "pdf"], [("office", 7)])
    [('office', 7), ('azure', 3)]
    """
    counts = Counter(name.partition("-")[0] for name in names)
    for tag, count in tags:
        counts[tag] = max(counts[tag], count)
    few = [(name, count) for name, count in counts.items() if count >= _FEWEST and _can_be_listed(name)]
    return sorted(few, key=lambda group: (-group[1], group[0]))[:_MOST]


def _can_be_listed(name: str) -> bool:
    return 1 < len(name) <= _LONGEST and bool(_PLAIN.fullmatch(name)) and one_line(name) == name


_KEPT = 16


class Overviews:
    """Counts the skills of a library, and remembers the counts for as long as it does not change."""

    def __init__(self, indexes: SearchIndexes) -> None:
        self._indexes = indexes
        self._known: WeakKeyDictionary[
            CallerView, BoundedCache[Any, tuple[int, list[tuple[str, int]], list[Entry]]]
        ] = WeakKeyDictionary()

    def of(self, snapshot: Snapshot, caller: Caller, listed: Visibility) -> tuple[int, list[tuple[str, int]]]:
        """The number of skills that may be listed for a caller, and their groups."""
        view = snapshot.view(caller)
        withheld = set()
        for number, index in self._indexes.all.items():
            for row in index.special_rows():
                entry = meant(view, snapshot.places[number], row.name, row.key)
                if entry is None or (listed.only is not None and entry.name not in listed.only):
                    continue
                if not listed(entry, row):
                    withheld.add(entry.name)
        if listed.listings:
            withheld |= {name for name, entry in view.active.items() if listed.mode(entry) in ("manual", "off")}
        known = self._known.setdefault(view, BoundedCache(_KEPT))
        which = (listed.only, frozenset(withheld))
        counted = known.get(which)
        if counted is None:
            counted = known[which] = self._count(snapshot, view, listed.only, withheld)
        total, found, undescribed = counted
        for entry in undescribed:
            listed(entry)
        return total, found

    def _count(
        self, snapshot: Snapshot, view: CallerView, only: frozenset[str] | None, withheld: set[str]
    ) -> tuple[int, list[tuple[str, int]], list[Entry]]:
        names = {name for name in view.active if name not in withheld and (only is None or name in only)}
        undescribed = [view.active[name] for name in names if view.active[name].is_undescribed_and_hidden]
        names.difference_update(entry.name for entry in undescribed)
        tags: Counter[str] = Counter()
        for number, index in self._indexes.all.items():
            for tag, name, key in index.tags():
                if name in names and meant(view, snapshot.places[number], name, key) is not None:
                    tags[tag] += 1
        return len(names), groups(names, tags.items()), undescribed
