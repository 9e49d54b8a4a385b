"""From one version of the tables to the next."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from metier.errors import StoreUnavailable
from metier.store import Store, migrations
from metier.store.checks import check_store
from metier.store.connection_pool import Backend
from metier.store.location import Kind
from metier.store.migrations import STEPS, Run, Step

NOW = Backend.newest
FIRST = Path(__file__).with_name("version-1.sql")


def tables_of(version: int, kind: Kind) -> str:
    """The statements that made the tables of a released version."""
    return Path(__file__).with_name(f"version-{version}-{kind}.sql").read_text(encoding="utf-8")


def add_steps(patch: pytest.MonkeyPatch, *steps: Step) -> None:
    patch.setattr(migrations, "STEPS", (*STEPS, *steps))
    patch.setattr(Backend, "newest", NOW + len(steps))


def add_colours(run: Run, kind: Kind) -> None:
    run("CREATE TABLE colours (name TEXT NOT NULL)")
    run("ALTER TABLE blocks ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")


def break_in_the_middle(run: Run, kind: Kind) -> None:
    add_colours(run, kind)
    raise ZeroDivisionError


def columns(store: Store, table: str) -> set[str]:
    if store.kind == "sqlite":
        return {row[1] for row in store.pool.execute(f"PRAGMA table_info({table})")}
    rows = store.pool.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?",
        (table,),
    )
    return {name for (name,) in rows}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address where there is nothing yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metier.db"
    made: str = request.getfixturevalue("postgres_url")
    return made


def test_a_store_is_made_once(url: str) -> None:
    assert Store.migrate(url) == (0, NOW)
    assert Store.migrate(url) == (NOW, NOW)
    with Store.open(url, create=False) as store:
        assert check_store(store) == []


def test_a_store_is_brought_up_to_date_and_keeps_what_it_has(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(url) as store:
        store.of("acme").blocks.add("name", "x", reason="", by="ada")
    add_steps(monkeypatch, add_colours, lambda run, kind: run("DROP TABLE colours"))
    assert Store.migrate(url) == (NOW, NOW + 2)
    with Store.open(url) as store:
        assert "colour" in columns(store, "blocks")
        assert columns(store, "colours") == set()
        assert store.pool.execute("SELECT value, colour FROM blocks") == [("x", "red")]


def test_only_a_file_is_brought_up_to_date_by_opening_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.migrate(url)
    add_steps(monkeypatch, add_colours)
    if url.startswith("sqlite"):
        with Store.open(url) as store:
            assert "colour" in columns(store, "blocks")
        return
    with pytest.raises(StoreUnavailable, match=f"has tables of version {NOW}") as caught:
        Store.open(url)
    assert "metier store migrate" in caught.value.hint


def test_a_step_that_fails_never_happened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.migrate(url)
    with monkeypatch.context() as patch:
        add_steps(patch, break_in_the_middle)
        with pytest.raises(ZeroDivisionError):
            Store.migrate(url)
    with Store.open(url) as store:
        assert check_store(store) == []
    add_steps(monkeypatch, add_colours)
    assert Store.migrate(url) == (NOW, NOW + 1)


def test_a_store_of_a_later_version_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        add_steps(patch, add_colours)
        Store.migrate(url)
    for use in (Store.open, Store.peek, Store.migrate):
        with pytest.raises(StoreUnavailable, match=f"version {NOW + 1}; this version of Métier knows {NOW}") as caught:
            use(url)
        assert "Upgrade" in caught.value.hint


def killed(run: Run, kind: Kind) -> None:
    add_colours(run, kind)
    os.kill(os.getpid(), signal.SIGKILL)


def at_once(url: str, count: int = 1) -> list[str]:
    """What several processes say that bring a store up to date at the same moment; nothing for one that is killed."""
    begin, begun = os.pipe()
    children = []
    for _ in range(count):
        report, told = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(begun)
                os.read(begin, 1)
                os.write(told, str(Store.migrate(url)).encode())
            finally:
                os._exit(0)
        os.close(told)
        children.append((child, report))
    os.close(begin)
    os.close(begun)
    said = []
    for child, report in children:
        with open(report) as stream:
            said.append(stream.read())
        os.waitpid(child, 0)
    return sorted(said)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_step_that_was_killed_in_the_middle_never_happened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.migrate(url)
    with monkeypatch.context() as patch:
        add_steps(patch, killed)
        assert at_once(url) == [""]
    with Store.open(url) as store:
        assert "colour" not in columns(store, "blocks")
    add_steps(monkeypatch, add_colours)
    assert Store.migrate(url) == (NOW, NOW + 1)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("count", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_of_several_processes_that_come_at_once_one_does_it(
    url: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    assert at_once(url, count) == [str((0, NOW)), *[str((NOW, NOW))] * (count - 1)]
    add_steps(monkeypatch, add_colours)
    assert at_once(url, count) == [str((NOW, NOW + 1)), *[str((NOW + 1, NOW + 1))] * (count - 1)]


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("count", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_many_processes_may_open_a_store_that_is_not_there_yet(url: str, count: int) -> None:
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            code = 1
            try:
                if number % 2:
                    Store.migrate(url)
                else:
                    Store.open(url).of().audit.append({"type": "skill.activated"})
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * count
    with Store.open(url) as store:
        assert len(store.of().audit.tail(count)) == count // 2


def test_a_file_of_the_first_version_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "metier.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST.read_text(encoding="utf-8"))
    with Store.open(f"sqlite:///{path}") as store:
        assert [problem.part for problem in check_store(store) if problem.severity == "error"] == []
        assert store.of("acme").state().blocked == {("name", "miner")}
        (record,) = store.of("acme").audit.tail(5)
        assert record["type"] == "skill.activated"


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_the_second_or_third_version_gets_the_tables_since(tmp_path: Path, version: int) -> None:
    path = tmp_path / "metier.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(tables_of(version, "sqlite"))
        connection.execute("INSERT INTO blocks (tenant, kind, value) VALUES ('acme', 'name', 'miner')")
        connection.execute("PRAGMA application_id = 0x4D657472")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    url = f"sqlite:///{path}"
    assert Store.migrate(url) == (version, NOW)
    with Store.open(url) as store:
        assert [problem for problem in check_store(store) if problem.severity == "error"] == []
        assert store.of("acme").state().blocked == {("name", "miner")}
        assert store.of("acme").usage.cursor() == len(store.of("acme").nodes.all()) == 0


@pytest.mark.parametrize("version", [2, 3])
def test_a_server_of_the_second_or_third_version_gets_the_tables_since(postgres_url: str, version: int) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        connection.execute(tables_of(version, "postgresql"))
        connection.execute("INSERT INTO blocks (tenant, kind, value) VALUES ('acme', 'name', 'miner')")
        connection.execute("INSERT INTO store_version VALUES (%s)", (version,))
    assert Store.migrate(postgres_url) == (version, NOW)
    with Store.open(postgres_url) as store:
        assert check_store(store) == []
        assert store.of("acme").state().blocked == {("name", "miner")}
        assert store.of("acme").usage.cursor() == len(store.of("acme").nodes.all()) == 0


def test_a_server_of_the_first_version_is_brought_up_to_date(postgres_url: str) -> None:
    with Store.open(postgres_url) as store, store.pool.transaction():
        store.of().blocks.add("name", "miner", reason="", by="ada")
        store.of().audit.append({"type": "skill.activated"})
        for table in (
            *("feedback", "test_results", "usage_cursor", "usage_days", "usage_pairs", "usage_searches"),
            *("deliveries", "deployments", "idempotency", "namespaces", "node_records", "nodes", "policy_versions"),
            *("releases", "used_once", "webhooks"),
        ):
            store.pool.change(f"DROP TABLE {table}")
        for table in ("approval_requests", "approvals", "proposals", "tokens"):
            store.pool.change(f"ALTER TABLE {table} DROP COLUMN number")
        store.pool.change("ALTER TABLE tokens DROP COLUMN parent")
        for table in ("audit_log", "audit_checkpoints"):
            store.pool.change(f"ALTER TABLE {table} DROP CONSTRAINT {table}_counted")
        store.pool.change("DROP TRIGGER audit_log_in_order ON audit_log")
        store.pool.change("DROP FUNCTION audit_log_in_order()")
        store.pool.change("UPDATE store_version SET version = 1")
    assert Store.migrate(postgres_url) == (1, NOW)
    with Store.open(postgres_url) as store:
        assert check_store(store) == []
        assert store.of().audit.append({"type": "skill.activated"}).seq == 2
