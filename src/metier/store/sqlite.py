"""A store in one SQLite file: opened so that what was acknowledged survives a crash."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from typing import TYPE_CHECKING, Any

from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.blobs import make_folder, sync_folder
from metier.store.codec import RESTORE
from metier.store.connection_pool import WAIT_SECONDS, busy
from metier.store.migrations import foreign, migrate, missing, newer, newest, unversioned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.errors import MetierError
    from metier.store.connection_pool import Value
    from metier.store.location import Kind

APPLICATION = 0x4D657472
"""Marks a SQLite file as a store."""
_MARKS = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_master)"
)
_OF_THE_SYSTEM = ("disk I/O", "unable to open", "database or disk is full", "attempt to write", "readonly")


class _Connection(sqlite3.Connection):
    identity: tuple[int, int] | None = None


class SqliteBackend:
    """The file, and how its connections behave."""

    kind: Kind = "sqlite"
    failures: tuple[type[Exception], ...] = (sqlite3.Error,)
    is_shared = False

    def __init__(self, path: str, *, create: bool) -> None:
        self.path = self.name = path
        self.create = create

    def connect(self) -> sqlite3.Connection:
        """A connection to the file, which is made or brought up to date if need be."""
        connection = self.reach()
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise self.told(error) from None
            raise
        return connection

    def reach(self) -> sqlite3.Connection:
        """A connection to the file, whatever is in it."""
        try:
            self._require_file()
            identity = self._identity()
            connection = sqlite3.connect(
                self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, factory=_Connection
            )
        except (OSError, sqlite3.Error) as error:
            raise self.told(error) from None
        connection.identity = identity
        return connection

    def is_usable(self, connection: Any) -> bool:
        """Whether the file that was opened is still the one of that name: what goes elsewhere nobody would find."""
        return connection.identity == self._identity()  # type: ignore[no-any-return]

    def begin(self, connection: Any, lock: str, wait: float | None = None) -> None:
        """Begin to write: alone, whatever the lock."""
        if wait is None:
            connection.execute("BEGIN IMMEDIATE")
            return
        connection.execute(f"PRAGMA busy_timeout = {wait * 1000:.0f}")
        connection.execute("BEGIN IMMEDIATE")  # a connection on which it fails is not used again
        connection.execute(f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000:.0f}")

    def begin_snapshot(self, connection: Any) -> None:
        """Begin to read: the first statement fixes what is seen."""
        connection.execute("BEGIN DEFERRED")

    def run(self, connection: Any, sql: str, parameters: Sequence[Value]) -> Any:
        """Carry out a statement."""
        return connection.execute(sql, parameters)

    def run_all(self, connection: Any, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Carry out a statement for each of many values."""
        connection.executemany(sql, parameters)

    def commit(self, connection: Any) -> None:
        """Make what the transaction has done last: it is on the disk when this returns."""
        connection.execute("COMMIT")

    def roll_back(self, connection: Any) -> None:
        """Forget what the transaction has done."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.identity = None  # so that nobody uses it again

    def told(self, error: Exception) -> MetierError:
        """What a failure means: somebody else writes, the disk, or a file that is damaged or not ours."""
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if "locked" in text or "busy" in text:
            return busy()
        is_damaged = "malformed" in text or "not a database" in text
        if isinstance(error, OSError) or text.startswith(_OF_THE_SYSTEM):
            hint = "Check the disk and the permissions, or set METIER_STORE to another place."
        elif is_damaged:
            hint = RESTORE
        else:
            hint = for_people("`metier store check` says whether the store is as it should be.")
        reason = f"The store {self.path} cannot be used: {text}."
        return StoreUnavailable(reason, hint=hint, path=self.path, is_damaged=is_damaged)

    def _require_file(self) -> None:
        """See that the file is there and is one; a new one is for its owner alone."""
        if self.create:
            make_folder(os.path.dirname(self.path))
            with contextlib.suppress(FileExistsError):
                # SQLite would give it the permissions of the moment, and its other files those of this one.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                sync_folder(os.path.dirname(self.path))
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise missing(self.path) from None
        if not stat.S_ISREG(status.st_mode):
            raise StoreUnavailable(f"The store {self.path} is not a regular file.", hint="Name a file.", path=self.path)

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def version(self, connection: Any) -> int:
        """The version of its tables; 0 where there are none."""
        version: int
        version, application, tables = connection.execute(_MARKS).fetchone()
        if application not in (0, APPLICATION) or (not application and tables):
            raise foreign(self.path)
        if tables and version < 1:
            raise unversioned(self.path)
        return version

    def set_version(self, connection: Any, version: int) -> None:
        """Note the version, inside the transaction that made it."""
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {version:d}")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self.version(connection)
        if version > newest():
            raise newer(self.path, version)
        if not version and not self.create:
            raise missing(self.path)
        _use_write_ahead_log(connection)
        # FULL: a commit is on the disk before it is acknowledged, also when the power fails.
        for setting in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
        if version < newest():
            migrate(self, connection)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let others read while somebody writes. A file changes to that once, alone, and SQLite itself does not wait."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
