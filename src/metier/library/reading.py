"""Reading one SKILL.md from its source, and telling a version that can be served from one that cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import FileRefused, FileTooLarge, MetierError, SkillUnreadable
from metier.skill import MAX_SKILL_BYTES, Diagnostic, draft_name, read_draft

if TYPE_CHECKING:
    from metier.library.entry import Entry
    from metier.skill import Draft, Identity
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


class Unreadable(Exception):
    """A file that cannot be read, with the diagnostic that says why."""

    def __init__(self, diagnostic: Diagnostic, *, may_pass: bool = False) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.may_pass = may_pass
        """Whether the next try may succeed without the file having changed."""

    def error(self, entry: Entry) -> SkillUnreadable:
        """The error for somebody who asked for the skill."""
        return SkillUnreadable(
            f"Skill {entry.name!r} cannot be loaded: {self.diagnostic.message}",
            hint=self.diagnostic.hint,
            name=entry.name,
            location=entry.location,
        )


def read_file(source: Source, key: str) -> tuple[bytes, Identity]:
    """The bytes of a SKILL.md; raises `Unreadable` and nothing else."""
    file = key.rpartition("/")[2]
    try:
        return source.read(key)
    except FileRefused:
        raise Unreadable(Diagnostic("file-not-regular", 1, (file,))) from None
    except FileTooLarge as error:
        sizes = (f"{error.context.get('size', 0):,}", f"{MAX_SKILL_BYTES:,}")
        raise Unreadable(Diagnostic("file-too-large", 1, sizes)) from None
    except MetierError as error:
        raise Unreadable(Diagnostic("file-unreadable", 1, (file, error.message)), may_pass=True) from None
    except OSError as error:
        if os.path.islink(source.location(key)):
            raise Unreadable(Diagnostic("file-symlink", 1, (file,))) from None
        reason = error.strerror or str(error)
        raise Unreadable(Diagnostic("file-unreadable", 1, (file, reason)), may_pass=True) from None


def read_whole(entry: Entry) -> tuple[bytes, Identity]:
    """The bytes of a SKILL.md; raises `Unreadable` for a file that must not take the place of the last good version."""
    data, identity = read_file(entry.place.source, entry.key)
    if entry.is_stale or identity != entry.identity:
        problem = spoiled_by(read_draft(data), entry.draft, entry.folder)
        if problem is not None:
            raise Unreadable(problem)
    return data, identity


def spoiled_by(new: Draft, good: Draft, folder: str) -> Diagnostic | None:
    """The note that makes a new version unusable, which the last good one did not have: mostly an unfinished edit.

    A file that never was good has no such version, and is read as leniently as can be.
    """
    before = {note.code for note in good.notes}
    for note in new.notes:
        if note.severity == "error" or (note.code not in before and _is_unfinished(note)):
            return note
    if good.body_lines and not new.body_lines:
        return Diagnostic("body-empty", None)
    if not _declares_name(new) and _declares_name(good) and draft_name(new, folder) != draft_name(good, folder):
        return Diagnostic("name-missing", 1, (folder,))
    return None


def _is_unfinished(note: Diagnostic) -> bool:
    return note.code in _UNFINISHED or (note.code in _REPAIRED and str(note.values[0]).lower() not in _PROSE)


def _declares_name(draft: Draft) -> bool:
    if "name" in draft.mapping:
        return True
    from metier.skill.fields import canonical_field

    return any(canonical_field(key) == "name" for key in draft.mapping)
