"""The rows of one tenant, and all that a store keeps for it: the only place that fills in and asks for the tenant."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.errors import InvalidArgument
from metier.store.canonical_json import escape_surrogates
from metier.store.connection_pool import encode_text
from metier.store.state import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from metier.store.approvals import Approvals
    from metier.store.audit_log import AuditTable, ChainPosition
    from metier.store.blocks import Blocks, PolicyTexts, Scans
    from metier.store.connection_pool import ConnectionPool, Value
    from metier.store.people import People
    from metier.store.proposals import Proposals
    from metier.store.revisions import Installs, Revisions, Versions
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
        """Return the rows of a statement whose first parameter is the tenant, `... WHERE tenant = ? AND ...`.

        It is for the few statements that every decision or record needs, and that nothing heavy is imported for.
        """
        return self.pool.execute(sql, self._with_tenant(sql, parameters))

    def change(self, sql: str, *parameters: Value) -> int:
        """Return how many rows such a statement changed."""
        return self.pool.change(sql, self._with_tenant(sql, parameters))

    def _with_tenant(self, sql: str, parameters: Sequence[Value]) -> list[Value]:
        if "tenant" not in sql.partition("?")[0]:
            raise InvalidArgument("The first value of a statement is the tenant.", hint="Write `tenant = ?` first.")
        return [self.tenant, *parameters]

    def select(
        self, table: str, where: Mapping[str, Value] | None = None, order: tuple[str, ...] = ()
    ) -> list[dict[str, Any]]:
        """Return the rows with these values, as mappings."""
        from metier.store.schema import columns_of, select_of

        where = {"tenant": self.tenant, **(where or {})}
        query = select_of(self.pool.kind, table, tuple(where), order)
        columns = columns_of(table)
        return [dict(zip(columns, row, strict=True)) for row in self.pool.execute(query.sql, query.bind({}, where))]

    def insert(
        self, table: str, values: Mapping[str, Value], conflict: Literal["refuse", "ignore", "replace"] = "refuse"
    ) -> bool:
        """Add a row; False when one with its key was there and the new one is ignored."""
        from metier.store.schema import insert_of

        values = {**values, "tenant": self.tenant}
        insert = insert_of(self.pool.kind, table, tuple(sorted(values)), conflict)
        return self._changed(insert.sql, insert.bind(values, {})) > 0

    def insert_next(
        self, table: str, values: Mapping[str, Value], conflict: Literal["refuse", "ignore"] = "refuse"
    ) -> bool:
        """Add a row with the next number of a table whose listings keep the order of arrival."""
        with self.transaction():
            last = self.statement(f"SELECT max(number) FROM {table} WHERE tenant = ?")[0][0] or 0
            return self.insert(table, {**values, "number": last + 1}, conflict)

    def insert_all(self, table: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Add many rows, inside of a transaction."""
        from metier.store.schema import columns_of, insert_of

        insert = insert_of(self.pool.kind, table, columns_of(table), "refuse")
        self.pool.change_all(insert.sql, (insert.bind({**row, "tenant": self.tenant}, {}) for row in rows))

    def update(self, table: str, values: Mapping[str, Value], where: Mapping[str, Value]) -> int:
        """Change the rows with these values; returns how many there were."""
        from metier.store.schema import update_of

        where = {**where, "tenant": self.tenant}
        update = update_of(self.pool.kind, table, tuple(sorted(values)), tuple(where))
        return self._changed(update.sql, update.bind(values, where))

    def delete(self, table: str, where: Mapping[str, Value]) -> int:
        """Remove the rows with these values; returns how many there were."""
        from metier.store.schema import delete_of

        where = {**where, "tenant": self.tenant}
        delete = delete_of(self.pool.kind, table, tuple(where))
        return self._changed(delete.sql, delete.bind({}, where))

    def _changed(self, sql: str, parameters: Sequence[Value]) -> int:
        if self.pool.is_in_transaction:
            return self.pool.change(sql, parameters)
        with self.transaction():
            return self.pool.change(sql, parameters)

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
        from metier.store.revisions import Revisions

        return Revisions(self._rows, self.store.blobs)

    @cached_property
    def versions(self) -> Versions:
        """The history of skills in their folders."""
        from metier.store.revisions import Versions

        return Versions(self._rows)

    @cached_property
    def installs(self) -> Installs:
        """The content that belongs in each folder."""
        from metier.store.revisions import Installs

        return Installs(self._rows)

    @cached_property
    def approvals(self) -> Approvals:
        """Approvals, and the requests for them."""
        from metier.store.approvals import Approvals

        return Approvals(self._rows, self.recorded_decisions)

    @cached_property
    def blocks(self) -> Blocks:
        """Blocked names, contents and sources."""
        from metier.store.blocks import Blocks

        return Blocks(self._rows, self.recorded_decisions)

    @cached_property
    def people(self) -> People:
        """People and their tokens."""
        from metier.store.people import People

        return People(self._rows, self.store.decision_reader)

    @cached_property
    def scans(self) -> Scans:
        """Results of scanners."""
        from metier.store.blocks import Scans

        return Scans(self._rows)

    @cached_property
    def proposals(self) -> Proposals:
        """Proposed changes of skills."""
        from metier.store.proposals import Proposals

        return Proposals(self._rows)

    @cached_property
    def policies(self) -> PolicyTexts:
        """The texts of policy files that decisions were made under."""
        from metier.store.blocks import PolicyTexts

        return PolicyTexts(self._rows)

    @cached_property
    def audit(self) -> AuditTable:
        """The audit log."""
        from metier.store.audit_log import AuditTable

        return AuditTable(self._rows, self._follow)
