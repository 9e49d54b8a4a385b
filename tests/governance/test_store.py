"""A store that is gone, damaged or elsewhere releases nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from tests.store.postgres import new_database_with_tables

from metier import Session
from metier.cli import main
from metier.errors import Refused
from metier.guard import open_stores
from metier.store import Store

Begin = Callable[..., Session]
Put = Callable[..., Path]


@pytest.fixture
def blocked(put: Put, begin: Begin) -> Path:
    """A skill in quarantine, as some session has seen; the file of the store."""
    put("project", "deploy")
    with Store.open() as store:
        store.of().blocks.add("name", "deploy", reason="It was taken over.", by="ada")
        file = Path(store.url.removeprefix("sqlite:///"))
    with pytest.raises(Refused, match="in quarantine"):
        begin().load("deploy")
    open_stores.OPEN.items.clear()  # as in another process
    return file


def remove(file: Path) -> None:
    for name in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
        name.unlink(missing_ok=True)


def truncate(file: Path) -> None:
    remove(file)
    file.touch()


def spoil(file: Path) -> None:
    remove(file)
    file.write_bytes(b"no database" * 1000)


def replace_by_folder(file: Path) -> None:
    remove(file)
    file.mkdir()


def empty(file: Path) -> None:
    """Take all tables away by SQL, with what says whose database it is."""
    remove_logs = [file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")]
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        others = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
        for kind, name in database.execute(others).fetchall():
            database.execute(f'DROP {kind} "{name}"')
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (name,) in database.execute(names).fetchall():
            database.execute(f'DROP TABLE "{name}"')
        database.execute("PRAGMA user_version = 0")
        database.execute("PRAGMA application_id = 0")
        database.commit()
    for log in remove_logs:
        log.unlink(missing_ok=True)


@pytest.mark.covers("A-50", "SEC-6")
@pytest.mark.parametrize("harm", [remove, truncate, spoil, replace_by_folder, empty])
@pytest.mark.parametrize("policy", ["", pytest.param("version: 1\n", marks=pytest.mark.slow)])
def test_a_quarantine_is_not_released_by_taking_the_store_away(
    harm: Callable[[Path], None], policy: str, blocked: Path, begin: Begin, enterprise: Callable[[str], Path]
) -> None:
    if policy:
        enterprise(policy)
    harm(blocked)
    for _ in range(2):  # what is recorded makes no new store either
        with pytest.raises(Refused) as caught:
            begin().load("deploy")
        assert caught.value.code in ("store-unavailable", "audit-unavailable")


NO_VERSION = ["DELETE FROM store_version"]
SERVER_HARM = {
    "no version": NO_VERSION,
    "version 0": ["UPDATE store_version SET version = 0"],
    "a version below 0": ["UPDATE store_version SET version = -1"],
    "a schema of the user's name with an empty version": [
        "CREATE SCHEMA metier",
        "CREATE TABLE metier.store_version (version INTEGER PRIMARY KEY)",
    ],
    "no table that says the version": ["DROP TABLE store_version"],
    "no tables": ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"],
    "no schema": ["DROP SCHEMA public CASCADE"],
    "no audit log and no version": ["DROP TABLE audit_log", *NO_VERSION],
    "an empty schema for all of its users": [
        "CREATE SCHEMA empty",
        "ALTER ROLE metier IN DATABASE {database} SET search_path = empty",
    ],
    "an empty version first for all of its users": [
        "CREATE SCHEMA empty",
        "CREATE TABLE empty.store_version (version INTEGER PRIMARY KEY)",
        "ALTER ROLE metier IN DATABASE {database} SET search_path = empty, public",
    ],
    "tables of other names": ["ALTER TABLE blocks RENAME TO blocks_2"],
}


@pytest.mark.covers("A-50", "SEC-6")
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(
            harm, marks=[] if harm in ("no version", "no tables", "tables of other names") else pytest.mark.slow
        )
        for harm in SERVER_HARM
    ],
)
def test_a_quarantine_is_not_released_by_taking_tables_of_a_server_away(
    harm: str, put: Put, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database_with_tables()
    database = url.partition("?")[0].rpartition("/")[2]
    put("project", "deploy")
    put("project", "other")
    with Store.open(url) as store:
        store.of().blocks.add("name", "deploy", reason="It was taken over.", by="ada")
    monkeypatch.setenv("METIER_STORE", url)
    with pytest.raises(Refused, match="in quarantine"):
        begin().load("deploy")
    begin().load("other")
    monkeypatch.setattr(open_stores.OPEN, "items", OrderedDict())  # as in another process
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in SERVER_HARM[harm]:
            connection.execute(statement.format(database=database))
    for _ in range(2):  # what is recorded makes no new store either
        for name in ("deploy", "other"):
            with pytest.raises(Refused) as caught:
                begin().load(name)
            assert caught.value.code in ("store-unavailable", "audit-unavailable")
    assert main(["store", "check"]) in (2, 3)
    assert main(["audit", "verify"]) in (1, 2)


@pytest.mark.covers("SEC-6")
def test_a_file_whose_version_was_taken_away_is_no_new_store(begin: Begin, put: Put) -> None:
    put("project", "deploy")
    with Store.open() as store:
        store.of().blocks.add("name", "deploy", reason="It was taken over.", by="ada")
        file = store.url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 0")
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            begin().load("deploy")
        assert caught.value.code in ("store-unavailable", "audit-unavailable")
    assert main(["store", "migrate"]) == 2


def test_no_variable_says_where_the_store_is_when_an_administrator_does(
    put: Put, begin: Begin, enterprise: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"sqlite:///{tmp_path}/ours.db"
    enterprise(f"version: 1\nstore: {ours}\n")
    put("project", "deploy")
    with Store.open(ours) as store:
        store.of().blocks.add("name", "deploy", reason="It was taken over.", by="ada")
    for variable, value in (("METIER_STORE", f"sqlite:///{tmp_path}/mine.db"), ("METIER_DATA", str(tmp_path / "mine"))):
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("METIER_AUDIT", "off")
    with pytest.raises(Refused, match="in quarantine"):
        begin().load("deploy")
    with Store.open(ours) as store:
        assert "skill.denied" in [one["type"] for one in store.of().audit.tail(5)]
    assert not os.path.exists(tmp_path / "mine.db")
