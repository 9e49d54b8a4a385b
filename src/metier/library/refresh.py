"""Refreshing: a place is compared with its rows, and only changed files are read."""

from __future__ import annotations

import errno
import itertools
import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import MetierError, SourceUnavailable
from metier.library.entry import Entry
from metier.library.index_rows import BROKEN, SPECIAL, STALE, IndexRows, broken_frontmatter, stale_frontmatter
from metier.skill import (
    UNSETTLED_INODE,
    Diagnostic,
    Identity,
    frontmatter_name,
    read_frontmatter,
    read_name_only,
)
from metier.source import FoundSkills, SourceDiagnostic
from metier.source.source import SkillFileError, read_skill

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.library.index_cache import IndexCache
    from metier.library.places import Caller, Place
    from metier.library.snapshot import Snapshot
    from metier.skill import Frontmatter, IdentityRow
    from metier.source import Source


_UNFINISHED = frozenset(
    {
        *("frontmatter-missing", "frontmatter-unclosed", "frontmatter-closer", "frontmatter-no-opener"),
        *("frontmatter-delimiter", "frontmatter-fenced", "frontmatter-preceded"),
        *("frontmatter-not-a-mapping", "frontmatter-too-large"),
        *("yaml-unreadable", "yaml-too-complex", "yaml-broken-quotes", "yaml-invalid-flow", "yaml-tab"),
        *("yaml-duplicate-key", "field-restricts-twice"),
        *("invalid-utf8", "description-missing"),
    }
)
"""Notes on a file that was guessed at: it is half written, or somebody is about to write the rest."""
_REPAIRED = frozenset({"yaml-unquoted-colon", "yaml-reserved-start"})
"""Notes on a value that is whole but for its quotes: prose loses nothing by that, any other field its meaning."""
_PROSE = frozenset({"description", "when_to_use", "when-to-use", "summary", "compatibility", "license"})


def read_whole(entry: Entry) -> tuple[bytes, Identity]:
    """The bytes of a SKILL.md; raises `SkillFileError` for a file that must not replace the last good version."""
    data, identity = read_skill(entry.place.source, entry.key)
    if entry.is_stale or identity != entry.identity:
        problem = spoiled_by(read_frontmatter(data), entry.frontmatter, entry.folder)
        if problem is not None:
            raise SkillFileError(problem)
    return data, identity


def spoiled_by(new: Frontmatter, good: Frontmatter, folder: str) -> Diagnostic | None:
    """The note that makes a new version unusable, which the last good one did not have: mostly an unfinished edit.

    A file that never was good has no such version, and is read as leniently as can be.
    """
    before = {note.code for note in good.notes}
    for note in new.notes:
        if note.severity == "error" or (note.code not in before and _is_unfinished(note)):
            return note
    if good.body_lines and not new.body_lines:
        return Diagnostic("body-empty", None)
    if (
        not _declares_name(new)
        and _declares_name(good)
        and frontmatter_name(new, folder) != frontmatter_name(good, folder)
    ):
        return Diagnostic("name-missing", 1, (folder,))
    return None


def _is_unfinished(note: Diagnostic) -> bool:
    return note.code in _UNFINISHED or (note.code in _REPAIRED and str(note.values[0]).lower() not in _PROSE)


def _declares_name(frontmatter: Frontmatter) -> bool:
    if "name" in frontmatter.mapping:
        return True
    from metier.skill.fields import canonical_field

    return any(canonical_field(key) == "name" for key in frontmatter.mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Names of skills by what happened to them; empty, and false, when nothing did."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    files_read: int = 0
    """The number of SKILL.md files that had to be read."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


# Changes worth fewer than one row in this many are left for the next start to read again: writing the whole index
# costs more than reading a few files.
_SAVE_AT_ONE_IN = 100

# Out of descriptors or memory, or a disk that stutters: the skills are not gone because we cannot look.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)

_versions = itertools.count(1)


def look_again(place: Place, rows: IndexRows, cache: IndexCache | None) -> tuple[IndexRows, int]:
    """A place as it is now, and how many files had to be read; the very same rows when nothing changed."""
    scan = _scan(place.source)
    if scan.cannot_tell:
        return rows.seen_with(scan.findings, rows.folders), 0
    if rows.matches(scan.found):
        if scan.findings == rows.findings and scan.folders == rows.folders:
            return rows, 0
        return rows.seen_with(scan.findings, scan.folders), 0
    fresh, read = _read_changed(place.source, scan, rows)
    key = place.source.cache_key()
    worth_saving = fresh.unsaved * _SAVE_AT_ONE_IN >= len(fresh)
    if cache is not None and key is not None and worth_saving and cache.save(key, fresh, _reader(place.source)):
        fresh.unsaved = 0
    return fresh, read


def _reader(source: Source) -> Callable[[str], Frontmatter]:
    """Reads a file to its end; raises ValueError when it cannot be read any more, and then nothing is to be kept."""

    def read(key: str) -> Frontmatter:
        try:
            return read_frontmatter(read_skill(source, key)[0])
        except SkillFileError as problem:
            raise ValueError(problem.diagnostic.message) from None

    return read


def _scan(source: Source) -> FoundSkills:
    """A scan that always succeeds: a place that is missing is empty, one that cannot be read says so."""
    if source.root is not None and not os.path.lexists(source.root):
        return FoundSkills({})  # as most of the places that are searched by default
    try:
        return source.find_skills()
    except SourceUnavailable as error:
        path = str(error.context.get("path", source.name))
        if not os.path.lexists(path):
            return FoundSkills({})
        note = SourceDiagnostic(path, Diagnostic("folder-unreadable", None, (path, error.message)))
        return FoundSkills({}, (note,), cannot_tell=error.context.get("errno") in _PASSING)
    except MetierError as error:
        return FoundSkills(
            {}, (SourceDiagnostic(source.name, Diagnostic("file-unreadable", None, (source.name, error.message))),)
        )


def _read_changed(source: Source, scan: FoundSkills, known: IndexRows) -> tuple[IndexRows, int]:
    fresh = IndexRows()
    index_of = {key: index for index, key in enumerate(known.keys)}
    read = changed = 0
    version = next(_versions)
    for key, found in scan.found.items():
        index = index_of.get(key)
        if index is not None and known.identities[index] == found:
            fresh.take(known, index, found)
            continue
        read += 1
        data, row, problem = _read_or_problem(source, key)
        if row is None:
            continue  # gone since the scan
        if index is not None and _is_known(known, index, data, problem):
            fresh.take(known, index, row)
            continue
        changed += 1
        folder = source.folder(key)
        header = read_name_only(data, folder) if problem is None and index is None else None
        if header is not None:
            fresh.add(key, row, source.forced_name(key) or header.name, header, version)
            continue
        frontmatter = broken_frontmatter(problem) if problem is not None else read_frontmatter(data)
        if index is not None:
            frontmatter = _or_last_good(frontmatter, known, index, folder)
        fresh.add(key, row, source.forced_name(key) or frontmatter_name(frontmatter, folder), frontmatter, version)
    removed = max(0, len(known.keys) + changed - len(fresh.keys))
    fresh.findings, fresh.folders, fresh.unsaved = scan.findings, scan.folders, known.unsaved + read + removed
    return fresh, read


def _read_or_problem(source: Source, key: str) -> tuple[bytes, IdentityRow | None, Diagnostic | None]:
    """A file's bytes and identity, or what is wrong with it; no identity when it is gone."""
    try:
        data, identity = read_skill(source, key)
    except SkillFileError as unreadable:
        now = source.identity(key)
        if now is not None and unreadable.may_pass:
            now = (UNSETTLED_INODE, -1, 0, 0)  # no file's identity: it is read again at the next look
        return b"", now, unreadable.diagnostic
    return data, identity, None


def _is_known(rows: IndexRows, index: int, data: bytes, problem: Diagnostic | None) -> bool:
    """Whether a file that had to be read again, as it was written or failed just before, is as it was."""
    if problem is not None:
        return _is_known_problem(rows, index, problem)
    known = rows.identities[index]
    return known[0] == UNSETTLED_INODE and known == Identity.unsettled(data)


def _is_known_problem(rows: IndexRows, index: int, problem: Diagnostic) -> bool:
    """Whether the row already says this of the file, as broken or as stale."""
    if not rows.marks[index] & (BROKEN | STALE):
        return False
    try:
        notes = rows.frontmatter(index).notes
    except ValueError:
        return False
    return problem in notes or any(note.code == "stale" and note.values == (problem.message,) for note in notes)


def _or_last_good(frontmatter: Frontmatter, rows: IndexRows, index: int, folder: str) -> Frontmatter:
    """The new version, or the last good one when the new one cannot be used or is not whole."""
    if rows.marks[index] & BROKEN:
        return frontmatter
    try:
        good = rows.frontmatter(index)
    except ValueError:
        return frontmatter
    problem = spoiled_by(frontmatter, good, folder)
    return frontmatter if problem is None else stale_frontmatter(good, problem)


def difference(before: Snapshot, after: Snapshot, caller: Caller, files_read: int) -> Change:
    """The names that came, went or stand for something else now, as far as the caller may know."""
    old, new = _versions_by_name(before, caller), _versions_by_name(after, caller)
    return Change(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(name for name in new.keys() & old.keys() if new[name] != old[name])),
        removed=tuple(sorted(old.keys() - new.keys())),
        files_read=files_read,
    )


def _versions_by_name(snapshot: Snapshot, caller: Caller) -> dict[str, set[tuple[int, str, int]]]:
    versions: dict[str, set[tuple[int, str, int]]] = {}
    for number, (place, rows) in enumerate(zip(snapshot.places, snapshot.rows, strict=True)):
        for index, (name, key, version) in enumerate(zip(rows.names, rows.keys, rows.versions, strict=True)):
            if rows.marks[index] & SPECIAL and not Entry(place, rows, index).is_visible_to(caller):
                continue
            versions.setdefault(name, set()).add((number, key, version))
    return versions
