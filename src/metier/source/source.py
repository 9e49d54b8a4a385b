"""The seam between the library and the places skills come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from metier.errors import InvalidArgument, SourceUnavailable
from metier.skill import is_valid_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from metier.skill import Diagnostic, Identity, IdentityRow, Package

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
