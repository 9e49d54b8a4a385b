"""The files of a skill that live in memory: written in a program, or unpacked from an archive."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from metier.errors import FileMissing, FileRefused, FileTooLarge, InvalidArgument
from metier.skill.files import (
    MAX_FILE_BYTES,
    NAME_LISTED,
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
            self._files[plain] = _file(plain, content)
        for path in self._files:
            for end in (i for i, character in enumerate(path) if character == "/"):
                if path[:end] in self._files:
                    raise FileRefused(
                        f"{path[:end]!r} is a file and {path!r} lies in it.", hint="Rename one.", path=path
                    )
        self._digest: str | None = None

    def fingerprint(self, path: str) -> tuple[int, int]:
        """The size of a file and a number made of its content, however large it is."""
        data = self._files[path].data
        return len(data), int.from_bytes(hashlib.sha256(data).digest()[:7], "big")

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
            raise FileMissing(f"{path!r} is not among the skill's files.", hint=NAME_LISTED, path=path)
        if len(file.data) > limit:
            raise FileTooLarge(
                f"{path!r} has more than {limit:,} bytes.", hint="Read a part of it.", path=path, size=len(file.data)
            )
        return file.data

    def signature(self) -> str:
        """The digest itself: what is in memory does not change."""
        return self.digest()

    def digest(self) -> str:
        """The content digest of the package."""
        if self._digest is None:
            self._digest = digest_of(self.contents())
        return self._digest

    def contents(self) -> list[DigestEntry]:
        """Every file with the hash of its content."""
        return [
            DigestEntry(path, "exec" if file.executable else "file", hashlib.sha256(file.data).digest())
            for path, file in self._files.items()
        ]


def _file(path: str, content: MemoryFile | bytes | str) -> MemoryFile:
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(f"{path!r} is not valid Unicode text.", hint="Give it as bytes.") from None
    if isinstance(content, bytes):
        return MemoryFile(content)
    if not isinstance(content, MemoryFile):
        raise InvalidArgument(f"{path!r} is neither text nor bytes.", hint="Give the content of the file.")
    return content
