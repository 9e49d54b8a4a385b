"""A server over a fresh store, and a client for everybody who may call it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from metier.serve.api.app import create_app
from metier.serve.api.context import ServerContext
from metier.serve.api.settings import ServerSettings
from metier.store import Person, Store, TenantScope
from metier.store.people import ROLES

OTHER = "other"
"""The tenant of the admin who belongs to another organisation; everybody else belongs to ""."""
CALLERS = ("nobody", "node", *ROLES, OTHER)
"""Everybody who may call: without a credential, a node, a person of each role, and the other tenant's admin."""


class Api:
    """The app of a server, and clients of it. The names of people are their roles."""

    def __init__(self, store: Store, settings: ServerSettings) -> None:
        self.store = store
        self.app: FastAPI = create_app(store, settings)
        self.scope: TenantScope = store.of()
        self.other: TenantScope = store.of(OTHER)
        # An admin comes first: until then nobody of a tenant may decide.
        for role in reversed(ROLES):
            self.scope.people.add(Person(name=role, roles=frozenset({role})))
        self.scope.people.add(Person(name="node", kind="node"))
        self.other.people.add(Person(name=OTHER, roles=frozenset({"admin"})))
        self.tokens = {name: self.scope.people.new_token(name)[1] for name in (*ROLES, "node")}
        self.tokens[OTHER] = self.other.people.new_token(OTHER)[1]
        self._clients: dict[str, TestClient] = {}

    @property
    def context(self) -> ServerContext:
        """The parts that all routes share."""
        found: ServerContext = self.app.state.context
        return found

    def person(self, name: str) -> Person:
        """The person of a role, the node, or the other tenant's admin."""
        found = (self.other if name == OTHER else self.scope).people.get(name)
        assert found is not None
        return found

    def header(self, name: str) -> dict[str, str]:
        """The header by which somebody is known; none for nobody."""
        return {} if name == "nobody" else {"Authorization": f"Bearer {self.tokens[name]}"}

    def as_(self, name: str) -> TestClient:
        """The client of one of `CALLERS`."""
        if name not in self._clients:
            self._clients[name] = TestClient(self.app, headers=self.header(name), follow_redirects=False)
        return self._clients[name]


@pytest.fixture
def settings() -> ServerSettings:
    """The settings of the server; a module that needs others overrides it."""
    return ServerSettings()


@pytest.fixture
def api(tmp_path: Path, settings: ServerSettings) -> Iterator[Api]:
    """A server over a fresh store that knows a person of each role, a node, and another tenant's admin."""
    with Store.open(f"sqlite:///{tmp_path}/store/metier.db") as store:
        yield Api(store, settings)
