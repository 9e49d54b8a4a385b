"""Stores to test with, on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.store.postgres import postgres_url, store_url

from metier.store import Store, TenantScope

__all__ = ["postgres_url", "store_url"]


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store."""
    with Store.open(store_url) as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    """What a tenant sees of it."""
    return store.of("acme")
