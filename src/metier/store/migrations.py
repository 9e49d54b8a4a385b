"""From one version of the tables to the next: forward only, each step a transaction of its own.

A store that is new gets today's tables at once. One that is older goes through every step in between; whoever comes
second finds the step done, and a step that was interrupted never happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from metier.errors import StoreUnavailable
from metier.hints import for_people

if TYPE_CHECKING:
    from metier.store.connection_pool import Backend
    from metier.store.location import Kind

Run: TypeAlias = Callable[[str], Any]
"""Carries out one statement; what it returns has `fetchall()`."""
Step: TypeAlias = "Callable[[Run, Kind], None]"


def _count_rows(run: Run, kind: Kind) -> None:
    """To version 2: records of the audit log come in order, rows of one moment too, and a token knows which made it."""
    anew = ("approval_requests", "approvals", "audit_checkpoints", "audit_log", "proposals", "tokens")
    if kind == "sqlite":
        _make_anew(run, anew)
        return
    for table in ("approval_requests", "approvals", "proposals", "tokens"):
        run(f"ALTER TABLE {table} ADD COLUMN number BIGINT DEFAULT '0' NOT NULL")
    run("ALTER TABLE tokens ADD COLUMN parent TEXT COLLATE \"C\" DEFAULT '' NOT NULL")
    for table in ("audit_log", "audit_checkpoints"):
        run(f"ALTER TABLE {table} ADD CONSTRAINT {table}_counted CHECK (seq >= 1)")
    for statement in creation(kind):
        if statement.startswith(("CREATE FUNCTION audit_log_in_order", "CREATE TRIGGER audit_log_in_order")):
            run(statement)


def _make_anew(run: Run, tables: tuple[str, ...]) -> None:
    """Make tables of SQLite again as a new store has them, with the rows they have: it cannot add a constraint."""
    for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        run(f"DROP TRIGGER {name}")
    statements = creation("sqlite")
    for table in tables:
        columns = ", ".join(f'"{row[1]}"' for row in run(f"PRAGMA table_info({table})").fetchall())
        for (name,) in run(
            f"SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '{table}' AND sql IS NOT NULL"
        ).fetchall():
            run(f"DROP INDEX {name}")
        run(f"ALTER TABLE {table} RENAME TO older_{table}")
        for statement in statements:
            if statement.startswith(f"CREATE TABLE {table} (") or f" ON {table} (" in statement.partition("\n")[0]:
                run(statement)
        run(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM older_{table} ORDER BY 1, 2")
        run(f"DROP TABLE older_{table}")
    for statement in statements:
        if statement.startswith("CREATE TRIGGER"):
            run(statement)


STEPS: tuple[Step, ...] = (_count_rows,)
"""From version 1 to 2, from 2 to 3, and so on. What was released is never changed again."""
LOCK = "\0migrations"
END = ";\n\n"
"""What stands behind every statement of a file."""


def newest() -> int:
    """The version of the tables that this version of Métier works with."""
    return 1 + len(STEPS)


def migrate(database: Backend, connection: Any) -> int:
    """Bring the tables up to date; returns the version that they had."""
    first = -1
    while True:
        database.begin(connection, LOCK)
        try:
            version = database.version(connection)
            first = version if first < 0 else first
            if version == newest():
                database.roll_back(connection)
                return first
            if version > newest():
                raise newer(database.name, version)
            _step(database, connection, version)
            database.commit(connection)
        except BaseException:
            database.roll_back(connection)
            raise


def _step(database: Backend, connection: Any, version: int) -> None:
    def run(sql: str) -> Any:
        return database.run(connection, sql, ())

    if version == 0:
        for statement in creation(database.kind):
            run(statement)
        database.set_version(connection, newest())
    else:
        STEPS[version - 1](run, database.kind)
        database.set_version(connection, version + 1)


def creation(kind: Kind) -> list[str]:
    """The statements that make all tables of a new store; `metier.store.schema` has written them."""
    return creation_file(kind).read_text(encoding="utf-8").split(END)[:-1]


def creation_file(kind: Kind) -> Path:
    """Where they stand."""
    return Path(__file__).with_name(f"{kind}.sql")


def newer(name: str, version: int) -> StoreUnavailable:
    """The store was made by a later version of Métier."""
    return StoreUnavailable(
        f"The store {name} has tables of version {version}; this version of Métier knows {newest()} and older.",
        hint="Upgrade Métier here, or use the version that wrote the store.",
        version=version,
    )


def older(name: str, version: int) -> StoreUnavailable:
    """The store has to be brought up to date first, by somebody who decides when."""
    return StoreUnavailable(
        f"The store {name} has tables of version {version}; this version of Métier needs {newest()}.",
        hint=for_people("Make a backup with `metier store backup FILE`, then run `metier store migrate`."),
        version=version,
    )


def missing(name: str) -> StoreUnavailable:
    """There is no store yet."""
    return StoreUnavailable(
        f"There is no store at {name}.",
        hint=for_people("`metier store migrate` makes one; METIER_STORE says where."),
        is_missing=True,
    )


def unversioned(name: str) -> StoreUnavailable:
    """The store has tables, and somebody took away what says of which version they are."""
    return StoreUnavailable(
        f"The store {name} has tables, and their version was taken away: it was not Métier that did that.",
        hint=for_people(
            "Move it to where you keep evidence, and bring a backup back with `metier store restore FILE`."
        ),
    )


def foreign(name: str) -> StoreUnavailable:
    """The file or database belongs to another program."""
    return StoreUnavailable(
        f"{name} holds tables that are not those of a store.",
        hint="Set METIER_STORE to a file or database that is for Métier alone.",
    )
