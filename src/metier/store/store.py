"""A store: opened by its address, and given out one tenant at a time."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from metier.errors import StoreUnavailable
from metier.store.connection_pool import ConnectionPool
from metier.store.ledger import DecisionReader
from metier.store.location import parse_address
from metier.store.migrations import migrate, newest
from metier.store.rows import has_people, tenant_of_token, tenants_of
from metier.store.scope import TenantScope

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from metier.store.blobs import Blobs
    from metier.store.link import ChainPosition
    from metier.store.location import Kind, StoreAddress
    from metier.store.people import Person
    from metier.store.postgresql import PostgresBackend
    from metier.store.sqlite import SqliteBackend
    from metier.store.state import CachedState

_STATES_KEPT = 1_000


class Store:
    """Everything that must last, for all tenants.

    `Store.open()` opens the user's own, and makes it where there is none; `Store.peek()` only opens one that is there.
    One store serves all threads of a process, and a process that was forked.
    """

    def __init__(self, address: StoreAddress, database: SqliteBackend | PostgresBackend) -> None:
        self._address = address
        self.driver = ConnectionPool(database)
        self.states: dict[str, CachedState] = {}
        """What decisions depend on, by tenant, as it was last read."""
        self.ledgers = DecisionReader(str(address))
        """The decisions that the audit trails have."""
        self.blobs: Blobs
        if address.kind == "sqlite":
            from metier.store.blobs import FolderBlobs

            self.blobs = FolderBlobs(address.folder)
        else:
            from metier.store.blobs import TableBlobs

            self.blobs = TableBlobs(self.driver)

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = True) -> Self:
        """The store at an address, by default that of `default_store()`; made where there is none, if it may be.

        Raises `StoreUnavailable` for one that cannot be used.
        """
        address = parse_address(url)
        store = cls(address, _database(address, create=create))
        # Whoever opens a store wants to know now that it cannot be used, not at the first question.
        store.driver.execute("SELECT 1")
        return store

    @classmethod
    def migrate(cls, url: str | None = None) -> tuple[int, int]:
        """Make a store, or bring its tables up to date; returns the version that they had and the one they have.

        A SQLite file is brought up to date whenever it is opened. A PostgreSQL database may be used by other nodes,
        which would no longer understand it: so that is done only here.
        """
        address = parse_address(url)
        database = _database(address, create=True)
        connection = database.reach()
        try:
            return migrate(database, connection), newest()
        except database.failures as error:
            raise database.told(error) from None
        finally:
            connection.close()

    @classmethod
    def peek(cls, url: str | None = None) -> Self | None:
        """The store at an address, or None where there is none yet."""
        address = parse_address(url)
        try:
            if address.kind == "sqlite" and not os.stat(address.target).st_size:
                return None
            return cls.open(url, create=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _database(address, create=False).told(error) from None
        except StoreUnavailable as error:
            if error.context.get("is_missing"):
                return None
            raise

    @property
    def url(self) -> str:
        """Its address, as it opens it again: it has the password, if there is one; `str(store)` does not."""
        return str(self._address) if self.kind == "sqlite" else self._address.target

    @property
    def kind(self) -> Kind:
        """`sqlite` or `postgresql`."""
        return self._address.kind

    @property
    def folder(self) -> Path:
        """Where blobs, checkpoints and proposals are, on this machine."""
        return self._address.folder

    def of(self, tenant: str = "") -> TenantScope:
        """All that it keeps for a tenant; "" for a store that has but one."""
        return TenantScope(self, tenant)

    def tenants(self) -> list[str]:
        """The tenants that it keeps something for, by name."""
        return tenants_of(self.driver)

    @property
    def has_people(self) -> bool:
        """Whether anybody was added, to any tenant: until then it is its owner's.

        Neither the rows alone nor the records alone can be taken away to make it that again.
        """
        return has_people(self.driver) or bool(self.of().ledger().people)

    def by_token(self, secret: str) -> tuple[TenantScope, Person] | None:
        """Whose token it is, and where they belong; None for one that does not count."""
        from metier.store.people import PREFIX, secret_hash

        if not secret.startswith(PREFIX):
            return None
        tenant = tenant_of_token(self.driver, secret_hash(secret))
        if tenant is None:
            return None
        scope = self.of(tenant)
        person = scope.people.by_token(secret)
        return (scope, person) if person is not None else None

    def keep_state(self, tenant: str, state: CachedState) -> None:
        """Keep what was read for a tenant."""
        if len(self.states) >= _STATES_KEPT:
            self.states.clear()
        self.states[tenant] = state

    def follow(self, tenant: str, last: ChainPosition, added: ChainPosition) -> None:
        """Note that a record was added here that decides nothing: what was read up to the last one still holds."""
        kept = self.states.get(tenant)
        if kept is not None and kept.position[1:] == (last.seq, last.hash):
            self.states[tenant] = replace(kept, position=(kept.position[0], added.seq, added.hash))

    def close(self) -> None:
        """Let go of its connections; the next use opens one again."""
        self.driver.close()

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


def _database(address: StoreAddress, *, create: bool) -> SqliteBackend | PostgresBackend:
    if address.kind == "sqlite":
        from metier.store.sqlite import SqliteBackend

        return SqliteBackend(address.target, create=create)
    from metier.store.postgresql import PostgresBackend

    return PostgresBackend(address.target, create=create)
