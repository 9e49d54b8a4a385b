"""Statements over the rows of all tenants, for backups, restores and checks, and for deliveries to webhooks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from metier.store.audit_log import parse_record
from metier.store.rows import BUMP, MAX_TENANT, decode_text, encode_text, insert_statement
from metier.store.schema import PROTECTION, UNPROTECTION, columns_of, key_of, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier.store.connection_pool import ConnectionPool, Value

_DUE = (
    "SELECT deliveries.tenant, webhook FROM deliveries "
    "JOIN webhooks ON webhooks.tenant = deliveries.tenant AND webhooks.id = webhook AND webhooks.status = 'active' "
    "WHERE deliveries.status = 'pending' AND next_at <= ? "
    "GROUP BY deliveries.tenant, webhook ORDER BY min(next_at) LIMIT ?"
)


def tenants_of(pool: ConnectionPool) -> list[str]:
    """Return all tenants that have a row."""
    sql = " UNION ".join(f"SELECT tenant FROM {table.name}" for table in tables_of("sqlite"))
    return sorted(decode_text(tenant) for (tenant,) in pool.execute(sql, decode=False) if _is_tenant(tenant))


def audited_tenants(pool: ConnectionPool) -> list[str]:
    """Return all tenants that have an audit record, each found by one step in the index."""
    found: list[str] = []
    rows = pool.execute("SELECT min(tenant) FROM audit_log")
    while rows and rows[0][0] is not None:
        found.append(rows[0][0])
        rows = pool.execute("SELECT min(tenant) FROM audit_log WHERE tenant > ?", (found[-1],))
    return found


def stray_tenants(pool: ConnectionPool) -> list[str]:
    """Return the values in audit records that are no tenant: nobody could ask for these records."""
    found = pool.execute("SELECT DISTINCT tenant FROM audit_log", decode=False)
    return sorted(repr(tenant) for (tenant,) in found if not _is_tenant(tenant))


def _is_tenant(kept: object) -> bool:
    return isinstance(kept, str) and len(text := decode_text(kept)) <= MAX_TENANT and encode_text(text) == kept


def every_row(pool: ConnectionPool, table: str, batch: int = 500) -> Iterator[dict[str, Any]]:
    """Yield all rows of a table, of all tenants; inside of a snapshot, those of one moment."""
    columns, key = columns_of(table), ", ".join(key_of(table))
    after = ""
    last: list[Value] = []
    while True:
        sql = f"SELECT {', '.join(columns)} FROM {table}{after} ORDER BY {key} LIMIT ?"
        rows = [dict(zip(columns, row, strict=True)) for row in pool.execute(sql, [*last, batch])]
        yield from rows
        if len(rows) < batch:
            return
        last = [rows[-1][name] for name in key_of(table)]
        after = f" WHERE ({key}) > ({', '.join('?' * len(last))})"


def every_reason(pool: ConnectionPool, type: str) -> Iterator[tuple[str, str]]:  # noqa: A002
    """Yield the reasons of all audit records of a type, each with its tenant."""
    for tenant, text in pool.execute("SELECT tenant, data_json FROM audit_log WHERE event_type = ?", (type,)):
        reason = (parse_record(text) or {}).get("reason")
        if isinstance(reason, str):
            yield tenant, reason


def is_unused(pool: ConnectionPool) -> bool:
    """Return whether all tables are empty."""
    return not any(pool.execute(f"SELECT 1 FROM {table.name} LIMIT 1") for table in tables_of("sqlite"))


def lock_tables(pool: ConnectionPool) -> None:
    """Wait for other writers, and let none write until the transaction ends: everything read from now on stays true."""
    # A writer of SQLite is alone from the first statement on.
    if pool.kind == "postgresql":
        names = ", ".join(table.name for table in tables_of(pool.kind))
        pool.change(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")


def refill(pool: ConnectionPool, tables: Mapping[str, Iterable[Mapping[str, Value]]]) -> None:
    """Replace all rows of all tenants, in a transaction that has locked the tables."""
    for statement in UNPROTECTION[pool.kind]:
        pool.change(statement)
    numbers = {row["tenant"]: row["number"] for row in every_row(pool, "generations")}
    for table in reversed(list(tables)):
        pool.change(f"DELETE FROM {table}")
    for table, rows in tables.items():
        columns = columns_of(table)
        pool.change_all(insert_statement(table, columns), ([row[name] for name in columns] for row in rows))
    # Nobody may take a state that was read before for the current one.
    for tenant in numbers.keys() | {row["tenant"] for row in every_row(pool, "generations")}:
        for number in (numbers.get(tenant, 0), time.time_ns() // 1_000_000):
            pool.change(BUMP[pool.kind], (tenant, number))
    for statement in PROTECTION[pool.kind]:
        pool.change(statement)


def tenants_with_webhooks(pool: ConnectionPool) -> list[str]:
    """Return the tenants with a webhook that is told of events."""
    return [tenant for (tenant,) in pool.execute("SELECT DISTINCT tenant FROM webhooks WHERE status = 'active'")]


def tenants_of_webhook(pool: ConnectionPool, id: str) -> list[str]:  # noqa: A002
    """Return the tenants with a webhook of an id: one, unless rows were copied."""
    return [tenant for (tenant,) in pool.execute("SELECT tenant FROM webhooks WHERE id = ?", (id,))]


def due_webhooks(pool: ConnectionPool, at: str, limit: int) -> list[tuple[str, str]]:
    """Return the tenants and the ids of webhooks with a delivery that is due, those first that wait for longest."""
    return [(row[0], row[1]) for row in pool.execute(_DUE, (at, limit))]
