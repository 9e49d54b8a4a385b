"""Stores: opened by address, and used one tenant at a time."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier.errors import StoreUnavailable
from metier.store.connection_pool import ConnectionPool
from metier.store.location import parse_address
from metier.store.scope import TenantScope, tenant_of_token
from metier.store.state import DecisionReader

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from metier.store.blobs import Blobs
    from metier.store.connection_pool import Backend
    from metier.store.location import Kind, StoreAddress
    from metier.store.people import Person
    from metier.store.state import CachedState

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
        return self._address.folder

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


def _backend(address: StoreAddress, *, create: bool) -> Backend:
    if address.kind == "sqlite":
        from metier.store.sqlite import SqliteBackend

        return SqliteBackend(address.target, create=create)
    from metier.store.postgresql import PostgresBackend

    return PostgresBackend(address.target, create=create)
