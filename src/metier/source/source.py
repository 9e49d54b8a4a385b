"""The seam between the library and the places skills come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill import Diagnostic, Identity, IdentityRow, Package

ARCHIVE_SUFFIXES = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
"""What the name of an archive ends in."""


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
