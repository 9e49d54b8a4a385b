"""Backups: all data of a store at one moment, in one file, while others go on writing.

The file is a ZIP archive with the rows of each table as lines of JSON, the contents by their hash, and a manifest with
the hash of every part, which is signed. A backup of SQLite can be restored into PostgreSQL, and the other way round.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._paths import replace_file
from metier.errors import InvalidArgument, StoreUnavailable
from metier.store.all_tenants import every_row
from metier.store.connection_pool import Backend
from metier.store.location import sync_folder
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metier.store.store import Store

FORMAT = 2
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
CHECKPOINTS = "audit/checkpoints.jsonl"
PROPOSALS = "proposals"


def back_up(store: Store, path: Path | str, sign: Callable[[bytes], Mapping[str, str]]) -> dict[str, Any]:
    """Write all data of a store into a new file; returns its manifest.

    `sign` makes a signature of the manifest, which `restore` is given to check; `metier.guard.backups` has both.
    The file is complete or not there at all, and only its owner may read it.
    """
    target = Path(os.path.abspath(path))
    if os.path.lexists(target):
        raise InvalidArgument(f"{target} exists already.", hint="Name a file that is not there yet.", path=str(target))
    try:
        with (
            replace_file(target, sync=True) as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            manifest = _fill(store, archive, sign)
        sync_folder(str(target.parent))
    except OSError as error:
        raise StoreUnavailable(
            f"{target} cannot be written: {error.strerror}.",
            hint="Check the disk and the permissions, or name another file.",
            path=str(target),
        ) from None
    return manifest


def tables() -> list[str]:
    """Return the tables of a backup, those first that others refer to."""
    from metier.store.schema import tables_of

    return [table.name for table in tables_of("sqlite")]


def kept_blobs(revisions: Iterable[Mapping[str, Any]], files: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the hashes of all contents of revisions whose content is kept."""
    kept = {(row["tenant"], row["digest"]) for row in revisions if row["kept"]}
    return {row["sha256"] for row in files if (row["tenant"], row["digest"]) in kept}


def _fill(store: Store, archive: zipfile.ZipFile, sign: Callable[[bytes], Mapping[str, str]]) -> dict[str, Any]:
    manifest: dict[str, Any] = {"format": FORMAT, "version": Backend.newest, "kind": store.kind, "made_at": now()}
    manifest["store"] = str(store)
    # Before the rows: a checkpoint must not sign records that came later.
    manifest["files"] = {name: _add(archive, f"files/{name}", [data])[0] for name, data in _files(store.folder)}
    manifest["tables"] = {}
    with store.pool.snapshot():
        for table in tables():
            lines = (json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in every_row(store.pool, table))
            sha256, count = _add(archive, f"tables/{table}.jsonl", lines)
            manifest["tables"][table] = {"sha256": sha256, "rows": count}
        names = kept_blobs(every_row(store.pool, "revisions"), every_row(store.pool, "revision_files"))
        for name in sorted(names):
            archive.writestr(f"blobs/{name}", store.blobs.get(name))
    manifest["blobs"] = len(names)
    text = json.dumps(manifest, indent=2).encode()
    archive.writestr(MANIFEST, text)
    archive.writestr(SIGNATURE, json.dumps(sign(text)))
    return manifest


def _add(archive: zipfile.ZipFile, name: str, parts: Iterable[bytes]) -> tuple[str, int]:
    sha256, count = hashlib.sha256(), 0
    with archive.open(name, "w", force_zip64=True) as stream:
        for part in parts:
            stream.write(part)
            sha256.update(part)
            count += 1
    return sha256.hexdigest(), count


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files beside the database, without blobs."""
    with contextlib.suppress(FileNotFoundError):
        yield CHECKPOINTS, (folder / CHECKPOINTS).read_bytes()
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder / PROPOSALS)):
            path = folder / PROPOSALS / name
            if name.endswith(".md") and path.is_file() and not path.is_symlink():
                yield f"{PROPOSALS}/{name}", path.read_bytes()
