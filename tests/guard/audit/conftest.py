"""A log in a store, and somebody else who writes to that store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from metier.guard import AuditRecord
from metier.guard.audit.store_log import StoreLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[StoreLog]:
    """A log with one record."""
    log = StoreLog(f"sqlite:///{tmp_path}/metier.db")
    log.append(AuditRecord(timestamp="2026-01-01T10:00:00.000+00:00", event="load", decision="allow", reason="first"))
    yield log
    log.close()


@pytest.fixture
def other(log: StoreLog, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else who writes, and does not end."""
    connection = sqlite3.connect(tmp_path / "metier.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()
