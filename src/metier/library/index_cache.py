"""The index between processes: one file for each source, replaced as a whole, believed only when it checks out.

A file is written beside and moved into place, so that a reader sees the old one or the new one and a crash leaves
nothing half done. It is derived and can be thrown away: whatever is wrong with it, the skills are read again.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import sys
import zlib
from array import array
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from metier._paths import open_own, short_digest, write_file
from metier.library.index_rows import STALE, IndexRows, encode_row
from metier.skill import UNSETTLED_INODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from metier.skill import Frontmatter, IdentityRow, UnparsedFrontmatter

_MAGIC = b"metier-index "
_FORMAT = 3
_MAX_HEADER = 32_768


class IndexCache:
    """Index rows kept in a folder, one file for each source. Safe to use from any number of processes at once."""

    def __init__(self, folder: Path | str, version: str) -> None:
        self.folder = os.fspath(folder)
        self._version = version
        self.problem: tuple[str, str] | None = None
        """The last failure and its reason; everything works without the cache, only more slowly."""

    def path(self, source: str) -> str:
        """The file for a source."""
        return f"{self.folder}/index-{short_digest(source.encode(errors='surrogateescape'), 24)}"

    def load(self, source: str) -> IndexRows | None:
        """The rows that were kept for a source, or None when there are none that can be believed."""
        try:
            return self._read(self.path(source), source)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = ("read", error.strerror or str(error))
            return None
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError):
            return None  # damaged, or of another version: as good as none

    def save(self, source: str, rows: IndexRows, read_again: Callable[[str], Frontmatter]) -> bool:
        """Keep rows, reading again the files that were not read to the end; False when that is not possible here."""
        path = self.path(source)
        try:
            data = _encode(rows, source, self._version, read_again)
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            write_file(path, data)
        except OSError as error:
            self.problem = ("written", error.strerror or str(error))
            return False
        except (OverflowError, ValueError):
            # A file system whose numbers do not fit in 64 bits; its skills are read every time.
            return False
        return True

    def _read(self, path: str, source: str) -> IndexRows:
        with open_own(path) as file:
            line = file.readline(_MAX_HEADER)
            header = _Header.read(line, source, self._version)
            # Before anything is read that large, the header must account for every byte.
            if len(line) + sum(header.sizes) != os.fstat(file.fileno()).st_size:
                raise ValueError("damaged")
            return _decode(header, file.read(sum(header.sizes)))


class _PackedRows(IndexRows):
    """Rows as the cache keeps them; each column is unpacked on first use.

    A start needs none of them when nothing changed: the scan is packed the same way, and the bytes are compared.
    """

    def __init__(self, count: int, parts: list[bytes], data: bytes, rows_at: int) -> None:
        self.findings, self.folders, self.unsaved = (), (), 0
        self._count = count
        self._numbers, self._marks, self._keys, self._names = parts
        self._data = data
        self._rows_at = rows_at

    def matches(self, found: Mapping[str, IdentityRow]) -> bool:
        if len(found) == self._count and _pack_keys(found) == self._keys:
            return array("q", itertools.chain.from_iterable(found.values())).tobytes() == self._numbers
        # The same files may have been listed in another order.
        return len(found) == self._count and super().matches(found)

    @cached_property
    def keys(self) -> list[str]:  # type: ignore[override]
        return self._keys.decode(errors="surrogateescape").split("\n") if self._count else []

    @cached_property
    def identities(self) -> list[IdentityRow]:  # type: ignore[override]
        numbers = iter(struct.unpack(f"{self._count * 4}q", self._numbers))
        return list(zip(numbers, numbers, numbers, numbers, strict=True))

    @cached_property
    def names(self) -> list[str]:  # type: ignore[override]
        return self._names.decode().split("\n") if self._count else []

    @cached_property
    def marks(self) -> list[int]:  # type: ignore[override]
        return list(self._marks)

    @cached_property
    def files(self) -> list[Frontmatter | UnparsedFrontmatter | bytes]:  # type: ignore[override]
        files: list[Frontmatter | UnparsedFrontmatter | bytes] = (
            list(self._data[self._rows_at :].split(b"\n")) if self._count else []
        )
        # Damage is found in each row; a line feed too many or too few shifts them all.
        return files if len(files) == self._count else [b"00000000"] * self._count

    @cached_property
    def versions(self) -> list[int]:  # type: ignore[override]
        return [0] * self._count


def _pack_keys(keys: Iterable[str]) -> bytes:
    return "\n".join(keys).encode(errors="surrogateescape")


def _as_when_good(rows: IndexRows) -> IndexRows:
    """The rows with no file's identity for those that serve a last good version: the next process looks again.

    It finds the file whole, or knows from here that it was, and does not take half a file for a whole one.
    """
    if not any(mark & STALE for mark in rows.marks):
        return rows
    kept = IndexRows()
    for index, mark in enumerate(rows.marks):
        identity = rows.identities[index] if not mark & STALE else (UNSETTLED_INODE, -1, 0, 0)
        kept.take(rows, index, identity)
    return kept


def _encode(rows: IndexRows, source: str, version: str, read_again: Callable[[str], Frontmatter]) -> bytes:
    rows = _as_when_good(rows)
    count = len(rows.keys)
    encoded = b"\n".join(
        row if isinstance(row, bytes) else encode_row(row, key, read_again)
        for row, key in zip(rows.files, rows.keys, strict=True)
    )
    parts = (
        array("q", itertools.chain.from_iterable(rows.identities)).tobytes(),
        bytes(rows.marks),
        _pack_keys(rows.keys),
        "\n".join(rows.names).encode(),
    )
    if parts[2].count(b"\n") != max(0, count - 1):
        raise ValueError("a file name with a line feed")
    header = _Header(count, tuple(map(len, (*parts, encoded))), _check(count, parts))
    return b"".join((header.line(source, version), *parts, encoded))


class _Header(NamedTuple):
    """The first line of an index: what it is of, and what follows."""

    rows: int
    sizes: tuple[int, ...]
    check: int

    def line(self, source: str, version: str) -> bytes:
        """The header as it is written."""
        return _MAGIC + json.dumps([*_kind(source, version), self.rows, self.sizes, self.check]).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes, source: str, version: str) -> _Header:
        """The header of an index of this source and version; raises ValueError for any other line."""
        if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
            raise ValueError("not an index")
        *kind, count, sizes, check = json.loads(line[len(_MAGIC) :])
        numbers = (count, check, *sizes)
        if kind != _kind(source, version) or len(sizes) != 5 or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError("an index of another version or source")
        return cls(count, tuple(sizes), check)


def _kind(source: str, version: str) -> list[object]:
    return [_FORMAT, version, sys.byteorder, source.encode(errors="surrogateescape").hex()]


def _check(count: int, parts: Iterable[bytes]) -> int:
    check = count
    for part in parts:
        check = zlib.crc32(part, check)
    return check


def _decode(header: _Header, data: bytes) -> IndexRows:
    parts = []
    start = 0
    for size in header.sizes[:-1]:
        parts.append(data[start : start + size])
        start += size
    count = header.rows
    if len(data) != sum(header.sizes) or _check(count, parts) != header.check:
        raise ValueError("damaged")
    breaks = max(0, count - 1)
    numbers, marks, keys, names = parts
    if len(numbers) != 32 * count or len(marks) != count or not keys.count(b"\n") == names.count(b"\n") == breaks:
        raise ValueError("damaged")
    return _PackedRows(count, parts, data, start)
