"""The Source protocol, and the table of source kinds by which a location becomes a source.

To add a kind of source: write a class with the members of `Source` in a module of its own (subclass `PackageSource` in
`memory.py` when the skills are unpacked in memory), add a row to `SOURCE_KINDS`, and add a case to
`tests/source/test_contract.py`, which holds every kind to the protocol.
"""

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
from metier.skill.diagnostic import Diagnostic
from metier.skill.frontmatter import MAX_SKILL_BYTES
from metier.skill.names import is_valid_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from metier.skill import Identity, IdentityRow, Package

ARCHIVE_SUFFIXES = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
"""Suffixes of archive names."""


class SourceDiagnostic(NamedTuple):
    """A diagnostic about a place instead of one skill in it."""

    where: str
    diagnostic: Diagnostic


class FoundSkills(NamedTuple):
    """The skills that one look at a source found."""

    found: Mapping[str, IdentityRow]
    """For each skill its key (the path of its SKILL.md within the source) and its identity."""
    findings: tuple[SourceDiagnostic, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that were searched and are no skills: a new skill may appear in any of them."""
    cannot_tell: bool = False
    """Whether the look failed for a reason that will pass, so that finding nothing means nothing."""


class Source(Protocol):
    """A place that skills come from. All methods are safe to call from several threads."""

    @property
    def name(self) -> str:
        """The name for people: `deploy@NAME` selects a skill of this source."""
        ...

    @property
    def root(self) -> str | None:
        """The folder on disk that holds the skills; None for a source without one."""
        ...

    def find_skills(self) -> FoundSkills:
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
        """The location of the SKILL.md, for a person to find."""
        ...

    def forced_name(self, key: str) -> str | None:
        """A name that replaces the one in the frontmatter, if there is one."""
        ...

    def cache_key(self) -> str | None:
        """The text that tells this source's index from all others between processes; None to keep no index."""
        ...


class SourceKind(NamedTuple):
    """A kind of source that a location can name, in a program, after `--skills`, or in `METIER_ENTERPRISE`."""

    name: str
    factory: str
    """`module:Class`, imported on first use and called with the location, `name=` and `skill_name=`."""
    accepts: Callable[[str], bool]
    """Whether a location is of this kind."""


SOURCE_KINDS: tuple[SourceKind, ...] = (
    SourceKind(
        name="archive",
        factory="metier.source.archive:ArchiveSource",
        accepts=lambda location: location.lower().endswith(ARCHIVE_SUFFIXES) and not os.path.isdir(location),
    ),
    SourceKind(name="folder", factory="metier.source.folder:FolderSource", accepts=lambda _: True),
)
"""All kinds; the first that accepts a location opens it."""


def open_source(location: Path | str, *, name: str | None = None, skill_name: str | None = None) -> Source:
    """The source of a location, which need not exist yet; `skill_name` replaces the name of the one skill in it.

    >>> open_source("skills.zip").name, open_source("/home/ada/skills").name
    ('skills', 'skills')
    """
    from importlib import import_module

    text = expanded(location)
    module, _, factory = next(kind.factory for kind in SOURCE_KINDS if kind.accepts(text)).partition(":")
    source: Source = getattr(import_module(module), factory)(text, name=name, skill_name=skill_name)
    return source


def expanded(path: Path | str) -> str:
    """A path with `~` for the home folder, unless something here is really called so."""
    absolute(path)
    text = os.fspath(path)
    return text if os.path.lexists(text) else os.path.expanduser(text)


def absolute(path: Path | str) -> str:
    """An absolute path; raises an error of this package for values that cannot be a path here."""
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
    """A name that is given to a skill instead of its own, if any; raises for an invalid name."""
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


class SkillFileError(Exception):
    """A SKILL.md that cannot be read, with the diagnostic that gives the reason."""

    def __init__(self, diagnostic: Diagnostic, *, may_pass: bool = False) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.may_pass = may_pass
        """Whether the next try may succeed without a change of the file."""

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
