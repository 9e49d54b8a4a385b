"""Steps from one version of the tables to the next, and the errors for a version that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.connection_pool import Backend
from metier.store.rows import creation

if TYPE_CHECKING:
    from metier.store.location import Kind

Run: TypeAlias = Callable[[str], Any]
"""Executes one statement; the result has `fetchall()`."""
Step: TypeAlias = "Callable[[Run, Kind], None]"


def _number_rows(run: Run, kind: Kind) -> None:
    """To version 2: audit records and rows of one moment are numbered, and a token knows its parent."""
    rebuilt = ("approval_requests", "approvals", "audit_checkpoints", "audit_log", "proposals", "tokens")
    if kind == "sqlite":
        _rebuild(run, rebuilt)
        return
    for table in ("approval_requests", "approvals", "proposals", "tokens"):
        run(f"ALTER TABLE {table} ADD COLUMN number BIGINT DEFAULT '0' NOT NULL")
    run("ALTER TABLE tokens ADD COLUMN parent TEXT COLLATE \"C\" DEFAULT '' NOT NULL")
    for table in ("audit_log", "audit_checkpoints"):
        run(f"ALTER TABLE {table} ADD CONSTRAINT {table}_counted CHECK (seq >= 1)")
    for statement in creation(kind):
        if statement.startswith(("CREATE FUNCTION audit_log_in_order", "CREATE TRIGGER audit_log_in_order")):
            run(statement)


def _rebuild(run: Run, tables: tuple[str, ...]) -> None:
    """Make tables of SQLite again as a new store has them, with their rows: it cannot add a constraint."""
    for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        run(f"DROP TRIGGER {name}")
    for table in tables:
        columns = ", ".join(f'"{row[1]}"' for row in run(f"PRAGMA table_info({table})").fetchall())
        for (name,) in run(
            f"SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '{table}' AND sql IS NOT NULL"
        ).fetchall():
            run(f"DROP INDEX {name}")
        run(f"ALTER TABLE {table} RENAME TO older_{table}")
        _create(run, "sqlite", table)
        run(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM older_{table} ORDER BY 1, 2")
        run(f"DROP TABLE older_{table}")
    for statement in creation("sqlite"):
        if statement.startswith("CREATE TRIGGER"):
            run(statement)


def _create(run: Run, kind: Kind, table: str) -> None:
    """Make a table with its indexes, as a new store has them."""
    for statement in creation(kind):
        if statement.startswith(f"CREATE TABLE {table} (") or (" INDEX " in statement and f" ON {table} " in statement):
            run(statement)


def _add_usage(run: Run, kind: Kind) -> None:
    """To version 3: usage of skills, feedback about them, and results of their tests."""
    for table in ("feedback", "test_results", "usage_cursor", "usage_days", "usage_pairs", "usage_searches"):
        _create(run, kind, table)


def _add_server(run: Run, kind: Kind) -> None:
    """To version 4: registry, policy, nodes and webhooks of a server."""
    for table in (
        *("deliveries", "deployments", "idempotency", "namespaces", "node_records", "nodes", "policy_versions"),
        *("releases", "used_once", "webhooks"),
    ):
        _create(run, kind, table)


STEPS: tuple[Step, ...] = (_number_rows, _add_usage, _add_server)
"""From version 1 to 2, from 2 to 3, and so on. A released step is never changed again."""


def wrong_version(name: str, version: int) -> StoreUnavailable:
    """Return the error for a store that is missing (0), older or newer than this version of Métier."""
    if not version:
        return missing(name)
    has = f"The store {name} has tables of version {version}; this version of Métier"
    if version > Backend.newest:
        reason, hint = (
            f"{has} knows {Backend.newest} and older.",
            "Upgrade Métier here, or use the version that wrote the store.",
        )
    else:
        reason = f"{has} needs {Backend.newest}."
        hint = for_people("Make a backup with `metier store backup FILE`, then run `metier store migrate`.")
    return StoreUnavailable(reason, hint=hint, version=version)


def missing(name: str) -> StoreUnavailable:
    """Return the error for an address without a store."""
    return StoreUnavailable(
        f"There is no store at {name}.",
        hint=for_people("`metier store migrate` makes one; METIER_STORE says where."),
        is_missing=True,
    )


def unversioned(name: str) -> StoreUnavailable:
    """Return the error for a store whose version was removed."""
    return StoreUnavailable(
        f"The store {name} has tables, and their version was taken away: it was not Métier that did that.",
        hint=for_people(
            "Move it to where you keep evidence, and bring a backup back with `metier store restore FILE`."
        ),
    )


def foreign(name: str) -> StoreUnavailable:
    """Return the error for a file or database of another program."""
    return StoreUnavailable(
        f"{name} holds tables that are not those of a store.",
        hint="Set METIER_STORE to a file or database that is for Métier alone.",
    )
