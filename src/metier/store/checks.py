"""Checks of a store: its file, its tables, its rows against the audit log, and the contents of revisions."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass
from metier.errors import FileMissing, IntegrityFailed, StoreUnavailable
from metier.skill.package import DigestEntry, digest_of
from metier.store.all_tenants import every_row
from metier.store.rows import RESTORE, creation
from metier.store.schema import described

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.store.connection_pool import ConnectionPool
    from metier.store.store import Store

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProblem:
    """A defect of a store."""

    severity: Literal["error", "warning"]
    part: Literal["database", "tables", "contents", "folder"]
    message: str
    hint: str


def _damage(part: Literal["database", "contents"], message: str) -> StoreProblem:
    return StoreProblem(severity="error", part=part, message=message, hint=RESTORE)


def check_store(store: Store) -> list[StoreProblem]:
    """Return all defects of a store; nothing is changed."""
    found: list[StoreProblem] = []
    try:
        found += _database(store)
        found += (_schema_problem(name, what) for name, what in _differences(store.pool))
        with store.pool.snapshot():  # a decision that is made meanwhile is in both rows and records, or in neither
            found += _unrecorded(store)
        found += _contents(store)
    except StoreUnavailable as error:
        found.append(StoreProblem(severity="error", part="database", message=error.message, hint=error.hint))
    return found


def _database(store: Store) -> Iterator[StoreProblem]:
    if store.kind != "sqlite":
        return
    for (line,) in store.pool.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield _damage("database", f"SQLite says: {line}.")
    for table, *_ in store.pool.execute("PRAGMA foreign_key_check"):
        yield _damage("database", f"A row of {table} refers to one that is not there.")
    for path in (store.url.removeprefix("sqlite:///"), str(store.folder)):
        if os.name == "posix" and os.path.exists(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            yield StoreProblem(
                severity="warning",
                part="folder",
                message=f"Other users of this machine may use {path}.",
                hint=f"chmod go= {path}",
            )


def missing_protection(store: Store) -> list[StoreProblem]:
    """Return the protections of the audit log that are missing or were changed.

    A foreign trigger may change what is written to any table.
    """
    return [_schema_problem(name, what) for name, what in _differences(store.pool) if _protects(name)]


def _protects(name: str) -> bool:
    kind, _, about = name.removeprefix("the ").partition(" ")
    return kind in ("trigger", "view") or about.partition(".")[0] in ("audit_log", "audit_checkpoints")


def _schema_problem(name: str, what: str) -> StoreProblem:
    return StoreProblem(
        severity="warning" if what == "is not ours" and not _protects(name) else "error",
        part="tables",
        message=f"{name[0].upper()}{name[1:]} {what}.",
        hint="Nobody but Métier should change its tables; compare the store with a backup.",
    )


def _differences(pool: ConnectionPool) -> Iterator[tuple[str, str]]:
    """Yield the parts of the schema that differ from a new store, each with the difference."""
    expected, found = _expected(pool), _actual(pool)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield name, "is missing" if name not in found else "is not ours" if name not in expected else "was changed"


def _expected(pool: ConnectionPool) -> dict[str, str]:
    if pool.kind == "sqlite":
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(":memory:")) as connection:
            for statement in creation("sqlite"):
                connection.execute(statement)
            return _by_title(connection.execute(_SQLITE_SCHEMA).fetchall())
    return _by_title(described())


_SQLITE_SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
# A view, a rule, a policy for rows, or a table that inherits would change what is read under the name of a table; what
# is in one that is not logged is gone after a crash of the server.
_POSTGRESQL_SCHEMA = """
SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' ELSE relkind::text END, relname,
    concat_ws(' ', relpersistence, relrowsecurity,
        (SELECT count(*) FROM pg_rewrite WHERE ev_class = pg_class.oid),
        (SELECT count(*) FROM pg_inherits WHERE pg_class.oid IN (inhparent, inhrelid)))
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'f')
UNION ALL SELECT 'column', table_name || '.' || column_name, concat_ws(' ', data_type, is_generated)
    FROM information_schema.columns WHERE table_schema = current_schema()
UNION ALL SELECT 'index', indexname, '' FROM pg_indexes
    WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'
UNION ALL SELECT 'constraint', relname || '.' || conname, replace(pg_get_constraintdef(pg_constraint.oid), '"', '')
    FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
    WHERE relnamespace = current_schema()::regnamespace AND contype IN ('p', 'c')
UNION ALL SELECT 'trigger', tgname, concat_ws(' ', relname, tgenabled, tgtype, tgqual IS NULL, proname, prosrc)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace
"""


def _actual(pool: ConnectionPool) -> dict[str, str]:
    return _by_title(pool.execute(_SQLITE_SCHEMA if pool.kind == "sqlite" else _POSTGRESQL_SCHEMA))


def _by_title(rows: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    return {f"the {kind} {name}": _SPACE.sub(" ", text).strip() for kind, name, text in rows}


_RECORDED = {"approvals": ("id", "approval"), "people": ("name", "person"), "tokens": ("id", "token")}
"""The tables whose rows need a record: the column of their key, and the name of one row."""


def _unrecorded(store: Store) -> Iterator[StoreProblem]:
    """Yield the rows that would loosen something without a record, and the recorded prohibitions without a row."""
    hint = "Somebody changed the table and not by Métier: find out who could, and compare the store with a backup."
    problem = partial(StoreProblem, severity="error", part="tables", hint=hint)
    rows = {table: _by_tenant(every_row(store.pool, table)) for table in (*_RECORDED, "blocks")}
    for tenant in store.tenants():
        scope = store.of(tenant)
        counting = {
            "approvals": {one.id for one in scope.approvals.all() if not one.revoked_at and one.decision == "approved"},
            "people": {one.name for one in scope.people.all()},
            "tokens": {one.id for one in scope.people.tokens()},
        }
        for table, (key, what) in _RECORDED.items():
            for row in rows[table][tenant]:
                is_active = not row.get("revoked_at") and row.get("decision") != "denied"
                if is_active and row[key] not in counting[table]:
                    yield problem(
                        message=f"The {what} {row[key]!r:.100} has no record in the audit log: it is nothing."
                    )
        decisions = scope.recorded_decisions()
        blocks = {f"{row['kind']} {row['value']}" for row in rows["blocks"][tenant]}
        approvals = rows["approvals"][tenant]
        refusals = {row["id"] for row in approvals if row["decision"] == "denied" and not row["revoked_at"]}
        refused = {one for one, against in decisions.against.items() if "revoked_at" not in against}
        for what, gone in {
            "quarantine of the": decisions.blocked.keys() - blocks,
            "refusal": refused - refusals,
            "person": decisions.people.keys() - counting["people"],
        }.items():
            for name in sorted(gone):
                changed = f"The {what} {name:.100} was changed or removed without a record"
                yield problem(message=f"{changed}: what it forbids still holds.")


def _by_tenant(rows: Iterable[dict[str, Any]]) -> defaultdict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["tenant"]].append(row)
    return found


def _contents(store: Store) -> Iterator[StoreProblem]:
    """Check that every content is there, has its hash, and makes the digest of its revision."""
    files: dict[tuple[str, str], list[DigestEntry]] = defaultdict(list)
    hashes: set[str] = set()
    with store.pool.snapshot():
        kept = {(row["tenant"], row["digest"]) for row in every_row(store.pool, "revisions") if row["kept"]}
        for row in every_row(store.pool, "revision_files"):
            key = row["tenant"], row["digest"]
            if key in kept:
                content = bytes.fromhex(row["sha256"]) if _SHA256.fullmatch(row["sha256"]) else b""
                files[key].append(DigestEntry(row["path"], row["mode"], content))
                hashes.update({row["sha256"]} if content else ())
    for tenant, digest in sorted(kept):
        if digest_of(files[tenant, digest]) != digest:
            yield _damage("contents", f"The files of the revision {digest[:19]}… do not make its digest.")
    for sha256 in sorted(hashes):
        try:
            store.blobs.get(sha256)
        except (IntegrityFailed, FileMissing, StoreUnavailable) as error:
            yield _damage("contents", error.message)
    unused = sum(name not in hashes for name in store.blobs.names())
    if unused:
        yield StoreProblem(
            severity="warning",
            part="contents",
            message=f"{unused:,} stored contents belong to no revision: something was interrupted. They do no harm.",
            hint="A backup leaves them out.",
        )
