"""A store in one SQLite file: opened so that a committed change survives a crash."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from typing import TYPE_CHECKING, Any

from metier._write_ahead_log import use_write_ahead_log
from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.connection_pool import WAIT_SECONDS, Backend, busy
from metier.store.location import make_folder, sync_folder
from metier.store.migrations import foreign, missing, unversioned
from metier.store.rows import RESTORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.errors import MetierError
    from metier.store.connection_pool import Mark, Value

APPLICATION = 0x4D657472
"""The application id that marks a SQLite file as a store."""
_IDS = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "(SELECT count(*) FROM sqlite_master)"
)
_SYSTEM_ERRORS = ("disk I/O", "unable to open", "database or disk is full", "attempt to write", "readonly")


class _Connection(sqlite3.Connection):
    identity: tuple[int, int] | None = None
    patience: float = WAIT_SECONDS
    """Seconds that a statement waits for other writers."""


class SqliteBackend(Backend):
    """A SQLite file."""

    kind = "sqlite"
    failures = (sqlite3.Error,)
    conflicts = (sqlite3.IntegrityError,)
    is_shared = False

    def reach(self) -> sqlite3.Connection:
        """Open a connection to the file, which is made where it may be."""
        try:
            self._require_file()
            identity = self._identity()
            connection = sqlite3.connect(
                self.name, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, factory=_Connection
            )
        except (OSError, sqlite3.Error) as error:
            raise self.explain(error) from None
        connection.identity = identity
        return connection

    def is_usable(self, connection: Any) -> bool:
        """Return whether the open file is still the one of that name: nobody would find what goes elsewhere."""
        return connection.identity == self._identity()  # type: ignore[no-any-return]

    def begin(self, connection: Any, lock: str, wait: float | None = None) -> None:
        """Begin to write, alone whatever the lock."""
        _set_patience(connection, wait)
        connection.execute("BEGIN IMMEDIATE")

    def run(self, connection: Any, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """Execute a statement."""
        try:
            return connection.execute(sql, parameters)
        except sqlite3.OperationalError as error:
            # Only the beginning of a transaction may be impatient; a reader waits while somebody repairs or closes.
            if connection.patience == WAIT_SECONDS or not _is_busy(str(error)):
                raise
            _set_patience(connection, None)
            return connection.execute(sql, parameters)

    def mark(self, connection: Any) -> Mark | None:
        """Return a mark that changes with every commit, at half the time of reading a row."""
        return connection, self.run(connection, "PRAGMA data_version").fetchone()[0], connection.total_changes

    def run_alone(self, connection: Any, sql: str, parameters: Sequence[Value], wait: float | None = None) -> None:
        """Execute a statement as a transaction of its own."""
        _set_patience(connection, wait)
        connection.execute(sql, parameters)

    def begin_snapshot(self, connection: Any) -> None:
        """Begin to read: the first statement fixes what is seen."""
        connection.execute("BEGIN DEFERRED")

    def roll_back(self, connection: Any) -> None:
        """Undo the transaction, if there is one."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.identity = None  # so that it is not used again

    def explain(self, error: Exception) -> MetierError:
        """Return the error that a failure means: busy, the disk, or a file that is damaged or not a store."""
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if _is_busy(text):
            return busy()
        is_damaged = "malformed" in text or "not a database" in text
        if isinstance(error, OSError) or text.startswith(_SYSTEM_ERRORS):
            hint = "Check the disk and the permissions, or set METIER_STORE to another place."
        elif is_damaged:
            hint = RESTORE
        else:
            hint = for_people("`metier store check` says whether the store is as it should be.")
        reason = f"The store {self.name} cannot be used: {text}."
        return StoreUnavailable(reason, hint=hint, path=self.name, is_damaged=is_damaged)

    def _require_file(self) -> None:
        """Make the file where it may be made, for its owner alone; raises `StoreUnavailable` for anything else."""
        if self.create:
            make_folder(os.path.dirname(self.name))
            with contextlib.suppress(FileExistsError):
                # SQLite would give it the permissions of the moment, and its other files those of this one.
                os.close(os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                sync_folder(os.path.dirname(self.name))
        try:
            status = os.stat(self.name)
        except FileNotFoundError:
            raise missing(self.name) from None
        if not stat.S_ISREG(status.st_mode):
            raise StoreUnavailable(f"The store {self.name} is not a regular file.", hint="Name a file.", path=self.name)

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.name)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def version(self, connection: Any) -> int:
        """Return the version of the tables; 0 where there are none."""
        version: int
        version, application, tables = connection.execute(_IDS).fetchone()
        if application not in (0, APPLICATION) or (not application and tables):
            raise foreign(self.name)
        if tables and version < 1:
            raise unversioned(self.name)
        return version

    def set_version(self, connection: Any, version: int) -> None:
        """Write the version, inside of the transaction that made it."""
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {version:d}")

    def configure(self, connection: Any) -> None:
        """Let others read while somebody writes, and commit to the disk."""
        use_write_ahead_log(connection, WAIT_SECONDS)
        # FULL: a commit is on the disk before it is acknowledged, also when the power fails.
        for setting in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")


def _is_busy(text: str) -> bool:
    return "locked" in text or "busy" in text


def _set_patience(connection: Any, wait: float | None) -> None:
    """Set how long a connection waits for other writers; it stays so, as the next writer mostly waits as long."""
    wait = WAIT_SECONDS if wait is None else wait
    if connection.patience != wait:
        connection.execute(f"PRAGMA busy_timeout = {wait * 1000:.0f}")
        connection.patience = wait
