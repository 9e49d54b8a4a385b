"""Bringing a backup back: all of it is looked at before anything is changed, and then it all changes at once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metier.errors import IntegrityFailed, InvalidArgument, MetierError, StoreUnavailable
from metier.store.backup import CHECKPOINTS, FORMAT, PROPOSALS, kept_blobs, tables
from metier.store.blobs import make_folder, write_file
from metier.store.forbidden import forbidden_since
from metier.store.migrations import LOCK, newest
from metier.store.rows import is_unused, keep_others_out, refill
from metier.store.store import Store
from metier.store.url import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from metier.store.forbidden import KeptBlock, KeptDecision
    from metier.store.withheld import KeptPerson, KeptToken

_BLOB = re.compile(r"blobs/([0-9a-f]{64})")
_FILE = re.compile(rf"files/({re.escape(CHECKPOINTS)}|{PROPOSALS}/[^/\\\0:]{{1,200}}\.md)")
_MAX_BYTES = 256 * 1024 * 1024
"""Of one row, one content or one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was brought back, and what was moved out of its way."""

    made_at: str
    rows: int
    blobs: int
    set_aside: tuple[str, ...] = ()
    """The files that were there before, under the names that they have now."""
    kept_blocks: tuple[KeptBlock, ...] = ()
    """What was blocked and is not in the backup: it stays blocked, because to bring something back loosens nothing."""
    kept_decisions: tuple[KeptDecision, ...] = ()
    """The approvals that were revoked and count in the backup, and the refusals that are not in it: they stay so."""
    kept_people: tuple[KeptPerson, ...] = ()
    """Those who were removed or may do less than in the backup, and the admins of a tenant that would have none."""
    kept_tokens: tuple[KeptToken, ...] = ()
    """The tokens that count in the backup, and were revoked."""


def restore(url: str | None, path: Path | str, *, force: bool = False) -> Restored:
    """Put what a backup holds in place of what the store at an address holds.

    A store that is in use is only replaced with `force`; then one that is damaged is set aside, and so are its
    checkpoints, which speak of records that are no longer there.
    """
    with _reading(path), zipfile.ZipFile(path) as archive:
        backup = _Backup(archive)
        backup.verify()
        try:
            with Store.open(url) as store:
                return _bring_back(store, backup, force=force)
        except StoreUnavailable as error:
            if not force or not error.context.get("is_damaged"):
                raise
        aside = _set_database_aside(address_of(url).target)
        with Store.open(url) as store:
            return _bring_back(store, backup, force=force, aside=aside)


class _Backup:
    """The parts of a backup, each compared with what the manifest says of it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.manifest = self._read_manifest()
        self.blobs = {found[1]: found[0] for name in archive.namelist() if (found := _BLOB.fullmatch(name))}
        self.files = {found[1]: found[0] for name in archive.namelist() if (found := _FILE.fullmatch(name))}

    def _read_manifest(self) -> dict[str, Any]:
        found = json.loads(self._bytes("manifest.json"))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise _damaged("its manifest is of another kind")
        if found.get("version") != newest():
            version = f"{found.get('version')!r:.20}"
            raise StoreUnavailable(
                f"The backup has tables of version {version}; this version of Métier has {newest()}.",
                hint="Bring it back with the version of Métier that made it, then run `metier store migrate`.",
            )
        parts = found.get("tables"), found.get("files")
        if not all(isinstance(part, dict) for part in parts) or found["tables"].keys() != set(tables()):
            raise _damaged("its manifest lists other tables")
        return found

    def verify(self) -> None:
        """Read all of it once; raises `IntegrityFailed` for the first part that is not what it should be."""
        for table in tables():
            for _ in self.rows(table):
                pass
        for name in self.manifest["files"]:
            self.file(name)
        missing = kept_blobs(self.rows("revisions"), self.rows("revision_files")) - self.blobs.keys()
        if missing:
            raise _damaged(f"the content {min(missing)[:12]}… is missing")
        for sha256 in self.blobs:
            self.blob(sha256)

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """The rows of a table."""
        from metier.store.statements import kinds_of

        kinds = kinds_of(table)
        expected, sha256, count = self.manifest["tables"][table], hashlib.sha256(), 0
        with self._archive.open(f"tables/{table}.jsonl") as stream:
            while line := stream.readline(_MAX_BYTES):
                sha256.update(line)
                count += 1
                row = json.loads(line)
                if not isinstance(row, dict) or {name: type(value) for name, value in row.items()} != kinds:
                    raise _damaged(f"line {count} of {table} is no row")
                if any(abs(value) >= 2**63 for value in row.values() if isinstance(value, int)):
                    raise _damaged(f"line {count} of {table} has a number that is too large")
                yield row
        if expected != {"sha256": sha256.hexdigest(), "rows": count}:
            raise _damaged(f"the rows of {table} are not those that were saved")

    def blob(self, sha256: str) -> bytes:
        """A content by its hash."""
        return self._checked(self.blobs[sha256], sha256)

    def file(self, name: str) -> bytes:
        """A file that lay beside the database."""
        if name not in self.files:
            raise _damaged(f"the file {name!r:.100} is missing")
        return self._checked(self.files[name], self.manifest["files"][name])

    def _checked(self, name: str, sha256: str) -> bytes:
        data = self._bytes(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _damaged(f"{name:.80} is not what was saved")
        return data

    def _bytes(self, name: str) -> bytes:
        with self._archive.open(name) as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise _damaged(f"{name:.80} is too large")
        return data


def _bring_back(store: Store, backup: _Backup, *, force: bool, aside: tuple[str, ...] = ()) -> Restored:
    _require_permission(store, force)
    # Contents first, and under names that nothing refers to yet: whatever ends this early leaves the store as it was.
    store.blobs.put(backup.blob(sha256) for sha256 in backup.blobs)
    with store.driver.transaction(LOCK):
        # Before anything is read: what somebody decides after that and before the end would be lost.
        keep_others_out(store.driver)
        _require_permission(store, force)
        forbidden = forbidden_since(store.driver, backup.rows)
        refill(store.driver, {table: forbidden.over(table, backup.rows(table)) for table in tables()})
    manifest = backup.manifest
    return Restored(
        made_at=str(manifest.get("made_at")),
        rows=sum(found["rows"] for found in manifest["tables"].values()),
        blobs=len(backup.blobs),
        set_aside=(*aside, *_put_files(store.folder, backup)),
        kept_blocks=forbidden.blocks,
        kept_decisions=forbidden.decisions,
        kept_people=forbidden.people,
        kept_tokens=forbidden.tokens,
    )


def _require_permission(store: Store, force: bool) -> None:
    if not force and not is_unused(store.driver):
        raise InvalidArgument(
            f"The store {store} is in use; all that it holds would be replaced.",
            hint="Make a backup of it first, then say --force; or set METIER_STORE to another place.",
        )


def _put_files(folder: Path, backup: _Backup) -> tuple[str, ...]:
    """Write the files that are not there; returns what the old checkpoints are called now."""
    aside: tuple[str, ...] = ()
    try:
        checkpoints = folder / CHECKPOINTS
        with contextlib.suppress(FileNotFoundError):
            old = checkpoints.read_bytes()
            if CHECKPOINTS not in backup.files or backup.file(CHECKPOINTS) != old:
                aside = (_moved(str(checkpoints), "before"),)
        for name in backup.files:
            path = folder / name
            if not os.path.lexists(path):
                make_folder(str(path.parent))
                write_file(str(path), backup.file(name))
    except OSError as error:
        raise StoreUnavailable(
            f"{folder} cannot be written: {error.strerror}.", hint="Check the disk and the permissions, then try again."
        ) from None
    return aside


def _set_database_aside(path: str) -> tuple[str, ...]:
    moved = []
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            moved.append(_moved(path + suffix, "damaged"))
    return tuple(moved)


def _moved(path: str, why: str) -> str:
    target = f"{path}.{why}-{time.time_ns() // 1_000_000}"
    os.rename(path, target)
    return target


@contextlib.contextmanager
def _reading(path: Path | str) -> Iterator[None]:
    """What goes wrong with the archive is said of it: a hostile one raises almost anything."""
    try:
        yield
    except MetierError:
        raise
    except FileNotFoundError:
        raise InvalidArgument(f"{path} does not exist.", hint="Name a file of `metier store backup`.") from None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check its permissions and the disk."
        ) from None
    except (zipfile.BadZipFile, zlib.error, ValueError, LookupError, EOFError, RuntimeError, RecursionError) as error:
        raise _damaged(str(error)) from None


def _damaged(reason: str) -> IntegrityFailed:
    return IntegrityFailed(
        f"The backup cannot be used: {reason}.", hint="Nothing was changed; use another backup.", reason=reason
    )
