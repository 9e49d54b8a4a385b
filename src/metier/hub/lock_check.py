"""The difference between a lock file and the folders that it is about, file by file where the content is known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass
from metier.errors import MetierError
from metier.skill import FolderPackage
from metier.skill.package import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.library.lock_file import LockedSkill, LockFile
    from metier.skill.package import DigestEntry
    from metier.store import Revision, TenantScope

Problem: TypeAlias = Literal["changed", "missing", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """A file that is not as it was locked; `expected` or `actual` is None where there is none."""

    path: str
    expected: str | None
    """The sha256 of its content, as hexadecimal digits."""
    actual: str | None
    expected_mode: str = ""
    actual_mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockDifference:
    """A skill that is not as it was locked."""

    skill: LockedSkill
    location: str
    problem: Problem
    actual: str | None = None
    """The digest of what lies there; None for nothing that can be read."""
    files: tuple[FileDifference, ...] = ()
    """The files that differ; none where the locked content is not kept on this machine."""
    reason: str = ""


def check_lock(lock: LockFile, scope: TenantScope | None = None) -> Iterator[LockDifference]:
    """The skills of a lock file that are not as it says. The store knows the files of contents that it keeps."""
    for skill in lock.skills:
        location = lock.folder_of(skill)
        try:
            entries = FolderPackage(location).contents()
        except (MetierError, OSError) as error:
            reason = error.message if isinstance(error, MetierError) else error.strerror or ""
            if os.path.lexists(location):
                yield LockDifference(skill=skill, location=location, problem="unreadable", reason=reason)
            else:
                yield LockDifference(skill=skill, location=location, problem="missing")
            continue
        actual = digest_of(entries)
        if actual not in skill.digests:
            kept = scope.revisions.get(skill.digest) if scope is not None else None
            files = tuple(_differing_files(kept, entries)) if kept is not None else ()
            yield LockDifference(skill=skill, location=location, problem="changed", actual=actual, files=files)


def _differing_files(kept: Revision, entries: Iterable[DigestEntry]) -> Iterator[FileDifference]:
    wanted = {file.path: (file.sha256, str(file.mode)) for file in kept.files}
    there = {entry.path: (entry.content.hex(), str(entry.mode)) for entry in entries}
    for path in sorted({*wanted, *there}):
        expected, actual = wanted.get(path, (None, "")), there.get(path, (None, ""))
        if expected != actual:
            yield FileDifference(
                path=path, expected=expected[0], actual=actual[0], expected_mode=expected[1], actual_mode=actual[1]
            )
