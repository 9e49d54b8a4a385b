"""Passages: what a page says below one heading, which a reader takes as one, whichever sentence says it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from metier.scan.rules._hosts import mailboxes
from metier.scan.rules._judging import doubt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

    Passage: TypeAlias = tuple[Statement, ...]

_LENGTH = 40
"""Statements of a passage; where a page has no headings, another one begins."""

_kept: tuple[SkillStatements, tuple[Passage, ...]] | None = None


def passages(read: SkillStatements) -> tuple[Passage, ...]:
    """The statements of a skill's pages that stand below the same heading; those that were asked for last are kept."""
    global _kept
    kept = _kept
    if kept is None or kept[0] is not read:
        kept = _kept = (read, tuple(_passages(read)))
    return kept[1]


def _passages(read: SkillStatements) -> Iterator[Passage]:
    for statements in read.files.values():
        if not statements or statements[0].script:
            continue
        for _, below in groupby(statements, key=lambda one: one.heading):
            some = tuple(one for one in below if not one.warned)
            for start in range(0, len(some), _LENGTH):
                yield some[start : start + _LENGTH]


def named_by_author(some: Iterable[Statement], read: SkillStatements) -> int:
    """The doubt about the most doubtful address or mailbox that statements name."""
    return max(
        (
            doubt(place, read)
            for one in some
            if one.places or "@" in one.text
            for place in (*one.places, *mailboxes(one.text))
        ),
        default=0,
    )
