"""The rows of one tenant: the one place where the tenant of a row is filled in and asked for.

Whatever else this room keeps for a tenant goes through here, so there is no statement that could forget it. What is
asked of all tenants at once, for a backup or a check, stands at the end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.errors import InvalidArgument
from metier.store.canonical_json import escape_surrogates
from metier.store.codec import decode_rows, decode_text, encode_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from metier.store.connection_pool import ConnectionPool, Value

_GENERATION = "SELECT number FROM generations WHERE tenant = ?"
_POSITION = (
    "SELECT (SELECT number FROM generations WHERE tenant = audit_log.tenant), seq, hash "
    "FROM audit_log WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
)
_BUMP = {
    "sqlite": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = max(generations.number + 1, excluded.number)",
    "postgresql": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = greatest(generations.number + 1, excluded.number)",
}
_MAX_TENANT = 200
Position: TypeAlias = tuple[Any, ...]
"""The number of the last change, and the number and the hash of the newest audit record."""


class TenantRows:
    """What one tenant has in the tables."""

    def __init__(self, driver: ConnectionPool, tenant: str) -> None:
        if not isinstance(tenant, str) or len(tenant) > _MAX_TENANT:
            raise InvalidArgument(f"A tenant is a text of at most {_MAX_TENANT} characters.", hint="Name another one.")
        self.driver = driver
        self.tenant = tenant
        self._key = encode_text(tenant)
        self.tenant_in_records = escape_surrogates(tenant)
        """The tenant as audit records say it."""

    def transaction(self, wait: float | None = None) -> AbstractContextManager[None]:
        """One transaction, after those of the same tenant that came before; `wait` is how long for them at most."""
        return self.driver.transaction(self._key, wait)

    def snapshot(self) -> AbstractContextManager[None]:
        """One moment to read from."""
        return self.driver.snapshot()

    def statement(self, sql: str, *parameters: Value) -> list[tuple[Any, ...]]:
        """The rows that a statement gives whose first mark is the tenant, `... WHERE tenant = ? AND ...`.

        For the few statements that every decision or record needs, and that nothing heavy is imported for.
        """
        return decode_rows(self.driver.execute(sql, self._with_tenant(sql, parameters)))

    def change(self, sql: str, *parameters: Value) -> int:
        """How many rows such a statement changed."""
        return self.driver.change(sql, self._with_tenant(sql, parameters))

    def _with_tenant(self, sql: str, parameters: Sequence[Value]) -> list[Value]:
        if "tenant" not in sql.partition("?")[0]:
            raise InvalidArgument("The first value of a statement is the tenant.", hint="Write `tenant = ?` first.")
        return [self._key, *(encode_text(value) if isinstance(value, str) else value for value in parameters)]

    def select(
        self, table: str, where: Mapping[str, Value] | None = None, order: tuple[str, ...] = ()
    ) -> list[dict[str, Any]]:
        """The rows with these values, as mappings."""
        from metier.store.statements import columns_of, select_of

        where = {"tenant": self.tenant, **(where or {})}
        sql, names = select_of(self.driver.kind, table, tuple(where), order)
        rows = self.driver.execute(sql, _in_order(names, {}, where))
        columns = columns_of(table)
        return [dict(zip(columns, row, strict=True)) for row in decode_rows(rows)]

    def insert(
        self, table: str, values: Mapping[str, Value], conflict: Literal["refuse", "ignore", "replace"] = "refuse"
    ) -> bool:
        """Add a row; False when one with its key was there and the new one is ignored."""
        from metier.store.statements import insert_of

        values = {**values, "tenant": self.tenant}
        sql, names = insert_of(self.driver.kind, table, tuple(sorted(values)), conflict)
        return self._changed(sql, _in_order(names, values, {})) > 0

    def insert_next(
        self, table: str, values: Mapping[str, Value], conflict: Literal["refuse", "ignore"] = "refuse"
    ) -> bool:
        """Add a row behind all that are there, of those that a listing has in the order they came in."""
        with self.transaction():
            last = self.statement(f"SELECT max(number) FROM {table} WHERE tenant = ?")[0][0] or 0
            return self.insert(table, {**values, "number": last + 1}, conflict)

    def insert_all(self, table: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Add many rows, inside of a transaction."""
        from metier.store.statements import columns_of, insert_of

        sql, names = insert_of(self.driver.kind, table, columns_of(table), "refuse")
        self.driver.change_all(sql, (_in_order(names, {**row, "tenant": self.tenant}, {}) for row in rows))

    def update(self, table: str, values: Mapping[str, Value], where: Mapping[str, Value]) -> int:
        """Change the rows with these values; returns how many there were."""
        from metier.store.statements import update_of

        where = {**where, "tenant": self.tenant}
        sql, names = update_of(self.driver.kind, table, tuple(sorted(values)), tuple(where))
        return self._changed(sql, _in_order(names, values, where))

    def delete(self, table: str, where: Mapping[str, Value]) -> int:
        """Remove the rows with these values; returns how many there were."""
        from metier.store.statements import delete_of

        where = {**where, "tenant": self.tenant}
        sql, names = delete_of(self.driver.kind, table, tuple(where))
        return self._changed(sql, _in_order(names, {}, where))

    def _changed(self, sql: str, parameters: Sequence[Value]) -> int:
        if self.driver.is_in_transaction:
            return self.driver.change(sql, parameters)
        with self.transaction():
            return self.driver.change(sql, parameters)

    def position(self) -> Position:
        """The position of the tenant; another one whenever something changed that decisions depend on.

        The number that `bump` changes can be set back by SQL. What forbids is in the audit trail as well, and that only
        grows: so the newest record counts too.
        """
        rows = self.driver.execute(_POSITION, (self._key,))
        if rows:
            return rows[0]
        generation = self.driver.execute(_GENERATION, (self._key,))
        return (generation[0][0] if generation else None, 0, "")

    def bump(self) -> None:
        """Say that something changed that decisions depend on, in the transaction that changes it."""
        # The clock is in it so that no number comes twice, also after a store was made anew or restored.
        self.driver.change(_BUMP[self.driver.kind], (self._key, time.time_ns() // 1_000_000))


def _in_order(names: Sequence[str], values: Mapping[str, Value], where: Mapping[str, Value]) -> list[Value]:
    found: list[Value] = []
    for name in names:
        kind, _, column = name.partition("_")
        value = values[column] if kind == "to" else where[column]
        found.append(encode_text(value) if isinstance(value, str) else value)
    return found


def tenant_of_token(driver: ConnectionPool, secret_hash: str) -> str | None:
    """Whose token it is: the one question that is asked before the tenant is known."""
    rows = driver.execute("SELECT tenant FROM tokens WHERE secret_hash = ?", (secret_hash,))
    return decode_text(rows[0][0]) if rows else None


def has_people(driver: ConnectionPool) -> bool:
    """Whether anybody was added, to whatever tenant: a tenant is there as soon as somebody names it."""
    return bool(driver.execute("SELECT 1 FROM people LIMIT 1"))


def tenants_of(driver: ConnectionPool) -> list[str]:
    """Everybody who has anything in it."""
    from metier.store.schema import tables_of

    sql = " UNION ".join(f"SELECT tenant FROM {table.name}" for table in tables_of("sqlite"))
    return sorted(decode_text(tenant) for (tenant,) in driver.execute(sql) if _is_tenant(tenant))


def stray_tenants(driver: ConnectionPool) -> list[str]:
    """The values in place of a tenant in audit records that are none: nobody could ask for these records."""
    found = driver.execute("SELECT DISTINCT tenant FROM audit_log")
    return sorted(repr(tenant) for (tenant,) in found if not _is_tenant(tenant))


def _is_tenant(kept: object) -> bool:
    return isinstance(kept, str) and len(text := decode_text(kept)) <= _MAX_TENANT and encode_text(text) == kept


def every_row(driver: ConnectionPool, table: str, batch: int = 500) -> Iterator[dict[str, Any]]:
    """All rows of a table, of all tenants; inside of a snapshot, those of one moment."""
    from metier.store.statements import columns_of, key_of, page_of

    columns, last = columns_of(table), dict[str, Any]()
    while True:
        sql, names = page_of(driver.kind, table, not last)
        rows = driver.execute(sql, _in_order(names, {"limit": batch}, last))
        for row in decode_rows(rows):
            last = dict(zip(columns, row, strict=True))
            yield last
        if len(rows) < batch:
            return
        last = {name: last[name] for name in key_of(table)}


def every_record(driver: ConnectionPool, type: str) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: A002
    """The audit records of a type, of all tenants: whose each is, and what it says."""
    from metier.store.link import record_of

    for tenant, text in driver.execute("SELECT tenant, data_json FROM audit_log WHERE event_type = ?", (type,)):
        record = record_of(text)
        if record is not None:
            yield decode_text(tenant), record


def is_unused(driver: ConnectionPool) -> bool:
    """Whether nobody has anything in it yet."""
    from metier.store.schema import tables_of

    return not any(driver.execute(f"SELECT 1 FROM {table.name} LIMIT 1") for table in tables_of("sqlite"))


def keep_others_out(driver: ConnectionPool) -> None:
    """Wait for those who write, and let nobody else until the transaction ends: what is read from now on stays true."""
    from metier.store.schema import tables_of

    # Who writes to SQLite is alone from the first statement on.
    if driver.kind == "postgresql":
        names = ", ".join(table.name for table in tables_of(driver.kind))
        driver.change(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")


def refill(driver: ConnectionPool, tables: Mapping[str, Iterable[Mapping[str, Value]]]) -> None:
    """Put other rows in place of all that there are, of all tenants, in a transaction that keeps others out."""
    from metier.store.schema import protection, unprotection
    from metier.store.statements import columns_of, insert_of

    for statement in unprotection(driver.kind):
        driver.change(statement)
    numbers = {row["tenant"]: row["number"] for row in every_row(driver, "generations")}
    for table in reversed(list(tables)):
        driver.change(f"DELETE FROM {table}")
    for table, rows in tables.items():
        sql, names = insert_of(driver.kind, table, columns_of(table), "refuse")
        driver.change_all(sql, (_in_order(names, row, {}) for row in rows))
    # Nobody may take what they have read before for what is there now.
    for tenant in numbers.keys() | {row["tenant"] for row in every_row(driver, "generations")}:
        for number in (numbers.get(tenant, 0), time.time_ns() // 1_000_000):
            driver.change(_BUMP[driver.kind], (encode_text(tenant), number))
    for statement in protection(driver.kind):
        driver.change(statement)
