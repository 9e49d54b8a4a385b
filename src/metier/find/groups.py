"""What else there is, in a few words: the most common tags and beginnings of names, with counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_FEWEST = 3
_MOST = 200
_LONGEST = 32


def groups(names: Iterable[str], tags: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Groups of skills, the largest first: by tag, and by the first word of the name.

    >>> groups(["azure-ai", "azure-vm", "azure-db", "pdf"], [("office", 7)])
    [('office', 7), ('azure', 3)]
    """
    counts = Counter(name.partition("-")[0] for name in names)
    for tag, count in tags:
        counts[tag] = max(counts[tag], count)
    few = [(shown(name), count) for name, count in counts.items() if count >= _FEWEST and 1 < len(name) <= _LONGEST]
    return sorted(few, key=lambda group: (-group[1], group[0]))[:_MOST]
