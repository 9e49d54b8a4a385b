"""What is known about one place: a row for each skill, in columns.

Columns rather than objects, because a start from the cache must cost little more than looking at the files: names,
identities and marks are read at once, everything else of a row only when somebody asks for that skill.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from metier.skill import Diagnostic, Draft

if TYPE_CHECKING:
    from metier.skill import IdentityRow, Scope
    from metier.source import Finding

BROKEN, DERIVED, SPECIAL, STALE = 1, 2, 4, 8
"""Marks of a row: cannot be loaded; has no description of its own; has a priority or a scope; serves an old version."""


@dataclass(slots=True)
class Shelf:
    """The skills of one place at one moment. Never changed once it is part of a snapshot."""

    keys: list[str] = field(default_factory=list)
    identities: list[IdentityRow] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    rows: list[Draft | bytes] = field(default_factory=list)
    """A draft as it was read, or as the cache keeps it."""
    checks: list[int] | None = None
    """For rows from the cache, their checksums."""
    versions: list[int] = field(default_factory=list)
    """Numbers that differ when the content of a row does, within this process."""
    findings: tuple[Finding, ...] = ()
    folders: tuple[str, ...] = ()
    unsaved: int = 0
    """How many rows differ from the cache."""

    def seen(self) -> dict[str, IdentityRow]:
        """Key to identity, to compare with a scan."""
        return dict(zip(self.keys, self.identities, strict=True))

    def draft(self, index: int) -> Draft:
        """The draft of a row; raises ValueError when the cache it came from was damaged."""
        row = self.rows[index]
        if not isinstance(row, bytes):
            return row
        if self.checks is not None and zlib.crc32(row) != self.checks[index]:
            raise ValueError("damaged row")
        return decode_draft(row)

    def with_findings(self, findings: tuple[Finding, ...], folders: tuple[str, ...]) -> Shelf:
        """The same rows with other things to say about the place."""
        return replace(self, findings=findings, folders=folders)

    def take(self, other: Shelf, index: int, identity: IdentityRow) -> None:
        """Append a row of another shelf."""
        self.keys.append(other.keys[index])
        self.identities.append(identity)
        self.names.append(other.names[index])
        self.marks.append(other.marks[index])
        self.rows.append(other.rows[index])
        self.versions.append(other.versions[index])
        if self.checks is not None:
            self.checks.append(other.checks[index] if other.checks is not None else 0)

    def add(self, key: str, identity: IdentityRow, name: str, draft: Draft, version: int) -> None:
        """Append a row that was just read."""
        self.keys.append(key)
        self.identities.append(identity)
        self.names.append(name)
        self.marks.append(marks_of(draft))
        self.rows.append(draft)
        self.versions.append(version)
        if self.checks is not None:
            self.checks.append(0)


def marks_of(draft: Draft) -> int:
    """The marks of a draft."""
    marks = DERIVED if draft.derived else 0
    if draft.notes:
        for note in draft.notes:
            if note.code == "stale":
                marks |= STALE
            elif note.severity == "error":
                marks |= BROKEN
    for key in draft.mapping:
        if key not in _ordinary_keys and not _is_ordinary(key):
            return marks | SPECIAL
    return marks


# Keys known to be neither a priority nor a scope in any spelling; real files share a few dozen.
_ordinary_keys: set[str] = {"name", "description"}
_ORDINARY_KEPT = 512


def _is_ordinary(key: str) -> bool:
    from metier.skill.fields import canonical_field

    if canonical_field(key) in ("priority", "scope"):
        return False
    if len(_ordinary_keys) < _ORDINARY_KEPT:
        _ordinary_keys.add(key)
    return True


def broken_draft(diagnostic: Diagnostic) -> Draft:
    """The row of a skill that cannot be read at all."""
    return Draft({}, [], (diagnostic,), 0, 0, "", "")


def stale_draft(good: Draft, problem: Diagnostic) -> Draft:
    """The last good version, with a word on why it is still served."""
    notes = tuple(note for note in good.notes if note.code != "stale")
    return good._replace(notes=(*notes, Diagnostic("stale", problem.line, (problem.message,))))


def encode_draft(draft: Draft) -> bytes:
    """A draft as one line of JSON."""
    notes = [[note.code, note.line, note.values] for note in draft.notes]
    return json.dumps([draft.mapping, draft.lines, notes, *draft[3:]], separators=(",", ":")).encode()


def decode_draft(row: bytes) -> Draft:
    """The draft of one line of JSON; raises ValueError for anything else."""
    try:
        mapping, lines, notes, *rest = json.loads(row)
        return Draft(
            mapping, lines, tuple(Diagnostic(code, line, tuple(values)) for code, line, values in notes), *rest
        )
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None


def special_of(draft: Draft, folder: str) -> tuple[int, Scope | None]:
    """Priority and scope, for the few skills that have one."""
    from metier.skill.document import interpret

    skill = interpret(draft, folder)
    return skill.priority, skill.scope
