"""Skills in an archive: a .zip, a .skill or a .tar.gz, read in place and never unpacked to disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from metier.errors import ArchiveRefused, SkillUnreadable
from metier.hints import for_people
from metier.skill import Identity, MemoryFile, MemoryPackage
from metier.skill.package import EXCLUDED
from metier.source.memory import PackageSource
from metier.source.source import ARCHIVE_SUFFIXES, absolute, checked_skill_name, require_one
from metier.source.unpack import ArchiveLimits, unpack

if TYPE_CHECKING:
    from metier.source.source import FoundSkills
    from metier.source.unpack import ArchiveMember


class ArchiveSource(PackageSource):
    """The skills of an archive; the whole archive is refused when any part of it is hostile.

    `skill_name` replaces the name in the frontmatter of its one skill.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        name: str | None = None,
        limits: ArchiveLimits | None = None,
        skill_name: str | None = None,
    ) -> None:
        self.path = absolute(path)
        self._stem = _stem(self.path)
        self.name = name or self._stem
        self._limits = limits or ArchiveLimits()
        self._skill_name = checked_skill_name(skill_name)
        self._lock = threading.Lock()
        self._read_under: Identity | None = None
        self._packages: dict[str, MemoryPackage] = {}

    def packages(self) -> dict[str, MemoryPackage]:
        """The packages by key, unpacked again when the file has changed."""
        try:
            status = Identity.of(os.stat(self.path))
        except OSError as error:
            raise ArchiveRefused(
                f"{self.path} cannot be read: {error.strerror}.", hint="Check the path.", path=self.path
            ) from None
        with self._lock:
            if self._read_under != status:
                self._packages = packages_of(unpack(Path(self.path), limits=self._limits), self._stem)
                self._read_under = status
            return self._packages

    def find_skills(self) -> FoundSkills:
        """Unpack in memory when the file is new, and find the skills."""
        require_one(self.path, self.packages(), self._skill_name)
        return super().find_skills()

    def missing(self, key: str) -> SkillUnreadable:
        """The error for a key that is not in the archive."""
        return SkillUnreadable(f"{self.path} has no {key}.", hint=for_people("`metier list` shows what it has."))

    def folder(self, key: str) -> str:
        """The name of the skill's folder; the archive's own for a skill at its root."""
        return super().folder(key) or self._stem

    def location(self, key: str) -> str:
        """The archive and the path in it."""
        return f"{self.path}!/{key}"

    def forced_name(self, key: str) -> str | None:
        """The name given with the archive."""
        return self._skill_name


def packages_of(members: dict[str, ArchiveMember], stem: str) -> dict[str, MemoryPackage]:
    """The skills among the members of an archive, each with the files below its SKILL.md."""
    roots: dict[str, str] = {}
    for path in sorted(members, key=lambda path: (path.count("/"), path.rpartition("/")[2] != "SKILL.md", path)):
        folder, _, file = path.rpartition("/")
        if file.lower() == "skill.md" and not any(_inside(folder, root) for root in roots):
            roots[folder] = path
    if not roots:
        raise ArchiveRefused(f"{stem} holds no SKILL.md.", hint="Pack the skill's folder with its SKILL.md.")
    packages: dict[str, MemoryPackage] = {}
    for folder, key in roots.items():
        start = len(folder) + 1 if folder else 0
        packages[key] = MemoryPackage(
            {
                path[start:]: MemoryFile(*member)
                for path, member in members.items()
                if _inside(path, folder) and EXCLUDED.isdisjoint(path[start:].split("/"))
            }
        )
    return packages


def _inside(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _stem(path: str) -> str:
    name = os.path.basename(path)
    for suffix in ARCHIVE_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or name
    return name
