"""The index between processes: one file for each source, replaced as a whole, believed only when it checks out.

A file is written beside and moved into place, so that a reader sees the old one or the new one and a crash leaves
nothing half done. It is derived and can be thrown away: whatever is wrong with it, the skills are read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING

from metier.library.shelf import Shelf, encode_draft

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"metier-index "
_FORMAT = 1
_MAX_BYTES = 2 << 30


def default_cache_folder() -> str:
    """Where the index is kept: `$METIER_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("METIER_CACHE")
    if chosen:
        return chosen
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or home, "metier", "cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "metier")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "metier")


class IndexCache:
    """Shelves kept in a folder. Safe to use from any number of processes at once."""

    def __init__(self, folder: Path | str, version: str) -> None:
        self.folder = os.fspath(folder)
        self._version = version
        self.problem: tuple[str, str] | None = None
        """What failed last, and why; everything works without the cache, only more slowly."""

    def path(self, source: str) -> str:
        """The file for a source."""
        return f"{self.folder}/index-{hashlib.sha256(source.encode(errors='surrogateescape')).hexdigest()[:24]}"

    def load(self, source: str) -> Shelf | None:
        """The shelf that was kept for a source, or None when there is none that can be believed."""
        try:
            data = self._read(self.path(source))
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = ("read", error.strerror or str(error))
            return None
        try:
            return _decode(data, source, self._version)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, struct.error):
            return None

    def save(self, source: str, shelf: Shelf) -> bool:
        """Keep a shelf; False when that is not possible here."""
        path = self.path(source)
        beside = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            data = _encode(shelf, source, self._version)
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                os.replace(beside, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
        except OSError as error:
            self.problem = ("written", error.strerror or str(error))
            return False
        except (OverflowError, ValueError):
            # A file system whose numbers do not fit in 64 bits; its skills are read every time.
            return False
        return True

    def _read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if hasattr(os, "getuid") and status.st_uid != os.getuid():
                raise PermissionError(1, "it belongs to another user")
            if status.st_size > _MAX_BYTES:
                raise OSError(27, "it is too large")
            return file.read()


def _encode(shelf: Shelf, source: str, version: str) -> bytes:
    rows = [row if isinstance(row, bytes) else encode_draft(row) for row in shelf.rows]
    numbers = array("q", [number for identity in shelf.identities for number in identity])
    keys = "\n".join(shelf.keys).encode(errors="surrogateescape")
    names = "\n".join(shelf.names).encode()
    columns = b"\n".join((keys, names)) if shelf.keys else b""
    if columns.count(b"\n") != max(0, 2 * len(shelf.keys) - 1):
        raise ValueError("a file name with a line feed")
    fixed = numbers.tobytes() + bytes(shelf.marks) + array("I", map(zlib.crc32, rows)).tobytes()
    body = b"\n".join(rows)
    header = {
        "format": _FORMAT,
        "version": version,
        "order": sys.byteorder,
        "source": source.encode(errors="surrogateescape").hex(),
        "count": len(shelf.keys),
        "sizes": [len(fixed), len(columns), len(body)],
        "check": zlib.crc32(columns, zlib.crc32(fixed)),
    }
    return b"".join((_MAGIC, json.dumps(header).encode(), b"\n", fixed, columns, body))


def _decode(data: bytes, source: str, version: str) -> Shelf:
    end = data.index(b"\n", 0, 8192)
    if not data.startswith(_MAGIC):
        raise ValueError("not an index")
    header = json.loads(data[len(_MAGIC) : end])
    expected = (_FORMAT, version, sys.byteorder, source.encode(errors="surrogateescape").hex())
    if (header["format"], header["version"], header["order"], header["source"]) != expected:
        raise ValueError("an index of another version or source")
    count = header["count"]
    fixed_size, columns_size, body_size = header["sizes"]
    start = end + 1
    fixed = data[start : start + fixed_size]
    columns = data[start + fixed_size : start + fixed_size + columns_size]
    body = data[start + fixed_size + columns_size :]
    if len(body) != body_size or zlib.crc32(columns, zlib.crc32(fixed)) != header["check"]:
        raise ValueError("damaged")
    if count == 0:
        return Shelf()
    if len(fixed) != count * (32 + 1 + 4):
        raise ValueError("damaged")
    numbers = iter(struct.unpack_from(f"{count * 4}q", fixed))
    lines = columns.decode(errors="surrogateescape").split("\n")
    rows: list[bytes] = body.split(b"\n")
    if len(lines) != 2 * count or len(rows) != count:
        raise ValueError("damaged")
    return Shelf(
        keys=lines[:count],
        identities=list(zip(numbers, numbers, numbers, numbers, strict=True)),
        names=lines[count:],
        marks=list(fixed[count * 32 : count * 33]),
        rows=list(rows),
        checks=list(struct.unpack_from(f"{count}I", fixed, count * 33)),
        versions=[0] * count,
    )
