"""The rows of the index: the known skills of one place.

Rows are columns instead of objects, because a start from the cache must cost little more than looking at the files:
names, identities and marks are read at once, everything else of a row when that skill is asked for.
"""

from __future__ import annotations

import json
import zlib
from copy import copy
from typing import TYPE_CHECKING

from metier.skill import Diagnostic, Frontmatter, UnparsedFrontmatter, parse_frontmatter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from metier.skill import IdentityRow, Scope
    from metier.source import SourceDiagnostic

BROKEN, DERIVED, SPECIAL, STALE = 1, 2, 4, 8
"""Marks of a row: cannot be loaded; has no description of its own; has a priority or a scope; serves an old version."""


class IndexRows:
    """The known skills of one place at one moment, in columns. Never changed once it is part of a snapshot."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.identities: list[IdentityRow] = []
        self.names: list[str] = []
        self.marks: list[int] = []
        self.files: list[Frontmatter | UnparsedFrontmatter | bytes] = []
        """The frontmatter of each file, parsed, unparsed, or encoded by the cache."""
        self.versions: list[int] = []
        """Numbers that differ when the content of a row does, within this process."""
        self.findings: tuple[SourceDiagnostic, ...] = ()
        self.folders: tuple[str, ...] = ()
        """Folders that were searched and are no skills."""
        self.unsaved = 0
        """The number of rows that differ from the cache."""

    def __len__(self) -> int:
        return len(self.keys)

    def matches(self, found: Mapping[str, IdentityRow]) -> bool:
        """Whether a source found exactly these files, unchanged."""
        return found == dict(zip(self.keys, self.identities, strict=True))

    def seen_with(self, findings: tuple[SourceDiagnostic, ...], folders: tuple[str, ...]) -> Self:
        """The same rows with the diagnostics and folders of a later look."""
        other = copy(self)
        other.findings, other.folders = findings, folders
        return other

    def take(self, other: IndexRows, index: int, identity: IdentityRow) -> None:
        """Append a row of other rows."""
        self.keys.append(other.keys[index])
        self.identities.append(identity)
        self.names.append(other.names[index])
        self.marks.append(other.marks[index])
        self.files.append(other.files[index])
        self.versions.append(other.versions[index])

    def add(
        self, key: str, identity: IdentityRow, name: str, file: Frontmatter | UnparsedFrontmatter, version: int
    ) -> None:
        """Append the row of a file that was just read."""
        self.keys.append(key)
        self.identities.append(identity)
        self.names.append(name)
        self.marks.append(0 if isinstance(file, UnparsedFrontmatter) else marks_of(file))
        self.files.append(file)
        self.versions.append(version)

    def frontmatter(self, index: int) -> Frontmatter:
        """The frontmatter of a row; raises ValueError when only the file itself can tell, or the cache was damaged."""
        file = self.files[index]
        if isinstance(file, bytes):
            return decode_row(file, self.keys[index])
        return parse_frontmatter(file) if isinstance(file, UnparsedFrontmatter) else file

    def remember(self, index: int, frontmatter: Frontmatter) -> None:
        """Keep a frontmatter in place of its unparsed form, which says the same."""
        if isinstance(self.files[index], UnparsedFrontmatter):
            self.files[index] = frontmatter


def marks_of(frontmatter: Frontmatter) -> int:
    """The marks of a frontmatter."""
    marks = DERIVED if frontmatter.derived else 0
    if frontmatter.notes:
        for note in frontmatter.notes:
            if note.code == "stale":
                marks |= STALE
            elif note.severity == "error":
                marks |= BROKEN
    if _may_be_special(frontmatter) and special_of(frontmatter, "") != (0, None):
        marks |= SPECIAL
    return marks


def _may_be_special(frontmatter: Frontmatter) -> bool:
    """Whether there is a key that could mean a priority or a scope, in any spelling."""
    metadata = frontmatter.mapping.get("metadata")
    if isinstance(metadata, dict) and "metier" in metadata:
        return True
    from metier.skill.fields import canonical_field

    return any(canonical_field(key) in ("priority", "scope") for key in frontmatter.mapping)


def broken_frontmatter(diagnostic: Diagnostic) -> Frontmatter:
    """The row of a skill that cannot be read at all."""
    return Frontmatter({}, [], (diagnostic,), 0, 0, "", "")


def stale_frontmatter(good: Frontmatter, problem: Diagnostic) -> Frontmatter:
    """The last good version, with a word on why it is still served."""
    notes = tuple(note for note in good.notes if note.code != "stale")
    return good._replace(notes=(*notes, Diagnostic("stale", problem.line, (problem.message,))))


def encode_row(row: Frontmatter | UnparsedFrontmatter, key: str, read_again: Callable[[str], Frontmatter]) -> bytes:
    """A row as one line: a checksum over it and its key, and JSON."""
    # Whoever starts from the cache should not have to parse YAML again, least of all what needs repair.
    frontmatter = row if isinstance(row, Frontmatter) else _parse_or_read(row, key, read_again)
    notes = [[note.code, note.line, note.values] for note in frontmatter.notes]
    data = json.dumps([frontmatter.mapping, frontmatter.lines, notes, *frontmatter[3:]], separators=(",", ":")).encode()
    return b"%08x%b" % (_row_check(data, key), data)


def _parse_or_read(header: UnparsedFrontmatter, key: str, read_again: Callable[[str], Frontmatter]) -> Frontmatter:
    try:
        return parse_frontmatter(header)
    except ValueError:
        return read_again(key)


def _row_check(data: bytes, key: str) -> int:
    return zlib.crc32(data, zlib.crc32(key.encode(errors="surrogateescape")))


def decode_row(row: bytes, key: str) -> Frontmatter:
    """The row of one line; raises ValueError for anything else."""
    if _row_check(row[8:], key) != int(row[:8], 16):
        raise ValueError("damaged row")
    try:
        mapping, lines, notes, *facts = json.loads(row[8:])
        told = tuple(Diagnostic(code, line, tuple(values)) for code, line, values in notes)
        return Frontmatter(mapping, lines, told, *facts)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None


def special_of(frontmatter: Frontmatter, folder: str) -> tuple[int, Scope | None]:
    """Priority and scope, for the few skills that have one."""
    from metier.skill.fields import interpret

    skill = interpret(frontmatter, folder)
    return skill.priority, skill.scope
