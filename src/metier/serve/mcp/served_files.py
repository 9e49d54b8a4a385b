"""Files of skills as they were decided about: what is served is part of the content whose digest was decided about.

The files of a skill may change at any time, also between a look at them and their use. So a file counts only when its
bytes have the hash that stands for it in that digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import MetierError, SkillChanged
from metier.skill.package import content_of, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier import Library
    from metier.library import Entry

_ATTEMPTS = 5
_MAX_KEPT = 50_000
_MAX_LINKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """A file of a skill, and the digest of the whole skill that it was read as a part of."""

    digest: str
    data: bytes = b""
    problem: MetierError | None = None
    """The reason why there is nothing to be read; whether that may be told is decided first."""


class ServedFiles:
    """Reads files of skills, each from one and the same state of its skill.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> content = ServedFiles(library).read(library.get("greet"), "SKILL.md", limit=1_000)
    >>> content.digest == library.digest("greet"), content.data[-6:]
    (True, b'hello.')
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: OrderedDict[str, _Hashes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, entry: Entry, path: str, *, limit: int) -> ServedFile:
        """A file; raises `SkillChanged` where the skill does not stay the same for as long as that takes."""
        for _ in range(_ATTEMPTS):
            digest = self._library.digest(entry)
            try:
                data = entry.package.read(path, limit=limit)
            except MetierError as error:
                return ServedFile(digest=digest, problem=error)
            hashes = self._hashes(entry, digest)
            if hashes is not None and hashes.of(path) == hashlib.sha256(data).digest():
                return ServedFile(digest=digest, data=data)
        raise SkillChanged(
            f"The files of skill {entry.name!r} are being changed.", hint="Read it again.", name=entry.name
        )

    def _hashes(self, entry: Entry, digest: str) -> _Hashes | None:
        """The hashes that a digest is made of; None where the files are no longer those."""
        with self._lock:
            kept = self._kept.get(digest)
            if kept is not None:
                self._kept.move_to_end(digest)
                return kept
        made = _hash_files(entry)
        if made.digest != digest:
            return None
        with self._lock:
            self._kept[digest] = made
            while len(self._kept) > 1 and sum(len(one.files) for one in self._kept.values()) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hashes:
    """The hashes that a digest is made of."""

    digest: str
    files: Mapping[str, bytes]
    links: Mapping[str, str]
    """The target of each link."""

    def of(self, path: str) -> bytes | None:
        """The hash of the file that a path leads to, through links or not."""
        for _ in range(_MAX_LINKS + 1):
            link = next((start for start in _starts(path) if start in self.links), None)
            if link is None:
                return self.files.get(path)
            led_to = posixpath.join(posixpath.dirname(link), self.links[link], path[len(link) + 1 :])
            path = posixpath.normpath(led_to)
        return None


def _starts(path: str) -> list[str]:
    """A path, and the folders that it leads through, from the outermost on."""
    segments = path.split("/")
    return ["/".join(segments[: at + 1]) for at in range(len(segments))]


def _hash_files(entry: Entry) -> _Hashes:
    package = entry.package
    entries = package.contents()
    links: dict[str, str] = {}
    for one in entries:
        if one.mode == "link":
            # One that leads elsewhere by now is not the one that the digest is made of.
            with contextlib.suppress(MetierError):
                links[one.path] = os.fsdecode(content_of(package, one))
    files = {one.path: one.content for one in entries if one.mode != "link"}
    return _Hashes(digest=digest_of(entries), files=files, links=links)
