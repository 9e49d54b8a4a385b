"""Sources of skills whose files are in memory."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, SkillUnreadable
from metier.hints import for_people
from metier.skill import MAX_SKILL_BYTES, Identity, MemoryPackage
from metier.source.source import FoundSkills, checked_skill_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill import IdentityRow, MemoryFile


class PackageSource(ABC):
    """The common part of sources that hold each skill as a package in memory; subclasses supply `packages`."""

    root: str | None = None
    name: str = ""

    @abstractmethod
    def packages(self) -> Mapping[str, MemoryPackage]:
        """The packages by key, as they are now."""

    def find_skills(self) -> FoundSkills:
        """All packages."""
        return FoundSkills({key: _content_identity(key, package) for key, package in dict(self.packages()).items()})

    def identity(self, key: str) -> IdentityRow | None:
        """An identity that is made of the content itself."""
        package = self.packages().get(key)
        return _content_identity(key, package) if package is not None else None

    def read(self, key: str) -> tuple[bytes, Identity]:
        """The bytes of one SKILL.md."""
        package = self.package(key)
        return package.read(key.rpartition("/")[2], limit=MAX_SKILL_BYTES), _content_identity(key, package)

    def package(self, key: str) -> MemoryPackage:
        """The files of one skill."""
        package = self.packages().get(key)
        if package is None:
            raise self.missing(key)
        return package

    def missing(self, key: str) -> SkillUnreadable:
        """The error for a key that no package has."""
        return SkillUnreadable(f"There is no {key!r} in memory.", hint="`library.refresh()` sees what is.")

    def folder(self, key: str) -> str:
        """The last folder of the key."""
        return key.rpartition("/")[0].rpartition("/")[2]

    def location(self, key: str) -> str:
        """A label, as there is no path."""
        return f"{self.name}:{key}"

    def forced_name(self, key: str) -> str | None:
        """No name but that of the frontmatter."""
        return None

    def cache_key(self) -> str | None:
        """No key: an index of files in memory is not worth keeping."""
        return None


class MemorySource(PackageSource):
    """Skills that a program brings along: a mapping of paths to contents for each.

    >>> source = MemorySource.of({"SKILL.md": "---\\nname: a\\ndescription: b\\n---\\nDo."}, skill_name="renamed")
    >>> list(source.find_skills().found)
    ['renamed/SKILL.md']
    """

    def __init__(
        self, packages: Mapping[str, MemoryPackage], *, name: str = "memory", skill_name: str | None = None
    ) -> None:
        checked_skill_name(skill_name)
        self.name = name
        self._packages: dict[str, MemoryPackage] = {}
        self._forced: dict[str, str] = {}
        self._folders: set[str] = set()
        self._numbers = itertools.count(1)
        for folder, package in packages.items():
            self._add_package(folder, package, skill_name)

    @classmethod
    def of(
        cls, files: Mapping[str, MemoryFile | bytes | str], *, skill_name: str | None = None, name: str = "memory"
    ) -> MemorySource:
        """A source of one skill; `skill_name` replaces the name in its frontmatter."""
        source = cls({}, name=name)
        source.add(files, skill_name=skill_name)
        return source

    def add(self, files: Mapping[str, MemoryFile | bytes | str], *, skill_name: str | None = None) -> MemorySource:
        """Add a skill; returns the source, so that calls can be chained."""
        skill_name = checked_skill_name(skill_name)
        free = (name for name in (f"skill-{number}" for number in self._numbers) if name not in self._folders)
        self._add_package(skill_name or next(free), MemoryPackage(files), skill_name)
        return self

    def _add_package(self, folder: str, package: MemoryPackage, skill_name: str | None) -> None:
        files = [path for path in package.paths() if path.lower() == "skill.md"]
        if not files:
            raise InvalidArgument(
                "A skill needs a SKILL.md at the root of its files.",
                hint=for_people("Give one mapping for each skill; `metier new NAME` shows how a SKILL.md begins."),
            )
        key = f"{folder}/{'SKILL.md' if 'SKILL.md' in files else files[0]}"
        if folder in self._folders:
            raise InvalidArgument(f"There is a skill {folder!r} already.", hint="Give each skill its own name.")
        self._packages[key] = package
        self._folders.add(folder)
        if skill_name is not None:
            self._forced[key] = skill_name

    def packages(self) -> Mapping[str, MemoryPackage]:
        """The packages that were given and added."""
        return self._packages

    def forced_name(self, key: str) -> str | None:
        """The name given with the files."""
        return self._forced.get(key)


def _content_identity(key: str, package: MemoryPackage) -> Identity:
    """An identity made of content, for files that have no place on disk."""
    size, number = package.fingerprint(key.rpartition("/")[2])
    return Identity(0, size, 0, number)
