"""A statement: a sentence of prose or a line of code, with what stands around it.

Rules ask of a statement not only what it says but how: as something to do, or as something to look out for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass
from metier._regex_cache import kept_regex
from metier.scan.hosts import addresses
from metier.scan.rule import Hit
from metier.scan.stance import described, forbids, hints, hints_in_code, in_quotes, is_pattern, negated, stance_of

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from metier.scan.finding import Severity
    from metier.scan.hosts import HostAddress
    from metier.scan.stance import Page, Stance

_SHOWN = 150
"""Characters of a statement that a finding is sure to show."""

_REMARK = kept_regex(r"\s*(?:#|//|/?\*|<!--|\"\"\"|echo\b)")
StatementKind: TypeAlias = Literal["prose", "row", "code", "comment", "frontmatter"]


@lru_cache(maxsize=1024)
def _places_in(text: str) -> tuple[HostAddress, ...]:
    return tuple(addresses(text, bare=True))


class JoinedLines:
    """Lines that are read as one, each with its number."""

    def __init__(self, lines: Sequence[tuple[int, str]], *, hyphens: bool = False) -> None:
        """With `hyphens`, a word that is cut at the end of a line is put together."""
        self._lines = lines
        self._pieces = [
            line[:-1] if hyphens and line[-1:] == "-" and line[-2:-1].isalpha() else f"{line} " for _, line in lines
        ]
        self.text = "".join(self._pieces).removesuffix(" ")

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self._pieces[:-1]), initial=0))

    def cut(self, start: int, piece: str) -> Cut:
        """A piece of the text that begins somewhere."""
        return self, start, start + len(piece)

    def breaks(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Where lines begin within a piece of the text; none when it is all on the first line."""
        first, last = max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, end)
        lines = zip(self._starts[first:last], self._lines[first:last], strict=True) if last > 1 else ()
        return tuple((max(0, begin - start), number) for begin, (number, _) in lines)


Cut: TypeAlias = tuple[JoinedLines, int, int]
"""A piece of lines that are read as one: where it begins and ends in them."""


@dataclass(eq=False)
class Statement:
    """A sentence, a row of a table, or a line of code with its continuation.

    A skill has hundreds and few of them matter: what takes time is found out when it is asked for.
    """

    page: Page
    """The file that it stands in."""
    line: int
    text: str
    """As it is meant to be read: no invisible characters, no emphasis, no lookalike letters."""
    kind: StatementKind
    heading: str = ""
    """The headings that it stands below, but for the title of the page, in lower case."""
    lead: str = ""
    """What introduces it: the sentence before a list, a table or a fence, in lower case."""
    language: str = ""
    listed: bool = False
    """Whether it is an item of a list or a row of a table, which the lead is about."""
    quoted: bool = False
    """Whether it is a quotation by its marks: of a block, or quotes or backticks around all of it."""
    script: bool = False
    """Whether it stands in a file of its own kind and not in a page of text."""
    veiled: bool = False
    """Whether quotes, escapes or the like hid a command in it."""
    cut: Cut | None = None
    """The lines that it goes on over, if there are several."""

    def __post_init__(self) -> None:
        self.low = self.text.lower()

    @cached_property
    def breaks(self) -> tuple[tuple[int, int], ...]:
        """Where in its text each further line of the file begins that it goes on over: the place, and the line."""
        return self.cut[0].breaks(*self.cut[1:]) if self.cut is not None else ()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.page.path

    @cached_property
    def stance(self) -> Stance:
        """Who says it to whom."""
        return stance_of(self)

    @cached_property
    def places(self) -> tuple[HostAddress, ...]:
        """The addresses in it, also those without a scheme."""
        # Most sentences have neither, and so no address.
        has_marks = "." in self.text or ":" in self.text
        return _places_in(self.text) if has_marks else ()

    @property
    def is_spoken(self) -> bool:
        """Whether it is language: prose, a remark in code, or a line of a fence that holds no code."""
        if self.kind != "code" or _REMARK.match(self.text):
            return True
        return not self.script and self.language in ("", "text", "markdown")

    @cached_property
    def bad_company(self) -> bool:
        """Whether what introduces it, or where it stands, calls it something to look out for."""
        if self.script or self.kind in ("comment", "frontmatter"):
            return False
        if self.kind == "code":
            return self.page.warns(self.heading, self.lead, code=True)
        return self.page.warns(self.heading, self.lead if self.listed else "") or (
            self.kind == "row" and self.page.about_security
        )

    @cached_property
    def warned(self) -> bool:
        """Whether it stands among many signs of attacks that a page on security lists, as something to look out for."""
        if self.script:
            return self.page.is_inert and in_quotes(self.text)
        if self.kind in ("comment", "frontmatter") or not self.page.lists_signs:
            return False
        return self.bad_company or (hints_in_code if self.kind == "code" else hints)(self.low)

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
            return Hit(
                self.path, line, (text[start:] if whole and at > _SHOWN else text)[:400], message, severity, self.stance
            )
        return Hit(self.path, self.line, text[:400], message, severity, self.stance)

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
        if (negated(before) and not forbids(found[0])) or described(before):
            return True
        return self.kind != "prose" and is_pattern(found[0], self.text)
