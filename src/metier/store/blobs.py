"""Contents of files by hash: in a folder beside a SQLite file, in a table of PostgreSQL."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from typing import TYPE_CHECKING, Protocol

from metier._paths import open_plain, write_file
from metier.errors import FileMissing, IntegrityFailed, InvalidArgument, StoreUnavailable
from metier.hints import for_people
from metier.store.location import make_folder, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from metier.store.connection_pool import ConnectionPool

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PUT = (
    "INSERT INTO blobs (sha256, data) VALUES (?, ?) "
    "ON CONFLICT (sha256) DO UPDATE SET data = excluded.data WHERE blobs.data <> excluded.data"
)


class Blobs(Protocol):
    """A place for the contents of files."""

    def put(self, contents: Iterable[bytes]) -> None:
        """Keep contents: they are durable when this returns, or with the transaction around it."""
        ...

    def get(self, sha256: str) -> bytes:
        """Return the content with this hash; raises `IntegrityFailed` for one that was changed."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the hashes of all contents."""
        ...


class FolderBlobs:
    """Contents as files below a folder, named by their hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "blobs" / "sha256"

    def put(self, contents: Iterable[bytes]) -> None:
        """Write the missing contents, each file complete or not at all, and wait until all are on the disk."""
        changed: set[str] = set()
        try:
            for data in contents:
                path = self._path(hashlib.sha256(data).hexdigest())
                folder = os.path.dirname(path)
                if not self._is_whole(path, data):
                    make_folder(folder)
                    write_file(path, data, sync=True)
                    changed.add(folder)
            for folder in changed:
                sync_folder(folder)
        except OSError as error:
            raise StoreUnavailable(
                f"{self.folder} cannot be written: {error.strerror}.",
                hint="Check the disk and the permissions, or set METIER_STORE to another place.",
                path=str(self.folder),
            ) from None

    def get(self, sha256: str) -> bytes:
        """Return the content with this hash."""
        try:
            with open_plain(self._path(sha256)) as stream:
                return _require_hash(sha256, stream.read())
        except FileNotFoundError:
            raise _lost(sha256) from None
        except OSError as error:
            raise StoreUnavailable(
                f"{self.folder} cannot be read: {error.strerror}.",
                hint=for_people("Check its permissions; `metier store check` says what is damaged."),
                path=str(self.folder),
            ) from None

    def names(self) -> Iterator[str]:
        """Yield the hashes of all contents."""
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted(os.listdir(self.folder)):
                with contextlib.suppress(NotADirectoryError):
                    for name in sorted(os.listdir(self.folder / folder)):
                        if _SHA256.fullmatch(folder + name):
                            yield folder + name

    def _path(self, sha256: str) -> str:
        require_sha256(sha256)
        return os.path.join(self.folder, sha256[:2], sha256[2:])

    @staticmethod
    def _is_whole(path: str, data: bytes) -> bool:
        # A damaged one is written again.
        try:
            with open_plain(path) as stream:
                return stream.read() == data
        except OSError:
            return False


class TableBlobs:
    """Contents as rows of a table."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def put(self, contents: Iterable[bytes]) -> None:
        """Add the missing contents."""
        with self._pool.transaction():
            for data in contents:
                self._pool.change(_PUT, (hashlib.sha256(data).hexdigest(), data))

    def get(self, sha256: str) -> bytes:
        """Return the content with this hash."""
        found = self._pool.execute("SELECT data FROM blobs WHERE sha256 = ?", (require_sha256(sha256),))
        if not found:
            raise _lost(sha256)
        return _require_hash(sha256, bytes(found[0][0]))

    def names(self) -> Iterator[str]:
        """Yield the hashes of all contents."""
        for (sha256,) in self._pool.execute("SELECT sha256 FROM blobs ORDER BY sha256"):
            yield sha256


def require_sha256(text: object) -> str:
    """Return a hash; raises `InvalidArgument` for anything else, which must not become a part of a path."""
    if not isinstance(text, str) or not _SHA256.fullmatch(text):
        raise InvalidArgument(f"{text!r:.100} is no sha256.", hint="Write 64 hexadecimal digits.")
    return text


def _require_hash(sha256: str, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise IntegrityFailed(
            f"The stored content {sha256[:12]}… is not what was stored.",
            hint=for_people(
                "Bring back a backup with `metier store restore`; `metier store check` lists what is damaged."
            ),
            sha256=sha256,
        )
    return data


def _lost(sha256: str) -> FileMissing:
    return FileMissing(
        f"The stored content {sha256[:12]}… is not there.",
        hint=for_people("Bring back a backup with `metier store restore`; `metier store check` lists what is missing."),
        sha256=sha256,
    )
