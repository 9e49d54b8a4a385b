"""The files of a skill that live in memory: written in a program, or unpacked from an archive."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from metier.errors import FileMissing, FileRefused, FileTooLarge
from metier.skill.files import (
    MAX_FILE_BYTES,
    DigestEntry,
    Listing,
    PackageFile,
    checked_path,
    digest_of,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemoryFile(NamedTuple):
    """The content of a file in memory."""

    data: bytes
    executable: bool = False


class MemoryPackage:
    """A skill's files in memory, by path.

    >>> MemoryPackage({"SKILL.md": b"hello"}).read("SKILL.md")
    b'hello'
    """

    def __init__(self, files: Mapping[str, MemoryFile | bytes | str]) -> None:
        self._files: dict[str, MemoryFile] = {}
        for path, content in files.items():
            plain = "/".join(checked_path(path))
            if plain in self._files:
                raise FileRefused(f"{plain!r} is given twice.", hint="Give each file once.", path=path)
            if isinstance(content, str):
                content = content.encode()
            self._files[plain] = content if isinstance(content, MemoryFile) else MemoryFile(content)
        for path in self._files:
            below = next((other for other in self._files if other.startswith(f"{path}/")), None)
            if below is not None:
                raise FileRefused(f"{path!r} is a file and {below!r} lies in it.", hint="Rename one.", path=path)
        self._digest: str | None = None

    def paths(self) -> list[str]:
        """All paths, sorted."""
        return sorted(self._files)

    def listing(self) -> Listing:
        """All files, sorted."""
        return Listing(
            files=tuple(
                PackageFile(path=path, size=len(file.data), kind=kind_of(path), executable=file.executable)
                for path, file in sorted(self._files.items())
            )
        )

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of one file."""
        plain = "/".join(checked_path(path))
        file = self._files.get(plain)
        if file is None:
            if any(other.startswith(f"{plain}/") for other in self._files):
                raise FileRefused(f"{path!r} is a folder, not a file.", hint="Name a file in it.", path=path)
            raise FileMissing(f"{path!r} is not among the skill's files.", hint="List the skill's files.", path=path)
        if len(file.data) > limit:
            raise FileTooLarge(f"{path!r} has more than {limit:,} bytes.", hint="Read a part of it.", path=path)
        return file.data

    def signature(self) -> str:
        """The digest itself: what is in memory does not change."""
        return self.digest()

    def digest(self) -> str:
        """The content digest of the package."""
        if self._digest is None:
            self._digest = digest_of(
                [
                    DigestEntry(path, "exec" if file.executable else "file", hashlib.sha256(file.data).digest())
                    for path, file in self._files.items()
                ]
            )
        return self._digest
