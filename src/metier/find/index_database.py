"""The file that one source's search index lives in: opened, shared between processes, thrown away when damaged."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import sys
import threading
import unicodedata
import weakref
from typing import TYPE_CHECKING, TypeVar

import Stemmer

from metier._lazy import logger
from metier._version import __version__
from metier._write_ahead_log import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_log = logger("metier.find")

Item = TypeVar("Item")

_FORMAT = 5
_AT_ONCE = 500  # of the variables that older SQLite allows in one statement
_LOCK_SECONDS = 5.0
"""The wait for another process that writes: many times what a batch takes. Reading never waits."""

# Every stem has a number, and is kept as the letter of that number. `posting` holds only which skill has which letter,
# where, and how much of it; the rest is computed from the `skill` table, for the few skills that come into question.
# No row of `posting` is ever changed: see `postings.py`.
_SCHEMA = """
CREATE TABLE made_by (kind TEXT NOT NULL, numbers INTEGER NOT NULL, gone INTEGER NOT NULL);
CREATE TABLE skill (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, name TEXT NOT NULL, scope INTEGER NOT NULL,
    unlisted INTEGER NOT NULL, needs TEXT NOT NULL,
    name_letters BLOB NOT NULL, about BLOB NOT NULL, body BLOB NOT NULL,
    about_length INTEGER NOT NULL, length INTEGER NOT NULL
);
CREATE INDEX skill_name ON skill (name, scope);
CREATE INDEX skill_special ON skill (id, key, name, unlisted, needs) WHERE unlisted = 1 OR needs <> '';
CREATE TABLE scope (
    id INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE, skills INTEGER NOT NULL, about INTEGER NOT NULL,
    body INTEGER NOT NULL
);
CREATE TABLE stem (stem TEXT PRIMARY KEY, letter TEXT NOT NULL, spelled INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE segment (number INTEGER PRIMARY KEY, scope INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE INDEX segment_scope ON segment (scope);
CREATE TABLE posting (id INTEGER PRIMARY KEY, keys BLOB NOT NULL, counts BLOB NOT NULL, ids BLOB NOT NULL);
CREATE TABLE tag (tag TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (tag, id)) WITHOUT ROWID;
CREATE INDEX tag_id ON tag (id);
CREATE TABLE spelling (variant TEXT NOT NULL, stem TEXT NOT NULL, PRIMARY KEY (variant, stem)) WITHOUT ROWID;
CREATE TABLE vector (id INTEGER NOT NULL, model TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (id, model));
"""


class IndexDamaged(Exception):
    """The file is no index of ours, or no longer a good one."""


class IndexBusy(Exception):
    """Another process is writing."""


UNEXPECTED = (sqlite3.Error, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
"""The errors where values of a file are used: from SQLite, or because they are not what was written."""


def checked_count(value: object) -> int:
    """A number that counts something; raises `IndexDamaged` for anything else."""
    if type(value) is not int or value < 0:
        raise IndexDamaged(f"{value!r} where a count should be")
    return value


class IndexDatabase:
    """A SQLite file with one connection to read and one to write, for all threads of a process.

    Readers see the last committed state while somebody writes. Without a path it lives in memory, with one connection.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.lock = threading.RLock()
        """Held while the reading connection is used."""
        self._process = os.getpid()
        self._opened: tuple[int, int] | None = None
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._writing = threading.Lock()
        self._openings = 0
        self.rollbacks = 0
        """The number of transactions that were given up."""

    def reader(self) -> sqlite3.Connection:
        """The connection to read with; hold `lock` meanwhile."""
        self._forget_if_forked()
        if self._reader is None:
            before = _identity(self.path)
            self._reader = self._open()
            # Of a file that was replaced meanwhile, the old identity: so it is noticed.
            self._opened = before or _identity(self.path)
        return self._reader

    def _forget_if_forked(self) -> None:
        if self._process != os.getpid():
            # A connection must not be used on both sides of a fork, nor closed on this one.
            self._reader, self._writer, self._process = None, None, os.getpid()
            self._writing = threading.Lock()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The reading connection for as long as a block lasts."""
        with self.lock:
            try:
                yield self.reader()
            except UNEXPECTED as error:
                raise own_error(error) from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; raises `IndexBusy` while another process or thread keeps writing."""
        connection = self._for_writing()
        if not self._writing.acquire(timeout=_LOCK_SECONDS):
            raise IndexBusy
        try:
            # In memory there is one connection for both, so readers must wait for the end of a batch.
            with self.lock if self.path is None else contextlib.nullcontext():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    self.rollbacks += 1
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
        except UNEXPECTED as error:
            raise own_error(error) from None
        finally:
            self._writing.release()

    def _for_writing(self) -> sqlite3.Connection:
        with self.lock:
            self._forget_if_forked()
            if self.path is None:
                return self.reader()
            if self._writer is None:
                self._writer = self._open()
                self._openings += 1  # of another file perhaps, whose versions are numbered alike
            return self._writer

    def state(self) -> tuple[int, int]:
        """Another one after anybody else has written."""
        with self.lock:
            try:
                version = self._for_writing().execute("PRAGMA data_version").fetchone()[0]
            except UNEXPECTED as error:
                raise own_error(error) from None
            return self._openings, version

    def follow(self) -> None:
        """Let go of a file that was deleted or replaced since it was opened."""
        with self.lock:
            if self.path is not None and self._reader is not None and _identity(self.path) != self._opened:
                self.close()

    def close(self) -> None:
        """Let go of the file."""
        with self.lock:
            for connection in (self._reader, self._writer):
                if connection is not None and self._process == os.getpid():
                    with contextlib.suppress(sqlite3.Error):
                        connection.close()
            self._reader = self._writer = None

    def start_over(self, reason: str) -> None:
        """Throw the file away; the next use makes an empty one."""
        _log.warning("The search index %s is rebuilt: %s", self.path, reason)
        with self.lock:
            self.close()
            if self.path is not None:
                _remove(self.path)

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return self._connect(":memory:")
        try:
            _require_own_file(self.path)
            return self._connect(self.path)
        except IndexDamaged as damaged:
            self.start_over(str(damaged))
            _require_own_file(self.path)
            return self._connect(self.path)

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, _close, connection, os.getpid())
        try:
            use_write_ahead_log(connection, _LOCK_SECONDS)
            connection.execute("PRAGMA synchronous = NORMAL")
            # Text of strangers lies in it: no schema tricks of a prepared file.
            connection.execute("PRAGMA trusted_schema = OFF")
            _prepare(connection)
        except (*UNEXPECTED, IndexDamaged) as error:
            connection.close()
            raise own_error(error) from None
        return connection


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, or see that they are the ones this version makes."""
    kind = json.dumps([_FORMAT, __version__, sys.byteorder, Stemmer.version(), unicodedata.unidata_version])
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO made_by VALUES (?, 0, 0)", (kind,))
        connection.execute("COMMIT")
    if connection.execute("SELECT kind FROM made_by").fetchone() != (kind,):
        raise IndexDamaged("it was made by another version")


def own_error(error: Exception) -> Exception:
    """The error of this room for one of SQLite: another writer, a damaged file, or a failure of the system."""
    text = str(error)
    if not isinstance(error, UNEXPECTED):
        return error
    if isinstance(error, sqlite3.OperationalError):
        if "locked" in text or "busy" in text:
            return IndexBusy(text)
        if text.startswith(_OF_THE_SYSTEM):
            return OSError(5, text)
    return IndexDamaged(text)


_OF_THE_SYSTEM = ("disk I/O", "unable to open", "database or disk is full", "attempt to write", "out of memory")


def portions(items: Sequence[Item], size: int = _AT_ONCE) -> Iterator[Sequence[Item]]:
    """So many items at once, or as many as one statement can take."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _require_own_file(path: str) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # SQLite would give it the permissions of the moment, and its other files those of this one.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(22, "it is not a regular file")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise PermissionError(1, "it belongs to another user")


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        status = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _remove(path: str) -> None:
    # The file itself last: whoever makes it anew must not lose what they write beside it.
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
