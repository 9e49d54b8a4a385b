"""Opening a store, and finding out that it cannot be."""

from __future__ import annotations

import gc
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from metier.errors import StoreUnavailable
from metier.store import Store, default_store


def test_the_users_own_store_is_made_when_it_is_opened_first() -> None:
    assert Store.peek() is None
    with Store.open() as store:
        assert store.url == default_store()
        assert (store.folder / "metier.db").is_file()
    with Store.peek() or pytest.fail("it is there now") as store:
        assert store.of().state().blocked == frozenset()


def test_looking_for_a_store_makes_none(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/deep/metier.db", postgres_url):
        assert Store.peek(url) is None
        with pytest.raises(StoreUnavailable, match="There is no store"):
            Store.open(url, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of a Unix")
def test_only_its_owner_can_read_a_new_store(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with Store.open(f"sqlite:///{tmp_path}/new/metier.db") as store:
            store.of().blocks.add("name", "x", reason="", by="")
            store.blobs.put([b"content"])
            modes = {stat.S_IMODE(path.lstat().st_mode) for path in [store.folder, *store.folder.rglob("*")]}
    finally:
        os.umask(old)
    assert modes == {0o600, 0o700}


@pytest.mark.usefixtures("careful")
def test_what_was_committed_is_on_the_disk(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        settings = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
        found = [store.pool.execute(f"PRAGMA {name}")[0][0] for name in settings]
    assert found == ["wal", 2, 1, 0]


def test_a_server_is_told_to_do_the_same(postgres_url: str) -> None:
    careless = postgres_url.replace("search_path", "synchronous_commit%3Doff%20-csearch_path")
    with Store.open(careless) as store:
        assert store.pool.execute("SHOW synchronous_commit") == [("on",)]


def test_nobody_sees_a_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Store.open("postgresql://metier:hunter2@127.0.0.1:1/none?connect_timeout=2")
    said = f"{caught.value} {caught.value.hint} {caught.value.context}"
    assert "hunter2" not in said
    assert "metier:***@127.0.0.1" in said


def test_importing_the_room_imports_no_driver() -> None:
    script = "import sys, metier.store; print({'sqlite3', 'psycopg'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metier.db").write_bytes(content)
    with pytest.raises(StoreUnavailable) as caught:
        Store.open(f"sqlite:///{tmp_path}/metier.db")
    assert "metier store restore" in caught.value.hint
    assert (tmp_path / "metier.db").read_bytes() == content


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE approvals (x)")
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="not those of a store"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="there are no such files here")
@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_file_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "metier.db"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(StoreUnavailable, match="not a regular file"):
        Store.open(f"sqlite:///{path}")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable) as caught:
        Store.open(f"sqlite:///{tmp_path}/file/metier.db")
    assert "METIER_STORE" in caught.value.hint


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be used") as caught:
        Store.open("postgresql://127.0.0.1:1/none")
    assert "server runs" in caught.value.hint


def test_an_address_that_the_driver_does_not_understand_is_told() -> None:
    with pytest.raises(StoreUnavailable):
        Store.open("postgresql://db/x?no_such_option=1")


def test_whoever_waits_too_long_for_others_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.store.sqlite.WAIT_SECONDS", 0.05)
    path = tmp_path / "metier.db"
    with Store.open(f"sqlite:///{path}") as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.of().blocks.all() == []  # whoever only reads does not wait
        with pytest.raises(StoreUnavailable, match="is busy"):
            store.of().blocks.add("name", "x", reason="", by="")
        other.execute("ROLLBACK")
        store.of().blocks.add("name", "x", reason="", by="")


def test_whoever_waits_too_long_for_other_machines_is_told(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, holding = threading.Event(), threading.Event()

    def hold(other: Store) -> None:
        with other.of("acme").transaction():
            holding.set()
            stop.wait(60)

    with Store.open(postgres_url) as other:
        monkeypatch.setattr("metier.store.postgresql._WAIT", "50ms")  # for those who connect from here on
        thread = threading.Thread(target=hold, args=(other,))
        thread.start()
        with Store.open(postgres_url) as store:
            try:
                assert holding.wait(60)
                store.of("other").blocks.add("name", "x", reason="", by="")  # other tenants do not wait
                with pytest.raises(StoreUnavailable, match="is busy"):
                    store.of("acme").blocks.add("name", "x", reason="", by="")
            finally:
                stop.set()
                thread.join(60)
            store.of("acme").blocks.add("name", "x", reason="", by="")


def test_a_full_disk_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        scope = store.of()
        (pages,) = store.pool.execute("PRAGMA page_count")[0]
        store.pool.execute(f"PRAGMA max_page_count = {pages + 20}")
        kept = 0
        with pytest.raises(StoreUnavailable, match="full") as caught:
            while True:
                scope.audit.append({"type": "skill.activated", "note": "x" * 2_000})
                kept += 1
        assert "Check the disk" in caught.value.hint
        assert len(scope.audit.tail(1_000)) == kept
        store.close()
        scope.audit.append({"type": "skill.activated"})


def test_without_its_part_a_server_is_told_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\nfrom metier.store import Store\nStore.open('postgresql://db/x')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "PartMissing" in done.stderr
    assert "pip install 'metier[postgres]'" in done.stderr


def test_what_is_written_after_the_file_was_replaced_goes_into_the_new_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metier.db"
    with Store.open(url) as store:
        scope = store.of()
        scope.blocks.add("name", "old", reason="", by="")
        assert scope.state().blocked == {("name", "old")}
        for name in ("metier.db", "metier.db-wal", "metier.db-shm"):
            (tmp_path / name).unlink()
        assert scope.state().blocked == set()
        scope.blocks.add("name", "new", reason="", by="")
        with Store.open(url) as other:
            assert other.of().state().blocked == {("name", "new")}
        assert scope.state().blocked == {("name", "new")}


def test_a_server_that_was_restarted_is_reached_again(postgres_url: str) -> None:
    import psycopg

    with Store.open(postgres_url) as store:
        scope = store.of()
        for work in (lambda: scope.blocks.all(), lambda: scope.blocks.add("name", "x", reason="", by="")):
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                # What a restart does to those that are connected.
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND application_name = 'metier' AND datname = current_database()"
                )
            work()
        assert [block.value for block in scope.blocks.all()] == ["x"]


def test_a_connection_that_breaks_inside_of_a_transaction_is_told_and_nothing_is_kept(postgres_url: str) -> None:
    import psycopg

    with Store.open(postgres_url) as store:
        scope = store.of()
        with pytest.raises(StoreUnavailable), scope.transaction():
            scope.blocks.add("name", "x", reason="", by="")
            (process,) = store.pool.execute("SELECT pg_backend_pid()")[0]
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", (process,))
            scope.blocks.add("name", "y", reason="", by="")
        assert scope.blocks.all() == []


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match="cannot hold every text") as caught:
        Store.open(re.sub(r"/worker_\d+\?", "/latin?", postgres_url))
    assert "createdb" in caught.value.hint


def test_a_store_that_nobody_closes_is_closed_when_it_is_no_longer_used(store_url: str) -> None:
    store = Store.open(store_url)
    (connection,) = store.pool._pool.idle
    failures = store.pool.backend.failures
    del store
    gc.collect()
    with pytest.raises(failures):
        connection.execute("SELECT 1")
