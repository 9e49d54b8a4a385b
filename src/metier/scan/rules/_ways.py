"""A way to say something: a pattern, and the words without which no sentence says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.scan.rules._mercy import negated

if TYPE_CHECKING:
    import re

    from metier.scan.rules._statements import Statement


@dataclass(frozen=True, slots=True)
class Way:
    """A pattern, and the words of which every sentence in Latin letters has one that is said so."""

    pattern: re.Pattern[str]
    heads: frozenset[str]

    def within(self, one: Statement) -> re.Match[str] | None:
        """Where a sentence says it."""
        if one.low.isascii() and one.words.isdisjoint(self.heads):
            return None
        return self.pattern.search(one.low)

    def bidden(self, one: Statement) -> bool:
        """Whether a sentence says it, and not that it must not be."""
        found = self.within(one)
        return found is not None and not negated(one.low[max(0, found.start() - 140) : found.start()])
