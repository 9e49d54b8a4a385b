"""All statements of a skill, read once for all rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.scan.rules._mercy import about_security
from metier.scan.rules._pages import statements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement, StatementKind
    from metier.scan.view import SkillView


@dataclass(frozen=True)
class SkillStatements:
    """All statements of a skill, and what it is about."""

    view: SkillView
    statements: tuple[Statement, ...]
    subject: str
    """Name and description, in lower case."""
    about_security: bool
    files: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    hits: dict[str, tuple[Hit, ...]] = field(default_factory=dict)
    """What rules found, so that the one that looks at all of it need not ask again."""
    doubts: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    """How little is known of who answers at an address."""
    programs: dict[bool, tuple[tuple[Statement, ...], ...]] = field(default_factory=dict)
    """The code that runs together, alone and with what it imports."""
    _seen: dict[int, tuple[tuple[str, ...], frozenset[int]]] = field(default_factory=dict)
    """By the identity of the marks, which are kept so that it stays theirs; to hash them would take longer."""
    _marked: dict[str, frozenset[int]] = field(default_factory=dict)
    _answers: dict[tuple[Callable[[Statement], bool], int], bool] = field(default_factory=dict)
    _told: dict[tuple[StatementKind, ...], tuple[Statement, ...]] = field(default_factory=dict)

    @cached_property
    def low(self) -> str:
        """All that it says, in lower case, to look into before looking closely."""
        return "\n".join(statement.low for statement in self.statements)

    @cached_property
    def squashed(self) -> str:
        """Name and description without anything between the letters."""
        return re.sub(r"[^a-z0-9]", "", self.subject)

    @cached_property
    def named(self) -> frozenset[str]:
        """The words of its name that have at least three letters."""
        return frozenset(re.findall(r"[a-z0-9]{3,}", self.view.name.lower())) - _ANYTHING

    @cached_property
    def words(self) -> frozenset[str]:
        """What it calls itself, in words of at least three letters."""
        front = self.view.frontmatter
        texts = [
            self.view.name,
            self.view.description,
            *(str(front.get(key, "")) for key in ("homepage", "author", "title")),
        ]
        meta = front.get("metadata")
        if isinstance(meta, dict):
            texts.append(str(meta)[:2_000])
        return frozenset(re.findall(r"[a-z0-9]{3,}", " ".join(texts).lower()[:6_000]))

    def has(self, *words: str) -> bool:
        """Whether any of these words occurs anywhere in it."""
        low = self.low
        return any(word in low for word in words)

    def sees(self, one: Statement, marks: tuple[str, ...]) -> bool:
        """Whether a statement of this skill has one of these in it; which ones do is found out once for all."""
        seen = self._seen.get(id(marks))
        if seen is None:
            having = frozenset().union(*map(self._having, marks))
            seen = self._seen[id(marks)] = marks, having
        return id(one) in seen[1]

    def holds(self, question: Callable[[Statement], bool], one: Statement) -> bool:
        """The answer to a question about a statement, which several rules ask and only the first has to look for."""
        key = question, id(one)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = question(one)
        return answer

    def _having(self, mark: str) -> frozenset[int]:
        """Which statements have one mark in them, that several rules may look for."""
        marked = self._marked.get(mark)
        if marked is None:
            marked = self._marked[mark] = frozenset(self._places(mark))
        return marked

    def _places(self, mark: str) -> Iterator[int]:
        low, starts = self.low, self._starts
        at = low.find(mark)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            yield id(self.statements[index])
            # On with the next statement: where else in this one it occurs does not matter.
            at = low.find(mark, starts[index + 1]) if index + 1 < len(starts) else -1

    @cached_property
    def _starts(self) -> list[int]:
        """Where in `low` each statement begins."""
        return list(accumulate((len(one.low) + 1 for one in self.statements[:-1]), initial=0))

    def told(self, *kinds: StatementKind) -> Iterator[Statement]:
        """The statements of these kinds, or all."""
        if not kinds:
            return iter(self.statements)
        told = self._told.get(kinds)
        if told is None:
            told = self._told[kinds] = tuple(one for one in self.statements if one.kind in kinds)
        return iter(told)


_ANYTHING = frozenset(
    {"api", "app", "the", "for", "and", "get", "data", "file", "skill", "agent", "tool", "code", "web"}
)
"""What a skill may be called that says nothing of who made it."""

_kept: tuple[SkillView, SkillStatements] | None = None


def reading(view: SkillView) -> SkillStatements:
    """The view taken apart; the one that was asked for last is kept, as one rule after the other asks for it."""
    global _kept
    kept = _kept
    if kept is None or kept[0] is not view:
        kept = _kept = (view, _read(view))
    return kept[1]


def _read(view: SkillView) -> SkillStatements:
    subject = f"{view.name} {view.description}".lower()
    security = about_security(subject)
    files = {file.path: tuple(statements_of(file, security)) for file in view.files}
    return SkillStatements(view, tuple(one for some in files.values() for one in some), subject, security, files)
