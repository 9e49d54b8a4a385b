"""Terms of rules and lexicons: phrases in several languages that mean the same, and the words that tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._regex_cache import compiled

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from metier.scan.words import WordIndex


class Term:
    """Phrases that mean the same, by a name that conditions use."""

    def __init__(self, name: str, numbers: range, index: WordIndex) -> None:
        """`numbers` are those of its phrases in the index."""
        self.name = name
        self.numbers = numbers
        self._index = index
        self._compiled: dict[int, tuple[Callable[[str], re.Match[str] | None], bool]] = {}
        """Of each phrase that was asked for the search, and whether upper case counts in it."""
        index.claim(self, numbers)

    @property
    def is_anchored(self) -> bool:
        """Whether it can only be said with a word that is looked for."""
        return self._index.without_words.isdisjoint(self.numbers)

    def match(self, number: int, text: str, low: str) -> re.Match[str] | None:
        """Where a text, which is `low` in lower case, says a phrase of the term."""
        if number not in self._compiled:
            self._compiled[number] = compiled(self._index.phrases[number]).search, number in self._index.cased
        search, is_cased = self._compiled[number]
        return search(text if is_cased else low)

    def search(self, text: str) -> re.Match[str] | None:
        """Where a text says it that is no statement of the skill."""
        low = text.lower()
        return self.first(sorted(self._index.look(low).get(self, ())), text, low)

    def first(self, phrases: Iterable[int], text: str, low: str) -> re.Match[str] | None:
        """Where a text says the first of some phrases that it says."""
        return next((found for number in phrases if (found := self.match(number, text, low))), None)
