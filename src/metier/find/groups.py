"""What else there is, in a few words: the most common tags and beginnings of names, with counts."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from metier.find.render import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_FEWEST = 3
_MOST = 200
_LONGEST = 32
# Words without commas, none but the first beginning with a digit: a tag must not pass for several with their counts.
_PLAIN = re.compile(r"\w[\w+#.&/-]*(?: [^\W\d][\w+#.&/-]*){0,2}").fullmatch


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
    return 1 < len(name) <= _LONGEST and bool(_PLAIN(name)) and one_line(name) == name
