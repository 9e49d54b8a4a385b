"""Stores: opened by address, and used one tenant at a time."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier._lazy import replace
from metier.errors import StoreUnavailable
from metier.store.approvals import Approvals
from metier.store.audit_log import AuditTable
from metier.store.blocks import Blocks, PolicyTexts, Scans
from metier.store.connection_pool import ConnectionPool
from metier.store.location import parse_address
from metier.store.revisions import Installs, Revisions, Versions
from metier.store.rows import TenantRows, tenant_of_token
from metier.store.state import CachedState, DecisionReader, PastStates, read_state

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from metier.store.audit_log import ChainPosition
    from metier.store.audit_search import AuditSearch
    from metier.store.blobs import Blobs
    from metier.store.connection_pool import Backend
    from metier.store.feedback import FeedbackTable
    from metier.store.idempotency import IdempotencyKeys
    from metier.store.location import Kind, StoreAddress
    from metier.store.node_records import NodeRecords
    from metier.store.nodes import Nodes
    from metier.store.people import People, Person
    from metier.store.policy_versions import PolicyVersions
    from metier.store.proposals import Proposals
    from metier.store.registry import Deployments, Namespaces, Releases
    from metier.store.rows import StateVersion
    from metier.store.state import GovernanceState, RecordedDecisions
    from metier.store.tier_runs import TierRuns
    from metier.store.usage import UsageTable
    from metier.store.used_once import UsedOnce
    from metier.store.webhooks import Webhooks

_MAX_STATES = 1_000


class Store:
    """All lasting data of all tenants.

    `Store.open()` opens the user's own store, and makes it where there is none; `Store.peek()` only opens an existing
    one. One store serves all threads of a process, and its forked processes.
    """

    def __init__(self, address: StoreAddress, backend: Backend) -> None:
        self._address = address
        self.pool = ConnectionPool(backend)
        self.states: BoundedCache[str, CachedState] = BoundedCache(_MAX_STATES)
        """The last state that was read, by tenant."""
        self.heads: BoundedCache[str, tuple[ChainPosition, bool]] = BoundedCache(_MAX_STATES)
        """The last audit record that this process has written by tenant, and whether nobody else wrote before."""
        self.decision_reader = DecisionReader(str(address))
        """Reads the decisions in the audit logs."""

    @cached_property
    def blobs(self) -> Blobs:
        """The contents of files."""
        from metier.store.blobs import FolderBlobs, TableBlobs

        return FolderBlobs(self.folder) if self.kind == "sqlite" else TableBlobs(self.pool)

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = True) -> Self:
        """Open the store at an address, by default that of `default_store()`, and make it where that is allowed.

        Raises `StoreUnavailable` for a store that cannot be used.
        """
        address = parse_address(url)
        store = cls(address, _backend(address, create=create))
        # A store that cannot be used must fail here, not at the first query.
        store.pool.execute("SELECT 1")
        return store

    @classmethod
    def migrate(cls, url: str | None = None) -> tuple[int, int]:
        """Make a store, or migrate its tables; returns the version before and after.

        A SQLite file is migrated whenever it is opened. A PostgreSQL database may be used by other nodes, which would
        no longer understand it: so that is done only here.
        """
        backend = _backend(parse_address(url), create=True)
        connection = backend.reach()
        try:
            return backend.migrate(connection), backend.newest
        except backend.failures as error:
            raise backend.explain(error) from None
        finally:
            connection.close()

    @classmethod
    def peek(cls, url: str | None = None) -> Self | None:
        """Open the store at an address; None where there is none yet."""
        address = parse_address(url)
        try:
            if address.kind == "sqlite" and not os.stat(address.target).st_size:
                return None
            return cls.open(url, create=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _backend(address, create=False).explain(error) from None
        except StoreUnavailable as error:
            if error.context.get("is_missing"):
                return None
            raise

    @property
    def url(self) -> str:
        """The address with the password, if there is one; `str(store)` has none."""
        return str(self._address) if self.kind == "sqlite" else self._address.target

    @property
    def kind(self) -> Kind:
        """`sqlite` or `postgresql`."""
        return self._address.kind

    @property
    def folder(self) -> Path:
        """The folder of blobs, checkpoints and proposals on this machine."""
        from pathlib import Path

        return Path(self._address.folder)

    def of(self, tenant: str = "") -> TenantScope:
        """Return the scope of a tenant; "" stands for the whole installation."""
        return TenantScope(self, tenant)

    def tenants(self) -> list[str]:
        """Return all tenants with any data, by name."""
        from metier.store.all_tenants import tenants_of

        return tenants_of(self.pool)

    @property
    def has_people(self) -> bool:
        """Whether a person was added to any tenant: until then the owner of the store decides alone.

        Removing the rows alone or the records alone does not make it so again.
        """
        return bool(self.pool.execute("SELECT 1 FROM people LIMIT 1") or self.of().recorded_decisions().people)

    def by_token(self, secret: str) -> tuple[TenantScope, Person] | None:
        """Return the scope and the person of a token; None for one that is not valid."""
        from metier.store.people import PREFIX, secret_hash

        if not secret.startswith(PREFIX):
            return None
        tenant = tenant_of_token(self.pool, secret_hash(secret))
        if tenant is None:
            return None
        scope = self.of(tenant)
        person = scope.people.by_token(secret)
        return (scope, person) if person is not None else None

    def close(self) -> None:
        """Close its idle connections; the next use opens one again."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self._address)

    def __repr__(self) -> str:
        return f"Store({str(self)!r})"


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
        cached = self.store.states.get(self.tenant)
        if cached is not None and self.store.pool.is_unchanged(cached.mark):
            return cached.state
        version, mark = self._rows.marked_version()
        if cached is None or cached.version != version:
            # Most records decide nothing: then only they are read.
            cached = (cached and cached.moved(version, reader.read(self._rows))) or read_state(self._rows, reader)
        self.store.states[self.tenant] = replace(cached, mark=mark)
        return cached.state

    def version(self) -> StateVersion:
        """Return a version that differs whenever something changed that decisions depend on, or was recorded."""
        return self._rows.state_version()

    def past_states(self) -> PastStates:
        """Return the states that it was in, for decisions that are made again."""
        return PastStates(self._rows)

    def recorded_decisions(self) -> RecordedDecisions:
        """Return the decisions in its audit log."""
        return self.store.decision_reader.read(self._rows)

    def _follow(self, last: ChainPosition, added: ChainPosition) -> None:
        """Keep the cached state after a record of this process that decides nothing."""
        cached = self.store.states.get(self.tenant)
        if cached is not None and cached.version[1:] == (last.seq, last.hash):
            # The record was one more row of the connection of the mark; if it was another's, the mark fits neither way.
            mark = None if cached.mark is None else (*cached.mark[:2], cached.mark[2] + 1)
            version = (cached.version[0], added.seq, added.hash)
            self.store.states[self.tenant] = CachedState(
                state=cached.state, version=version, decisions=cached.decisions, mark=mark
            )

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
    def idempotency(self) -> IdempotencyKeys:
        """Requests that came under a key of their sender."""
        from metier.store.idempotency import IdempotencyKeys

        return IdempotencyKeys(self._rows)

    @cached_property
    def feedback(self) -> FeedbackTable:
        """Feedback about skills."""
        from metier.store.feedback import FeedbackTable

        return FeedbackTable(self._rows)

    @cached_property
    def test_results(self) -> TierRuns:
        """Results of the tests of skills."""
        from metier.store.tier_runs import TierRuns

        return TierRuns(self._rows)

    @cached_property
    def usage(self) -> UsageTable:
        """Roll-ups of usage."""
        from metier.store.usage import UsageTable

        return UsageTable(self._rows)

    @cached_property
    def used_once(self) -> UsedOnce:
        """Values that count once."""
        from metier.store.used_once import UsedOnce

        return UsedOnce(self._rows)

    @cached_property
    def policies(self) -> PolicyTexts:
        """The texts of policy files that decisions were made under."""
        return PolicyTexts(self._rows)

    @cached_property
    def nodes(self) -> Nodes:
        """The machines of the tenant."""
        from metier.store.nodes import Nodes

        return Nodes(self._rows)

    @cached_property
    def node_records(self) -> NodeRecords:
        """The audit records of its machines."""
        from metier.store.node_records import NodeRecords

        return NodeRecords(self._rows)

    @cached_property
    def policy_versions(self) -> PolicyVersions:
        """The policy of the tenant on a server."""
        from metier.store.policy_versions import PolicyVersions

        return PolicyVersions(self._rows, self.store.decision_reader)

    @cached_property
    def namespaces(self) -> Namespaces:
        """The namespaces of the registry."""
        from metier.store.registry import Namespaces

        return Namespaces(self._rows)

    @cached_property
    def releases(self) -> Releases:
        """The releases in the registry."""
        from metier.store.registry import Releases

        return Releases(self._rows)

    @cached_property
    def deployments(self) -> Deployments:
        """The releases that every node has."""
        from metier.store.registry import Deployments

        return Deployments(self._rows)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Webhooks, and what is delivered to them."""
        from metier.store.webhooks import Webhooks

        return Webhooks(self._rows, self.recorded_decisions)

    @cached_property
    def audit(self) -> AuditTable:
        """The audit log."""
        return AuditTable(self._rows, self._follow, self.store.heads)

    @cached_property
    def audit_search(self) -> AuditSearch:
        """The audit log, together with the records that nodes have shipped."""
        from metier.store.audit_search import AuditSearch

        return AuditSearch(self._rows, self.audit)


def _backend(address: StoreAddress, *, create: bool) -> Backend:
    if address.kind == "sqlite":
        from metier.store.sqlite import SqliteBackend

        return SqliteBackend(address.target, create=create)
    from metier.store.postgresql import PostgresBackend

    return PostgresBackend(address.target, create=create)
