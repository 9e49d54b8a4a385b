"""The rows of one tenant, and all that a store keeps for it: the only place that fills in and asks for the tenant."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from metier.errors import InvalidArgument
from metier.store.approvals import Approvals
from metier.store.audit_log import AuditTable
from metier.store.blocks import Blocks, PolicyTexts, Scans
from metier.store.canonical_json import escape_surrogates
from metier.store.connection_pool import encode_text
from metier.store.revisions import Installs, Revisions, Versions
from metier.store.state import read_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from metier.store.audit_log import ChainPosition
    from metier.store.codec import Record, Table
    from metier.store.connection_pool import ConnectionPool, Value
    from metier.store.people import People
    from metier.store.proposals import Proposals
    from metier.store.state import GovernanceState, RecordedDecisions
    from metier.store.store import Store

_GENERATION = "SELECT number FROM generations WHERE tenant = ?"
_VERSION = (
    "SELECT (SELECT number FROM generations WHERE tenant = audit_log.tenant), seq, hash "
    "FROM audit_log WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
)
BUMP = {
    "sqlite": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = max(generations.number + 1, excluded.number)",
    "postgresql": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = greatest(generations.number + 1, excluded.number)",
}
MAX_TENANT = 200
StateVersion: TypeAlias = tuple[Any, ...]
"""The number of the last change, and the number and the hash of the newest audit record."""


class TenantRows:
    """The rows of one tenant in the tables."""

    def __init__(self, pool: ConnectionPool, tenant: str) -> None:
        if not isinstance(tenant, str) or len(tenant) > MAX_TENANT:
            raise InvalidArgument(f"A tenant is a text of at most {MAX_TENANT} characters.", hint="Name another one.")
        self.pool = pool
        self.tenant = tenant
        self.tenant_in_records = tenant if tenant.isascii() else escape_surrogates(tenant)
        """The tenant as audit records have it."""

    def transaction(self, wait: float | None = None) -> AbstractContextManager[None]:
        """Begin a transaction after earlier ones of the same tenant; `wait` is the longest wait in seconds."""
        return self.pool.transaction(encode_text(self.tenant), wait)

    def snapshot(self) -> AbstractContextManager[None]:
        """Begin to read from one moment."""
        return self.pool.snapshot()

    def statement(self, sql: str, *parameters: Value) -> list[tuple[Any, ...]]:
        """Return the rows of a statement whose first parameter is the tenant, `... WHERE tenant = ? AND ...`."""
        return self.pool.execute(sql, self._with_tenant(sql, parameters))

    def change(self, sql: str, *parameters: Value) -> int:
        """Return how many rows such a statement changed."""
        return self.pool.change(sql, self._with_tenant(sql, parameters))

    def _with_tenant(self, sql: str, parameters: Sequence[Value]) -> list[Value]:
        if "tenant" not in sql.partition("?")[0]:
            raise InvalidArgument("The first value of a statement is the tenant.", hint="Write `tenant = ?` first.")
        return [self.tenant, *parameters]

    def select(self, table: Table[Record], **where: Value | None) -> list[Record]:
        """Return the records with these values; None stands for any value."""
        condition, values = self._condition({name: value for name, value in where.items() if value is not None})
        columns, order = ", ".join(table.columns), ", ".join(table.order)
        sql = f"SELECT {columns} FROM {table.name} WHERE {condition} ORDER BY {order}"
        return [table.from_row(row) for row in self.pool.execute(sql, values)]

    def first(self, table: Table[Record], **where: Value) -> Record | None:
        """Return the first record with these values."""
        return next(iter(self.select(table, **where)), None)

    def insert(self, table: Table[Record], record: Record, *, unless_there: bool = False, **more: Value) -> bool:
        """Add a record, with values of other columns; with `unless_there`, False for one whose key is there."""
        values = {**table.to_row(record), **more, "tenant": self.tenant}
        sql = insert_statement(table.name, values)
        return self._change(f"{sql} ON CONFLICT DO NOTHING" if unless_there else sql, list(values.values()))

    def insert_all(self, table: Table[Any], rows: Sequence[Mapping[str, Value]]) -> None:
        """Add many rows with the same columns, inside of a transaction."""
        if rows:
            sql = insert_statement(table.name, (*rows[0], "tenant"))
            self.pool.change_all(sql, ([*row.values(), self.tenant] for row in rows))

    def append(self, table: Table[Record], record: Record, *, unless_there: bool = False) -> bool:
        """Add a record with the next number of a table whose listings keep the order of arrival."""
        with self.transaction():
            return self.insert(table, record, unless_there=unless_there, number=self.next_number(table))

    def next_number(self, table: Table[Any], **where: Value) -> int:
        """Return the number after those of the records with these values, inside of a transaction."""
        condition, values = self._condition(where)
        last: int | None = self.pool.execute(f"SELECT max(number) FROM {table.name} WHERE {condition}", values)[0][0]
        return (last or 0) + 1

    def replace(self, table: Table[Record], record: Record, key: tuple[str, ...], **more: Value) -> None:
        """Add a record in place of one with the same values in the columns of the key."""
        values = {**table.to_row(record), **more, "tenant": self.tenant}
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name not in (*key, "tenant"))
        conflict = f" ON CONFLICT (tenant, {', '.join(key)}) DO UPDATE SET {changed}"
        self._change(insert_statement(table.name, values) + conflict, list(values.values()))

    def update(self, table: Table[Any], changes: Mapping[str, Value], **where: Value) -> bool:
        """Change the records with these values; False when there is none."""
        condition, values = self._condition(where)
        changed = ", ".join(f"{name} = ?" for name in changes)
        return self._change(f"UPDATE {table.name} SET {changed} WHERE {condition}", [*changes.values(), *values])

    def delete(self, table: Table[Any], **where: Value) -> bool:
        """Remove the records with these values; False when there is none."""
        condition, values = self._condition(where)
        return self._change(f"DELETE FROM {table.name} WHERE {condition}", values)

    def _condition(self, where: Mapping[str, Value]) -> tuple[str, list[Value]]:
        where = {**where, "tenant": self.tenant}
        return " AND ".join(f"{name} = ?" for name in where), list(where.values())

    def _change(self, sql: str, values: Sequence[Value]) -> bool:
        with contextlib.nullcontext() if self.pool.is_in_transaction else self.transaction():
            return self.pool.change(sql, values) > 0

    def state_version(self) -> StateVersion:
        """Return a version that differs whenever something changed that decisions depend on.

        The number that `bump` changes can be set back by SQL. Prohibitions are in the audit log as well, and that only
        grows: so the newest record counts too.
        """
        rows = self.pool.execute(_VERSION, (self.tenant,), decode=False)  # numbers and a hash
        if rows:
            return rows[0]
        generation = self.pool.execute(_GENERATION, (self.tenant,))
        return (generation[0][0] if generation else None, 0, "")

    def bump(self) -> None:
        """Note a change that decisions depend on, in the transaction that makes it."""
        # The clock is in it so that no number comes twice, also after a store was made anew or restored.
        self.pool.change(BUMP[self.pool.kind], (self.tenant, time.time_ns() // 1_000_000))


def insert_statement(table: str, columns: Iterable[str]) -> str:
    """Return the statement that adds a row with values for these columns."""
    names = tuple(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def tenant_of_token(pool: ConnectionPool, secret_hash: str) -> str | None:
    """Return the tenant of a token: the one question that is asked before the tenant is known."""
    rows = pool.execute("SELECT tenant FROM tokens WHERE secret_hash = ?", (secret_hash,))
    return rows[0][0] if rows else None


class TenantScope:
    """The data of one tenant in a store.

    >>> import tempfile
    >>> from metier.store import Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     scope = store.of("acme")
    ...     block = scope.blocks.add("name", "miner", reason="mines coins", by="ada")
    ...     scope.state().blocked, store.of("other").state().blocked
    (frozenset({('name', 'miner')}), frozenset())
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self._rows = TenantRows(store.pool, tenant)

    def __repr__(self) -> str:
        return f"TenantScope({str(self.store)!r}, tenant={self.tenant!r})"

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes inside together or not at all; transactions of one tenant run one after the other.

        Inside of another one, it undoes only its own part when it fails.
        """
        return self._rows.transaction()

    def state(self) -> GovernanceState:
        """Return the state that decisions depend on; the same object until something of it changes."""
        reader = self.store.decision_reader
        if self.store.pool.is_in_transaction:
            # An uncommitted change may be undone, and its number be given to something else.
            return read_state(self._rows, reader).state
        cached, version = self.store.states.get(self.tenant), self._rows.state_version()
        if cached is None or cached.version != version:
            # Most records decide nothing: then only they are read.
            cached = (cached and cached.moved(version, reader.read(self._rows))) or read_state(self._rows, reader)
            self.store.states[self.tenant] = cached
        return cached.state

    def recorded_decisions(self) -> RecordedDecisions:
        """Return the decisions in its audit log."""
        return self.store.decision_reader.read(self._rows)

    def _follow(self, last: ChainPosition, added: ChainPosition) -> None:
        """Keep the cached state after a record of this process that decides nothing."""
        cached = self.store.states.get(self.tenant)
        if cached is not None and cached.version[1:] == (last.seq, last.hash):
            self.store.states[self.tenant] = replace(cached, version=(cached.version[0], added.seq, added.hash))

    @cached_property
    def revisions(self) -> Revisions:
        """The contents of skills."""
        return Revisions(self._rows, self.store.blobs)

    @cached_property
    def versions(self) -> Versions:
        """The history of skills in their folders."""
        return Versions(self._rows)

    @cached_property
    def installs(self) -> Installs:
        """The content that belongs in each folder."""
        return Installs(self._rows)

    @cached_property
    def approvals(self) -> Approvals:
        """Approvals, and the requests for them."""
        return Approvals(self._rows, self.recorded_decisions)

    @cached_property
    def blocks(self) -> Blocks:
        """Blocked names, contents and sources."""
        return Blocks(self._rows, self.recorded_decisions)

    @cached_property
    def people(self) -> People:
        """People and their tokens."""
        from metier.store.people import People

        return People(self._rows, self.store.decision_reader)

    @cached_property
    def scans(self) -> Scans:
        """Results of scanners."""
        return Scans(self._rows)

    @cached_property
    def proposals(self) -> Proposals:
        """Proposed changes of skills."""
        from metier.store.proposals import Proposals

        return Proposals(self._rows)

    @cached_property
    def policies(self) -> PolicyTexts:
        """The texts of policy files that decisions were made under."""
        return PolicyTexts(self._rows)

    @cached_property
    def audit(self) -> AuditTable:
        """The audit log."""
        return AuditTable(self._rows, self._follow)
