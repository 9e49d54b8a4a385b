"""A statement: a sentence of prose or a line of code, with what stands around it.

Rules ask of a statement not only what it says but how: as something to do, or as something to look out for.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass, field
from metier.scan.rule import Hit
from metier.scan.rules._hosts import addresses
from metier.scan.rules._mercy import described, hints, hints_in_code, is_pattern, negated
from metier.scan.rules._words import words_of

if TYPE_CHECKING:
    import re

    from metier.scan.finding import Severity
    from metier.scan.rules._hosts import HostAddress

_SHOWN = 150
"""Characters of a statement that a finding is sure to show."""

StatementKind: TypeAlias = Literal["prose", "row", "code", "comment", "frontmatter"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, a row of a table, or a line of code with its continuation."""

    path: str
    line: int
    text: str
    """As it is meant to be read: no invisible characters, no emphasis, no lookalike letters."""
    low: str
    kind: StatementKind
    heading: str
    """The headings that it stands below, but for the title of the page, in lower case."""
    lead: str
    """What introduces it: the sentence before a list, a table or a fence, in lower case."""
    language: str = ""
    script: bool = False
    """Whether it stands in a file of its own kind and not in a page of text."""
    veiled: bool = False
    """Whether quotes, escapes or the like hid a command in it."""
    warned: bool = False
    """Whether it stands among many signs of attacks that a page on security lists, as something to look out for."""
    bad_company: bool = False
    """Whether what introduces it, or where it stands, calls it something to look out for."""
    breaks: tuple[tuple[int, int], ...] = ()
    """Where in its text each further line of the file begins that it goes on over: the place, and the line."""
    words: frozenset[str] = field(init=False)
    """Its words, in lower case."""
    places: tuple[HostAddress, ...] = field(init=False)
    """The addresses in it, also those without a scheme."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", words_of(self.low))
        # Most sentences have neither, and so no address.
        has_marks = "." in self.text or ":" in self.text
        object.__setattr__(self, "places", tuple(addresses(self.text, bare=True)) if has_marks else ())

    @property
    def hinted(self) -> bool:
        """Whether words in it or around it, which cost an attacker nothing, call it something to look out for."""
        if self.bad_company or self.kind in ("comment", "frontmatter") or self.script:
            return self.bad_company
        return hints_in_code(self.low) if self.kind == "code" else hints(self.low)

    def hit(self, text: str = "", severity: Severity | None = None, message: str = "", at: int = -1) -> Hit:
        """A hit at this place; `at` is where in the statement, if the text does not tell."""
        text = text or self.text
        if self.breaks:
            whole = text == self.text
            if at < 0:
                at = self._telling() if whole else max(0, self.low.find(text.lower()))
            start, line = self._line_at(at)
            # What lies beyond what is shown would not be seen: then the line itself is.
            return Hit(self.path, line, (text[start:] if whole and at > _SHOWN else text)[:400], message, severity)
        return Hit(self.path, self.line, text[:400], message, severity)

    def _telling(self) -> int:
        """Where a reader looks first: at an address, or else at the beginning."""
        return min((place.start for place in self.places), default=0)

    def _line_at(self, at: int) -> tuple[int, int]:
        """Where the line begins that a place in the text is on, and its number."""
        index = bisect_right(self.breaks, at, key=lambda one: one[0])
        return self.breaks[index - 1] if index else (0, self.line)

    def warns_of(self, found: re.Match[str] | None = None) -> bool:
        """Whether it speaks against what was found in it, or looks for it in what others wrote."""
        if self.warned:
            return True
        if found is None:
            return False
        before = self.low[max(0, found.start() - 140) : found.start()]
        if negated(before) or described(before):
            return True
        return self.kind != "prose" and is_pattern(found[0], self.text)
