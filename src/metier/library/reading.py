"""Reading one SKILL.md from its source, and telling a version that can be served from one that cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import FileRefused, FileTooLarge, MetierError
from metier.skill import MAX_SKILL_BYTES, Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.skill import Identity
    from metier.source import Source

_SPOILED = frozenset({"yaml-unreadable", "yaml-too-complex", "frontmatter-not-a-mapping", "frontmatter-too-large"})


class Unreadable(Exception):
    """A file that cannot be read, with the diagnostic that says why."""

    def __init__(self, diagnostic: Diagnostic, *, may_pass: bool = False) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.may_pass = may_pass
        """Whether the next try may succeed without the file having changed."""


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


def spoiled_by(notes: Iterable[Diagnostic], good: Iterable[Diagnostic]) -> Diagnostic | None:
    """What makes a new version unusable that the last good one did not have: an edit that is not finished, mostly."""
    before = {note.code for note in good}
    for note in notes:
        if note.severity == "error" or (note.code in _SPOILED and note.code not in before):
            return note
    return None
