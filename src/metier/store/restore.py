"""Restores of backups: a backup is verified as a whole before anything changes, and then all changes at once."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import time
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier._paths import write_file
from metier.errors import IntegrityFailed, InvalidArgument, MetierError, StoreUnavailable
from metier.hints import for_people
from metier.store.all_tenants import every_row, is_unused, lock_tables, refill
from metier.store.audit_log import FIRST, follows
from metier.store.backup import CHECKPOINTS, FORMAT, MANIFEST, PROPOSALS, SIGNATURE, kept_blobs, tables
from metier.store.connection_pool import MIGRATION_LOCK, Backend
from metier.store.location import make_folder, parse_address
from metier.store.people import Person, record_of_removal
from metier.store.restore_policy import parse_roles, restrictions_since
from metier.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from metier.store.policy_versions import PolicyVersion
    from metier.store.restore_policy import KeptBlock, KeptDecision, KeptPerson, KeptRestrictions, KeptToken

TAKEN = "This was so before a backup was brought back that says otherwise."
_BLOB = re.compile(r"blobs/([0-9a-f]{64})")
_FILE = re.compile(rf"files/({re.escape(CHECKPOINTS)}|{PROPOSALS}/[^/\\\0:]{{1,200}}\.md)")
_MAX_BYTES = 256 * 1024 * 1024
"""The largest row, content or file."""
_MAX_MANIFEST = 16 * 1024 * 1024
_MAX_TOTAL, _MAX_RATIO = 1024**3, 200
"""The largest size of all parts, and the largest ratio to the size of the file above that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The result of a restore: what was restored, and what was set aside or kept."""

    made_at: str
    origin: str
    """The address of the original store, as the backup has it."""
    distrusted: str
    """The reason why nothing of it that loosens was restored; "" where a known key signed it."""
    rows: int
    blobs: int
    set_aside: tuple[str, ...] = ()
    """The earlier files, under their new names."""
    kept_blocks: tuple[KeptBlock, ...] = ()
    """Blocks that are not in the backup: they stay, because a restore loosens nothing."""
    kept_decisions: tuple[KeptDecision, ...] = ()
    """Revoked approvals that are valid in the backup, and refusals that are not in it: they stay so."""
    kept_people: tuple[KeptPerson, ...] = ()
    """People who were removed or have lower roles than in the backup, and admins of a tenant that would have none."""
    kept_tokens: tuple[KeptToken, ...] = ()
    """Revoked tokens that are valid in the backup."""


def restore(
    url: str | None,
    path: Path | str,
    check: Callable[[bytes, object], str],
    *,
    force: bool = False,
    untrusted: bool = False,
    by: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """Put what a backup holds in place of what the store at an address holds.

    `check` is given the manifest and its signature, and says why the backup cannot be relied on, "" for one that can.
    One that cannot be is refused, or with `untrusted` brought back without all that loosens. A store that is in use is
    only replaced with `force`; then one that is damaged is set aside, and so are its checkpoints, which speak of
    records that are no longer there. `by` are the fields of records that say who does it.
    """
    with _reading(path), zipfile.ZipFile(path) as archive:
        backup = _Backup(archive, check)
        if backup.distrusted and not untrusted:
            raise IntegrityFailed(
                f"The backup cannot be relied on: {backup.distrusted}.",
                hint="--key names the public half of the key that signed it. With --untrusted it is brought back "
                "without approvals, people, tokens, scans and what vouches for folders.",
                reason=backup.distrusted,
            )
        backup.verify()
        try:
            with Store.open(url) as store:
                return _restore_into(store, backup, force=force, by=by)
        except StoreUnavailable as error:
            if not force or not error.context.get("is_damaged"):
                raise
        aside = _set_database_aside(parse_address(url).target)
        with Store.open(url) as store:
            return _restore_into(store, backup, force=force, by=by, aside=aside)


class _Backup:
    """The parts of a backup, each compared with its manifest."""

    def __init__(self, archive: zipfile.ZipFile, check: Callable[[bytes, object], str]) -> None:
        self._archive = archive
        names = archive.namelist()
        if len(set(names)) != len(names):
            raise _unusable("a part of it is there twice")
        written = self._bytes(MANIFEST, _MAX_MANIFEST)
        signature = json.loads(self._bytes(SIGNATURE, _MAX_MANIFEST)) if SIGNATURE in names else None
        self.distrusted = check(written, signature)
        self.manifest = self._read_manifest(written)
        self.blobs = {found[1]: found[0] for name in names if (found := _BLOB.fullmatch(name))}
        self.files = {found[1]: found[0] for name in names if (found := _FILE.fullmatch(name))}
        known = {MANIFEST, SIGNATURE, *(f"tables/{table}.jsonl" for table in tables())}
        strange = set(names) - known - set(self.blobs.values()) - {f"files/{name}" for name in self.manifest["files"]}
        if strange:
            raise _unusable(f"{min(strange)!r:.80} is no part of one")
        size = sum(part.file_size for part in archive.infolist())
        if size > _MAX_TOTAL and size > _MAX_RATIO * sum(part.compress_size for part in archive.infolist()):
            raise _unusable("it would unpack to many times its size")

    def _read_manifest(self, written: bytes) -> dict[str, Any]:
        found = json.loads(written)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise _unusable("its manifest is of another kind")
        if found.get("version") != Backend.newest:
            version = f"{found.get('version')!r:.20}"
            raise StoreUnavailable(
                f"The backup has tables of version {version}; this version of Métier has {Backend.newest}.",
                hint=for_people(
                    "Bring it back with the version of Métier that made it, then run `metier store migrate`."
                ),
            )
        parts = found.get("tables"), found.get("files")
        if not all(isinstance(part, dict) for part in parts) or found["tables"].keys() != set(tables()):
            raise _unusable("its manifest lists other tables")
        return found

    def verify(self) -> None:
        """Read all parts once; raises `IntegrityFailed` for the first one that does not fit the manifest."""
        for table in tables():
            for _ in self.rows(table):
                pass
        for name in self.manifest["files"]:
            self.file(name)
        needed = kept_blobs(self.rows("revisions"), self.rows("revision_files"))
        if needed != self.blobs.keys():
            which = min(needed ^ self.blobs.keys())
            raise _unusable(f"the content {which[:12]}… {'is missing' if which in needed else 'belongs to nothing'}")
        if self.distrusted:
            self._require_chains()
        for sha256 in self.blobs:
            self.blob(sha256)

    def _require_chains(self) -> None:
        """Raise `IntegrityFailed` unless the records of each tenant are a chain from the first on."""
        last: dict[str, tuple[int, str]] = {}
        for row in self._saved("audit_log"):
            seq, previous = last.get(row["tenant"], (0, FIRST))
            if not follows(seq, previous, (row["seq"], row["data_json"], row["prev_hash"], row["hash"])):
                raise _unusable(f"its audit log is not as it was written from record {seq + 1:,} on")
            last[row["tenant"]] = row["seq"], row["hash"]

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Return the rows of a table to restore: of an untrusted backup, only rows that loosen nothing."""
        rows = self._saved(table)
        return filter(None, map(_LOOSENS[table], rows)) if self.distrusted and table in _LOOSENS else rows

    def _saved(self, table: str) -> Iterator[dict[str, Any]]:
        from metier.store.schema import kinds_of

        kinds = kinds_of(table)
        expected, sha256, count = self.manifest["tables"][table], hashlib.sha256(), 0
        with self._archive.open(f"tables/{table}.jsonl") as stream:
            while line := stream.readline(_MAX_BYTES):
                sha256.update(line)
                count += 1
                row = json.loads(line)
                if not isinstance(row, dict) or {name: type(value) for name, value in row.items()} != kinds:
                    raise _unusable(f"line {count} of {table} is no row")
                if any(abs(value) >= 2**63 for value in row.values() if isinstance(value, int)):
                    raise _unusable(f"line {count} of {table} has a number that is too large")
                yield row
        if expected != {"sha256": sha256.hexdigest(), "rows": count}:
            raise _unusable(f"the rows of {table} are not those that were saved")

    def blob(self, sha256: str) -> bytes:
        """Return a content by its hash."""
        return self._checked(self.blobs[sha256], sha256)

    def file(self, name: str) -> bytes:
        """Return a file that lay beside the database."""
        if name not in self.files:
            raise _unusable(f"the file {name!r:.100} is missing")
        return self._checked(self.files[name], self.manifest["files"][name])

    def _checked(self, name: str, sha256: str) -> bytes:
        data = self._bytes(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _unusable(f"{name:.80} is not what was saved")
        return data

    def _bytes(self, name: str, most: int = _MAX_BYTES) -> bytes:
        with self._archive.open(name) as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise _unusable(f"{name:.80} is too large")
        return data


def _without_grants(row: dict[str, Any]) -> dict[str, Any] | None:
    return row if row["decision"] == "denied" or row["revoked_at"] else None


def _undecided(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "status": "open"} if row["status"] == "approved" else row


_LOOSENS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "approvals": _without_grants,
    "proposals": _undecided,
    **dict.fromkeys(("people", "tokens", "scans", "installs", "test_results", "policy_versions"), lambda row: None),
}
"""The tables whose rows may allow something, each with what remains of a row of an untrusted backup."""


def _restore_into(
    store: Store, backup: _Backup, *, force: bool, by: Mapping[str, Any] | None, aside: tuple[str, ...] = ()
) -> RestoreReport:
    _require_permission(store, force)
    # Contents first, under names that nothing refers to yet: an early end leaves the store as it was.
    store.blobs.put(backup.blob(sha256) for sha256 in backup.blobs)
    with store.pool.transaction(MIGRATION_LOCK):
        # Before anything is read: a decision between that and the end would be lost.
        lock_tables(store.pool)
        _require_permission(store, force)
        kept = restrictions_since(store, backup.rows)
        policies = {tenant: store.of(tenant).policy_versions.last() for tenant in store.tenants()}
        # The installs of this store are more reliable than those of an untrusted backup.
        installs = list(every_row(store.pool, "installs")) if backup.distrusted else []
        saved = {
            table: itertools.chain(backup.rows(table), installs if table == "installs" else ()) for table in tables()
        }
        refill(store.pool, {table: kept.over(table, rows) for table, rows in saved.items()})
        _record_people(store, kept, by)
        _keep_policies(store, policies, by)
    store.decision_reader.forget()
    manifest = backup.manifest
    return RestoreReport(
        made_at=str(manifest.get("made_at")),
        origin=str(manifest.get("store")),
        distrusted=backup.distrusted,
        rows=sum(found["rows"] for found in manifest["tables"].values()),
        blobs=len(backup.blobs),
        set_aside=(*aside, *_put_files(store.folder, backup)),
        kept_blocks=tuple(kept.blocks),
        kept_decisions=tuple(kept.decisions),
        kept_people=tuple(kept.people),
        kept_tokens=tuple(kept.tokens),
    )


def _record_people(store: Store, kept: KeptRestrictions, by: Mapping[str, Any] | None) -> None:
    """Record the people who differ from the audit log of the backup: nobody counts without a record."""
    fields = {**(by or {}), "notes": [TAKEN]}
    for tenant in store.tenants():
        scope = store.of(tenant)
        people = {row["name"]: row for row in every_row(store.pool, "people") if row["tenant"] == tenant}
        for name, row in people.items():
            if (tenant, name) in kept.rows.get("people", {}):
                roles = frozenset(parse_roles(row["roles"]))
                scope.people.add(Person(name=name, kind=row["kind"], roles=roles), fields)
        for name in scope.recorded_decisions().people.keys() - people.keys():
            scope.audit.append(record_of_removal(name, fields))
        for token in kept.rows.get("tokens", {}).values():
            if token["tenant"] == tenant and not token["revoked_at"]:
                scope.people.record_token(token["id"], fields)


def _keep_policies(store: Store, policies: Mapping[str, PolicyVersion | None], by: Mapping[str, Any] | None) -> None:
    """Let the policies that held until now hold on: those of the backup may be looser."""
    for tenant, before in policies.items():
        if before is None or not before.is_intact:
            continue
        versions = store.of(tenant).policy_versions
        now = versions.last()
        if now is None or now.text != before.text:
            versions.add(before.text, by=before.by, reason="It held before a backup was brought back.", record=by)


def _require_permission(store: Store, force: bool) -> None:
    if not force and not is_unused(store.pool):
        raise InvalidArgument(
            f"The store {store} is in use; all that it holds would be replaced.",
            hint="Make a backup of it first, then say --force; or set METIER_STORE to another place.",
        )


def _put_files(folder: Path, backup: _Backup) -> tuple[str, ...]:
    """Write the missing files; returns the new name of the old checkpoints."""
    aside: tuple[str, ...] = ()
    try:
        checkpoints = folder / CHECKPOINTS
        with contextlib.suppress(FileNotFoundError):
            old = checkpoints.read_bytes()
            if CHECKPOINTS not in backup.files or backup.file(CHECKPOINTS) != old:
                aside = (_set_aside(str(checkpoints), "before"),)
        for name in backup.files:
            path = folder / name
            if not os.path.lexists(path):
                make_folder(str(path.parent))
                write_file(path, backup.file(name), sync=True)
    except OSError as error:
        raise StoreUnavailable(
            f"{folder} cannot be written: {error.strerror}.", hint="Check the disk and the permissions, then try again."
        ) from None
    return aside


def _set_database_aside(path: str) -> tuple[str, ...]:
    moved = []
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            moved.append(_set_aside(path + suffix, "damaged"))
    return tuple(moved)


def _set_aside(path: str, why: str) -> str:
    target = f"{path}.{why}-{time.time_ns() // 1_000_000}"
    os.rename(path, target)
    return target


@contextlib.contextmanager
def _reading(path: Path | str) -> Iterator[None]:
    """Turn every failure into one about the archive: a hostile one raises almost anything."""
    try:
        yield
    except MetierError:
        raise
    except FileNotFoundError:
        raise InvalidArgument(
            f"{path} does not exist.", hint=for_people("Name a file of `metier store backup`.")
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check its permissions and the disk."
        ) from None
    except (zipfile.BadZipFile, zlib.error, ValueError, LookupError, EOFError, RuntimeError, RecursionError) as error:
        raise _unusable(str(error)) from None


def _unusable(reason: str) -> IntegrityFailed:
    return IntegrityFailed(
        f"The backup cannot be used: {reason}.", hint="Nothing was changed; use another backup.", reason=reason
    )
