"""The seam between the library and the places skills come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from metier.errors import (
    FileRefused,
    FileTooLarge,
    InvalidArgument,
    MetierError,
    SkillUnreadable,
    SourceUnavailable,
)
from metier.skill import MAX_SKILL_BYTES, Diagnostic, is_valid_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from metier.skill import Identity, IdentityRow, Package

ARCHIVE_SUFFIXES = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
"""What the name of an archive ends in."""


def absolute(path: Path | str) -> str:
    """A path from its root on; raises an error of ours for what can be no path here."""
    try:
        text = os.fspath(path)
        os.fsencode(text)
        if not isinstance(text, str) or "\0" in text:
            raise ValueError("not a path")
        return os.path.abspath(text)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{path!r} cannot be a path.", hint="Check the path.") from None
    except OSError:
        raise SourceUnavailable("The working folder was removed.", hint="Change into a folder that exists.") from None


def checked_skill_name(name: str | None) -> str | None:
    """A name that is given to a skill instead of its own, if any; raises for what is no name."""
    if name is not None and not (isinstance(name, str) and is_valid_name(name)):
        raise InvalidArgument(
            f"{name!r:.80} is not a valid skill name.", hint="Use a-z, 0-9 and single hyphens, at most 64."
        )
    return name


def require_one(where: str, found: Collection[str], skill_name: str | None) -> None:
    """Raise where one name was given and there are several skills."""
    if skill_name is not None and len(found) > 1:
        raise SourceUnavailable(
            f"{where} has {len(found)} skills, so they cannot be called {skill_name!r}.",
            hint="Name the folder of one skill.",
            path=where,
        )


class Finding(NamedTuple):
    """Something to say about a place rather than about one skill in it."""

    where: str
    diagnostic: Diagnostic


class Scan(NamedTuple):
    """What one look at a source found."""

    found: Mapping[str, IdentityRow]
    """For each skill its key (the path of its SKILL.md within the source) and its identity."""
    findings: tuple[Finding, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that were searched and are no skills: a new skill may appear in any of them."""
    cannot_tell: bool = False
    """Whether looking failed for a reason that will pass, so that finding nothing means nothing."""


class Source(Protocol):
    """A place skills come from. Everything it does is safe to call from several threads."""

    @property
    def name(self) -> str:
        """What a person calls it: `deploy@NAME` selects a skill of this source."""
        ...

    def scan(self) -> Scan:
        """Find the skills, reading as little as possible."""
        ...

    def identity(self, key: str) -> IdentityRow | None:
        """The present identity of one skill, or None when it is gone."""
        ...

    def read(self, key: str) -> tuple[bytes, Identity]:
        """The bytes of one SKILL.md, with the identity under which they were read."""
        ...

    def package(self, key: str) -> Package:
        """All files of one skill."""
        ...

    def folder(self, key: str) -> str:
        """The name of the skill's folder."""
        ...

    def location(self, key: str) -> str:
        """Where the SKILL.md is, for a person to find."""
        ...

    def forced_name(self, key: str) -> str | None:
        """A name that replaces the one in the frontmatter, if there is one."""
        ...

    def cache_key(self) -> str | None:
        """What tells this source's index from all others between processes; None when it is not worth keeping."""
        ...


class SkillFileError(Exception):
    """A file that cannot be read, with the diagnostic that says why."""

    def __init__(self, diagnostic: Diagnostic, *, may_pass: bool = False) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.may_pass = may_pass
        """Whether the next try may succeed without the file having changed."""

    def error(self, name: str, location: str) -> SkillUnreadable:
        """The error for the caller who asked for the skill."""
        return SkillUnreadable(
            f"Skill {name!r} cannot be loaded: {self.diagnostic.message}",
            hint=self.diagnostic.hint,
            name=name,
            location=location,
        )


def read_skill(source: Source, key: str) -> tuple[bytes, Identity]:
    """The bytes of a SKILL.md; raises `SkillFileError` and nothing else."""
    file = key.rpartition("/")[2]
    try:
        return source.read(key)
    except FileRefused:
        raise SkillFileError(Diagnostic("file-not-regular", 1, (file,))) from None
    except FileTooLarge as error:
        sizes = (f"{error.context.get('size', 0):,}", f"{MAX_SKILL_BYTES:,}")
        raise SkillFileError(Diagnostic("file-too-large", 1, sizes)) from None
    except MetierError as error:
        raise SkillFileError(Diagnostic("file-unreadable", 1, (file, error.message)), may_pass=True) from None
    except OSError as error:
        if os.path.islink(source.location(key)):
            raise SkillFileError(Diagnostic("file-symlink", 1, (file,))) from None
        reason = error.strerror or str(error)
        raise SkillFileError(Diagnostic("file-unreadable", 1, (file, reason)), may_pass=True) from None
