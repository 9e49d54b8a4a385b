"""Skills made of files in memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, SkillUnreadable
from metier.skill import Identity, MemoryPackage, is_valid_name
from metier.source.source import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill import IdentityRow, MemoryFile


class MemorySource:
    """Skills that a program brings along: a mapping of paths to contents for each.

    >>> source = MemorySource.of({"SKILL.md": "---\\nname: a\\ndescription: b\\n---\\nDo."}, skill_name="renamed")
    >>> list(source.scan().found)
    ['renamed/SKILL.md']
    """

    def __init__(self, packages: Mapping[str, MemoryPackage], *, name: str = "memory") -> None:
        self._name = name
        self._packages: dict[str, MemoryPackage] = {}
        self._files: dict[str, str] = {}
        self._forced: dict[str, str] = {}
        for folder, package in packages.items():
            self._put(folder, package)

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
        if skill_name is not None and not is_valid_name(skill_name):
            raise InvalidArgument(
                f"{skill_name!r} is not a valid skill name.", hint="Use a-z, 0-9 and single hyphens, at most 64."
            )
        folder = skill_name or f"skill-{len(self._packages) + 1}"
        self._put(folder, MemoryPackage(files))
        if skill_name is not None:
            self._forced[folder] = skill_name
        return self

    def _put(self, folder: str, package: MemoryPackage) -> None:
        files = [path for path in package.paths() if path.lower() == "skill.md"]
        if not files:
            raise InvalidArgument(
                "A skill needs a SKILL.md among its files.", hint="Add one; `metier new NAME` shows how it begins."
            )
        if folder in self._packages:
            raise InvalidArgument(f"There is a skill {folder!r} already.", hint="Give each skill its own name.")
        self._packages[folder] = package
        self._files[folder] = "SKILL.md" if "SKILL.md" in files else files[0]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self._name

    def scan(self) -> Scan:
        """All of them."""
        return Scan({f"{folder}/{file}": self._identity(folder) for folder, file in dict(self._files).items()})

    def _identity(self, folder: str) -> Identity:
        data = self._packages[folder].read(self._files[folder])
        return Identity(0, len(data), 0, int.from_bytes(hashlib.sha256(data).digest()[:7], "big"))

    def identity(self, key: str) -> IdentityRow | None:
        """Made of the content itself."""
        folder = self.folder(key)
        return self._identity(folder) if folder in self._packages else None

    def read(self, key: str) -> tuple[bytes, Identity]:
        """The bytes of one SKILL.md."""
        folder = self.folder(key)
        if folder not in self._packages:
            raise SkillUnreadable(f"There is no {key!r} in memory.", hint="`library.refresh()` sees what is.")
        return self._packages[folder].read(self._files[folder]), self._identity(folder)

    def package(self, key: str) -> MemoryPackage:
        """The files in memory."""
        return self._packages[self.folder(key)]

    def folder(self, key: str) -> str:
        """The first segment of the key."""
        return key.partition("/")[0]

    def location(self, key: str) -> str:
        """A label, as there is no path."""
        return f"{self._name}:{key}"

    def forced_name(self, key: str) -> str | None:
        """The name given with the files."""
        return self._forced.get(self.folder(key))

    def cache_key(self) -> None:
        """Nothing to keep: it is in memory already."""
        return
