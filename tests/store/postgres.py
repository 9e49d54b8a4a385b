"""A real PostgreSQL server for tests: one for all workers, which have a database each, gone when they are."""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from metier.store import Store

_NUMBERS = itertools.count(1)
_KEEPERS: list[subprocess.Popen[bytes]] = []
"""Kept until the end: the pipe to them is what keeps the servers up."""

# It outlives neither the tests nor a test run that was killed: when its standard input ends, so does the server.
_KEEPER = r"""
import os, shutil, signal, subprocess, sys
bin, folder, user = sys.argv[1:]
as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
data = os.path.join(folder, "data")
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "cwd": folder}
log = open(os.path.join(folder, "log"), "ab")
subprocess.run(
    [os.path.join(bin, "initdb"), "-D", data, "-U", "metier", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"],
    check=True, timeout=120, stderr=log, **quiet, **as_user,
)
settings = {
    "listen_addresses": "", "unix_socket_directories": folder, "fsync": "off", "shared_buffers": "16MB",
    "max_connections": "200", "autovacuum": "off", "dynamic_shared_memory_type": "mmap",
}
options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
server = subprocess.Popen([os.path.join(bin, "postgres"), "-D", data, *options], stderr=log, **quiet, **as_user)
sys.stdin.read()
server.send_signal(signal.SIGINT)
try:
    server.wait(10)
except subprocess.TimeoutExpired:
    server.send_signal(signal.SIGQUIT)
    server.wait(10)
log.close()
shutil.rmtree(folder, ignore_errors=True)
"""


def binaries() -> str | None:
    """The folder with the programs of a PostgreSQL server, if there is one."""
    found = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), *os.environ.get("PATH", "").split(":")]
    return next((folder for folder in found if os.access(os.path.join(folder, "initdb"), os.X_OK)), None)


@functools.cache
def start() -> str | None:
    """Have the server start, and wait for nothing; its folder, or None if there can be none here."""
    folder = binaries()
    is_root = sys.platform != "win32" and os.geteuid() == 0
    if folder is None or sys.platform == "win32" or (is_root and not _is_user("postgres")):
        return None
    # Not below the folder of the test run, which is closed to others; and short, because a socket's path has to be.
    place = tempfile.mkdtemp(prefix="metier-pg-")
    if is_root:
        shutil.chown(place, "postgres", "postgres")
    command = [sys.executable, "-IS", "-c", _KEEPER, folder, place, "postgres" if is_root else ""]
    _KEEPERS.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
    return place


def stop() -> None:
    """Have the server end, which nobody needs to wait for long."""
    for keeper in _KEEPERS:
        assert keeper.stdin is not None
        keeper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(15)


@functools.cache
def server() -> str:
    """The address of a database on the server that this process alone uses."""
    import psycopg

    place = start()
    if place is None:
        pytest.skip("PostgreSQL is not installed here, or would run as root, which it does not")
    address = f"postgresql://metier@/postgres?host={place}"
    name = f"worker_{os.getpid()}"
    for _ in range(3_000):
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
            return address.replace("/postgres?", f"/{name}?")
        except psycopg.OperationalError:
            time.sleep(0.02)
    pytest.fail(f"PostgreSQL did not start: {Path(place, 'log').read_text(errors='replace')[-2_000:]}")


def _is_user(name: str) -> bool:
    import pwd

    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def new_postgres_url() -> str:
    """The address of a part of the server's database that nobody has used yet."""
    import psycopg

    address = server()
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}&options=-csearch_path%3D{name}"


def new_database(template: str = "template1") -> str:
    """The address of a database of the server that nobody has used yet; with all that another one has, if named."""
    import psycopg

    name = f"database_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return server().replace(f"/worker_{os.getpid()}?", f"/{name}?")


@functools.cache
def _template() -> str:
    url = new_database()
    Store.migrate(url)
    return url.partition("?")[0].rpartition("/")[2]


def new_database_with_tables() -> str:
    """The address of a database with the tables of a store, copied from one that was made once."""
    return new_database(_template())


@pytest.fixture
def postgres_url() -> str:
    """The address of an empty PostgreSQL database."""
    return new_postgres_url()


sqlite_first = pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
"""For a test of what does not depend on the database: on SQLite in `make test`, on PostgreSQL in `make test-slow`."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store, on each kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store/metier.db"
        return
    with lent_postgres_url() as url:
        yield url


_SHAPE = """
SELECT md5(string_agg(what, ' ' ORDER BY what)) FROM (
    SELECT concat(relname, relkind, relnatts) AS what FROM pg_class WHERE relnamespace = current_schema()::regnamespace
    UNION ALL SELECT concat(tgname, tgenabled) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal
) AS parts
"""
_FREE: list[str] = []


@contextlib.contextmanager
def lent_postgres_url() -> Iterator[str]:
    """The address of an empty store, emptied and lent again: to make its tables takes longer than most tests."""
    import psycopg

    if not _FREE:
        _FREE.append(new_postgres_url())
        Store.migrate(_FREE[0])
    url = _FREE.pop()
    with psycopg.connect(url) as connection:
        shape = connection.execute(_SHAPE).fetchone()
    yield url
    with psycopg.connect(url) as connection:
        if connection.execute(_SHAPE).fetchone() == shape:
            names = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
            ).fetchall()
            # Without triggers, which would not let go of records.
            connection.execute("SET session_replication_role = replica")
            for (name,) in names:
                if name != "store_version":
                    connection.execute(psycopg.sql.SQL("DELETE FROM {}").format(psycopg.sql.Identifier(name)))
            _FREE.append(url)
