"""The statements of a skill as conditions ask about them: what each of them says, and what stands around it.

Statements are known by their numbers, and sets of them are masks: see `masks`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from functools import cache, cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from metier._regex_cache import kept_regex
from metier.scan.hosts import mailboxes
from metier.scan.judging import doubt
from metier.scan.masks import mask_of, places_in
from metier.scan.term import Term

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.skill_statements import SkillStatements
    from metier.scan.statement import Statement, StatementKind
    from metier.scan.view import Role
    from metier.scan.words import WordIndex

_NEAR_LINES = 3
"""Lines that lie between neighbouring statements at most, on average, for them to be about the same."""
_ADDRESS = kept_regex(r"(?:\.\w|//|:\\)[^\n]*")
"""What every address has, and the rest of its line."""
KINDS = ("prose", "code", "row", "comment", "frontmatter", "script", "words")
"""What is known of every statement at once."""
_PLACES = {"comment": "hidden", "frontmatter": "manifests"}
_PLACES_BY_ROLE = {"config": "manifests", "script": "scripts", "instructions": "instructions"}
_UNTIMED = 4_000
"""Characters that are looked into before the time is asked for again."""
_PASSAGE = 40
"""Statements of a passage; where a page has no headings, another one begins."""


class Stretch(NamedTuple):
    """Statements that follow each other: of a file, or below a heading."""

    start: int
    end: int

    @property
    def mask(self) -> int:
        return (1 << self.end) - (1 << self.start)


class SkillText:
    """All statements of a skill."""

    def __init__(self, read: SkillStatements, words: WordIndex) -> None:
        self.read: SkillStatements = read
        self.statements: Sequence[Statement] = read.statements
        self.everything = (1 << len(self.statements)) - 1
        """The mask of all statements."""
        self.found: dict[str, list[Hit]] = {}
        """What rules found in it so far, by their ids; sums come last."""
        self.rules: Mapping[str, tuple[str, Severity]] = {}
        """The category and the severity of each rule, by its id."""
        self.files: list[Stretch] = []
        start = 0
        for some in read.files.values():
            if some:
                self.files.append(Stretch(start, start + len(some)))
                start += len(some)
        self._masks: dict[object, int] = {}
        self.kinds = dict.fromkeys(KINDS, 0)
        """The statements of each kind, as a mask."""
        self._places = dict.fromkeys(("hidden", "manifests", "scripts", "instructions", "references"), 0)
        self._sort()
        self._phrases = words.look_at([one.low for one in self.statements], read.low)
        self.may = {term: reduce(or_, phrases.values()) for term, phrases in self._phrases.items()}
        """Of each term the statements that may say it by their words, if there are any."""
        self._said: dict[Term, tuple[int, int]] = {}
        """Of each term the statements that were looked into, and those of them that say it."""
        self._matches: dict[tuple[Term, int], re.Match[str]] = {}
        self.is_late: Callable[[], bool] = lambda: False
        """Whether the time that the skill may take is over."""
        self._match = cache(Term.match)
        """Statements that are alike are looked into once."""
        self._doubts: dict[int, int] = {}
        self._receivers: dict[int, int] = {}

    def _sort(self) -> None:
        """Find out which statements are of each kind, and at each place."""
        alike: dict[tuple[StatementKind, Role, bool, bool], list[int]] = {}
        for at, one in enumerate(self.statements):
            alike.setdefault((one.kind, one.page.role, one.script, one.is_spoken), []).append(at)
        for (kind, role, is_script, is_spoken), places in alike.items():
            mask = mask_of(places, len(self.statements))
            self.kinds[kind] |= mask
            self.kinds["script"] |= mask if is_script else 0
            self.kinds["words"] |= mask if is_spoken else 0
            self._places[_PLACES.get(kind) or _PLACES_BY_ROLE.get(role, "references")] |= mask

    def at_places(self, places: Iterable[str]) -> int:
        """The statements at some of the places where rules look."""
        return sum(self._places[place] for place in places)  # each is at one place

    def may_say(self, needs: Iterable[frozenset[Term]]) -> bool:
        """Whether the skill may say a term of each group."""
        return not any(map(self.may.keys().isdisjoint, needs))

    def says(self, term: Term, among: int) -> int:
        """Those of some statements that say a term."""
        among &= self.may.get(term, 0)
        if not among:
            return 0
        asked, said = self._said.get(term, (0, 0))
        if new := among & ~asked:
            said |= self._search(term, new)
            self._said[term] = asked | new, said
        return among & said

    def _search(self, term: Term, among: int) -> int:
        """Look into statements for a term; what matches is kept. A slow phrase ends when the time is over."""
        said = looked = 0
        for number, mask in sorted(self._phrases[term].items()):
            mask &= among & ~said
            places = []
            for at in places_in(mask) if mask else ():
                one = self.statements[at]
                looked += len(one.text)
                if looked > _UNTIMED:
                    looked = 0
                    if self.is_late():
                        raise TimeoutError
                found = self._match(term, number, one.text, one.low)
                if found is not None:
                    self._matches[term, at] = found
                    places.append(at)
            if places:
                said |= mask_of(places, len(self.statements))
        return said

    def find(self, term: Term, at: int) -> re.Match[str] | None:
        """Where a statement says a term."""
        return self._matches[term, at] if self.says(term, 1 << at) else None

    def phrases_of(self, term: Term, at: int) -> tuple[int, ...]:
        """The phrases of a term that a statement may say by its words, in order."""
        return tuple(number for number, mask in sorted(self._phrases[term].items()) if mask >> at & 1)

    def where(self, among: int, holds: Callable[[SkillText, int], bool]) -> int:
        """Those of some statements that something holds for."""
        return mask_of([at for at in places_in(among) if holds(self, at)], len(self.statements))

    def once(self, holds: Callable[[SkillText], int]) -> int:
        """The statements that something holds for, which is found out once."""
        mask = self._masks.get(holds)
        if mask is None:
            mask = self._masks[holds] = holds(self)
        return mask

    @cached_property
    def addressed(self) -> int:
        """The statements that may name an address or a mailbox."""
        return self.matching(_ADDRESS)

    def matching(self, regex: re.Pattern[str]) -> int:
        """The statements in which an expression is found, in lower case."""
        mask = self._masks.get(regex)
        if mask is None:
            starts = self.read.starts
            places = {bisect_right(starts, found.start()) - 1 for found in regex.finditer(self.read.low)}
            mask = self._masks[regex] = mask_of(places, len(starts))
        return mask

    def file_of(self, at: int) -> Stretch:
        """The statements of the file that one stands in."""
        return self.files[bisect_right(self._file_starts, at) - 1]

    @cached_property
    def _file_starts(self) -> list[int]:
        return [file.start for file in self.files]

    def passage_of(self, at: int) -> Stretch:
        """The statements below the same heading."""
        return self._passages[bisect_right(self._passage_starts, at) - 1]

    @cached_property
    def _passages(self) -> list[Stretch]:
        found = []
        for file in self.files:
            start = file.start
            for at in range(file.start, file.end):
                if self.statements[at].heading != self.statements[start].heading or at - start >= _PASSAGE:
                    found.append(Stretch(start, at))
                    start = at
            found.append(Stretch(start, file.end))
        return found

    @cached_property
    def _passage_starts(self) -> list[int]:
        return [passage.start for passage in self._passages]

    def stretches(self, scope: str, among: int) -> Iterator[Stretch]:
        """The files or the passages that some statements stand in, or the whole skill."""
        if scope == "skill":
            yield Stretch(0, len(self.statements))
            return
        stretch_of = self.file_of if scope == "file" else self.passage_of
        while among:
            stretch = stretch_of((among & -among).bit_length() - 1)
            yield stretch
            among = among >> stretch.end << stretch.end

    def is_close(self, at: int, hits: int, ahead: int, behind: int) -> bool:
        """Whether one of some statements stands close to another one, in the same file."""
        file = self.file_of(at)
        start, end = max(file.start, at - ahead), min(file.end, at + behind + 1)
        line, reach = self.statements[at].line, _NEAR_LINES * max(ahead, behind)
        close = hits >> start & (1 << end - start) - 1
        return any(abs(self.statements[start + other].line - line) <= reach for other in places_in(close))

    def doubt(self, at: int) -> int:
        """How little is known of the address that a statement names; -1 without one."""
        level = self._doubts.get(at)
        if level is None:
            places = self.statements[at].places
            level = self._doubts[at] = max((doubt(place, self.read) for place in places), default=-1)
        return level

    def receiver(self, at: int) -> int:
        """The same of addresses and mailboxes."""
        level = self._receivers.get(at)
        if level is None:
            boxes = mailboxes(self.statements[at].text)
            level = max((doubt(place, self.read) for place in boxes), default=-1)
            level = self._receivers[at] = max(level, self.doubt(at))
        return level

    @cached_property
    def host_counts(self) -> Counter[str]:
        """How many statements name each host, in addresses and mailboxes."""
        return Counter(
            host
            for one in self.statements
            if "." in one.text
            for host in {place.host for place in (*one.places, *mailboxes(one.text))}
        )
