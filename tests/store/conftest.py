"""Stores to test with, on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.store.postgres import postgres_url, store_url

from metier.store import Store, TenantScope

__all__ = ["postgres_url", "store_url"]

RULES = {
    f"test_{name}.py"
    for name in ("approvals", "people", "proposals", "registry", "restore_policy", "revisions", "state", "versions")
}
"""Tests of rules that are written in Python, over statements that other tests hold against both databases."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hold such rules against SQLite in `make test`, and against PostgreSQL in `make test-slow`."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters and parameters.params.get("store_url") == "postgresql" and item.path.name in RULES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store."""
    with Store.open(store_url) as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    """What a tenant sees of it."""
    return store.of("acme")
