"""The record of what sync wrote into a folder, in the user's configuration folder.

Not in the folder itself: whoever writes a repository could claim there that sync wrote what it did not, and have it
taken for good, or removed. Each line is added before what it tells of is done, so that a run that is cut short at any
moment leaves nothing behind that the next one does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, replace
from metier._paths import open_plain, write_file
from metier.errors import SourceUnavailable
from metier.library.places import default_config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 64 * 1024 * 1024
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy of one skill."""

    digest: str
    """That of the skill it was made from."""
    written: tuple[str, ...]
    """The digests of the folder as it was written, the last one last; several where a run was cut short."""
    origin: str = ""
    """The SKILL.md that it was made from; empty where that is no file."""
    root: str = ""
    """The folder of skills, or the archive, that the origin lies in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderChange:
    """A folder that is being replaced or removed: where its successor is made, and where it is put aside."""

    name: str
    staged: str
    aside: str


class SyncRecord:
    """The copies that sync wrote into one folder.

    >>> record = SyncRecord("/home/me/project/.claude/skills")
    >>> record.copies
    {}
    """

    def __init__(self, folder: str) -> None:
        """The record of a folder, by its path without links."""
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self.path = os.path.join(default_config_folder(), "synced", f"{name}.jsonl")
        self._folder = folder
        self.copies: dict[str, Copy] = {}
        self.changes: dict[str, FolderChange] = {}
        """The changes that were begun and perhaps not finished, by the name of what was put aside."""
        self._lines = 0
        for line in self._read():
            self._understand(line)

    def begin(self, name: str) -> FolderChange:
        """Say that a folder is about to be replaced or removed."""
        change = FolderChange(name=name, staged=beside(), aside=beside())
        self._add({"change": name, "staged": change.staged, "aside": change.aside})
        self.changes[change.aside] = change
        return change

    def end(self, change: FolderChange) -> None:
        """Say that nothing of a change is left to be done."""
        self.changes.pop(change.aside, None)

    def expect(self, name: str, copy: Copy) -> None:
        """Say what may lie under a name from now on."""
        for item in _items(name, copy):
            self._add(item)
        self._learn(name, copy)

    def settle(self, name: str, copy: Copy | None) -> None:
        """Say what lies under a name now, for certain."""
        if copy is None:
            self.copies.pop(name, None)
        else:
            self.copies[name] = copy

    def close(self) -> None:
        """Write down how things stand, and nothing of how they came to be so."""
        lines = [_line({"folder": self._folder})]
        for name, copy in sorted(self.copies.items()):
            lines += [_line(item) for item in _items(name, copy)]
        lines += [
            _line({"change": change.name, "staged": change.staged, "aside": change.aside})
            for change in self.changes.values()
        ]
        data = b"".join(lines)
        if not self._lines and len(lines) == 1:
            return  # there never was anything
        with self._writing():
            try:
                with open(self.path, "rb") as file:
                    if file.read(len(data) + 1) == data:
                        return
            except FileNotFoundError:
                pass
            write_file(self.path, data)

    def _add(self, item: dict[str, Any]) -> None:
        start = b"" if self._lines else _line({"folder": self._folder})
        with self._writing():
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS
            with open(self.path, "ab", buffering=0, opener=lambda path, _: os.open(path, flags, 0o600)) as file:
                file.write(start + _line(item))
        self._lines += 1

    def _read(self) -> list[bytes]:
        try:
            with open_plain(self.path) as file:
                return file.read(MAX_BYTES).splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from None

    def _understand(self, line: bytes) -> None:
        self._lines += 1
        # The last line of a run that was cut short may be half a line.
        with contextlib.suppress(ValueError, LookupError, TypeError):
            item = json.loads(line)
            if "change" in item:
                change = FolderChange(name=str(item["change"]), staged=str(item["staged"]), aside=str(item["aside"]))
                self.changes[change.aside] = change
            elif "name" in item:
                origin, root = str(item.get("origin", "")), str(item.get("root", ""))
                copy = Copy(digest=str(item["digest"]), written=(str(item["written"]),), origin=origin, root=root)
                self._learn(str(item["name"]), copy)

    def _learn(self, name: str, copy: Copy) -> None:
        known = self.copies[name].written if name in self.copies else ()
        kept = tuple(one for one in known if one not in copy.written)
        self.copies[name] = replace(copy, written=(*kept, *copy.written))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            yield
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> SourceUnavailable:
        return SourceUnavailable(
            f"{self.path}, which says what sync wrote, cannot be used: {error.strerror}.",
            hint="Check its permissions, or set METIER_CONFIG to a writable folder.",
            path=self.path,
        )


def beside() -> str:
    """A name for what lies beside the skills for a moment."""
    return f".metier-sync-{secrets.token_hex(8)}"


def _items(name: str, copy: Copy) -> Iterator[dict[str, Any]]:
    for written in copy.written:
        yield {"name": name, "digest": copy.digest, "written": written, "origin": copy.origin, "root": copy.root}


def _line(item: dict[str, Any]) -> bytes:
    return json.dumps(item).encode() + b"\n"
