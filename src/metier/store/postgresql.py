"""A store in a PostgreSQL database, which many nodes may share."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

from metier._extras import optional
from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.connection_pool import WAIT_SECONDS, Backend, busy
from metier.store.location import hide_password
from metier.store.migrations import foreign, unversioned

with optional("Stores in PostgreSQL", "psycopg", extra="postgres"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.errors import MetierError
    from metier.store.connection_pool import Value

_CONNECT_SECONDS = 10
# A client that hangs must not hold up all others, and an acknowledged commit must be on the server's disk.
_SETTINGS = (
    "SELECT set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false), "
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, false)"
)
_WAIT = f"{WAIT_SECONDS:.0f}s"
# Not by `to_regclass`, which may answer with the state before somebody else was waited for.
_HAS = (
    "SELECT count(*) FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace "
    "WHERE relname = %s AND nspname = ANY (current_schemas(false))"
)


class PostgresBackend(Backend):
    """A PostgreSQL database."""

    kind = "postgresql"
    failures = (psycopg.Error,)
    is_shared = True

    def __init__(self, url: str, *, create: bool) -> None:
        super().__init__(hide_password(url), create=create)
        self._url = url

    def is_usable(self, connection: Any) -> bool:
        """Return whether the connection was not seen to break."""
        return not connection.closed

    def begin(self, connection: Any, lock: str, wait: float | None = None) -> None:
        """Begin to write, after all others that hold the same lock have ended."""
        # Whatever the server's default is: commits during the wait for a lock have to be seen.
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        if wait is not None:
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{wait * 1000:.0f}ms",))
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_number(lock),))

    def begin_snapshot(self, connection: Any) -> None:
        """Begin to read from one state of everything."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def run(self, connection: Any, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """Execute a statement."""
        return connection.execute(_to_format_style(sql), parameters) if parameters else connection.execute(sql)

    def run_all(self, connection: Any, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Execute a statement for each of many rows of values."""
        with connection.cursor() as cursor:
            cursor.executemany(_to_format_style(sql), parameters)

    def commit(self, connection: Any) -> None:
        """Commit the transaction."""
        # After a failed statement the server undoes everything, and calls that a success.
        if connection.execute("COMMIT").statusmessage != "COMMIT":
            raise errors.InFailedSqlTransaction("a statement of the transaction had failed, and all was taken back")

    def roll_back(self, connection: Any) -> None:
        """Undo the transaction, if there is one."""
        try:
            if not connection.closed:
                connection.rollback()
        except psycopg.Error:
            connection.close()

    def version(self, connection: Any) -> int:
        """Return the version of the tables; 0 where there are none."""
        # In this order: another process that makes them meanwhile makes both at once.
        has_log, has_version = (
            connection.execute(_HAS, (name,)).fetchone()[0] for name in ("audit_log", "store_version")
        )
        if not has_version:
            if has_log:
                raise foreign(self.name)
            return 0
        found = connection.execute("SELECT version FROM store_version").fetchone()
        version: int = found[0] if found else 0
        if has_log and version < 1:
            raise unversioned(self.name)
        return version

    def set_version(self, connection: Any, version: int) -> None:
        """Write the version, inside of the transaction that made it."""
        connection.execute("DELETE FROM store_version")
        connection.execute("INSERT INTO store_version VALUES (%s)", (version,))

    def explain(self, error: Exception) -> MetierError:
        """Return the error that a failure means: busy, not reachable, not permitted."""
        if isinstance(error, errors.LockNotAvailable):
            return busy()
        lines = str(error).strip().splitlines() or [type(error).__name__]
        text = hide_password(lines[0]).rstrip(".")
        if isinstance(error, psycopg.OperationalError):
            hint = "Check that the server runs and that METIER_STORE names it, the database and the user."
        elif isinstance(error, errors.InsufficientPrivilege):
            hint = "The user needs the right to make and to use tables in this database."
        else:
            hint = for_people("`metier store check` says whether the store is as it should be.")
        return StoreUnavailable(f"The store {self.name} cannot be used: {text}.", hint=hint)

    def reach(self) -> psycopg.Connection[Any]:
        """Open a connection to the database, whatever its content."""
        try:
            given: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "application_name": "metier"}
            given |= conninfo_to_dict(self._url)
            connection = psycopg.connect(make_conninfo(**given | {"client_encoding": "utf8"}), autocommit=True)
            connection.execute(_SETTINGS, (_WAIT, _WAIT))
        except psycopg.Error as error:
            raise self.explain(error) from None
        if connection.info.parameter_status("server_encoding") != "UTF8":
            connection.close()
            raise StoreUnavailable(
                f"The store {self.name} is a database that cannot hold every text.",
                hint="Make one with the encoding UTF8: createdb --encoding UTF8 --template template0 metier",
            )
        return connection


@functools.lru_cache(256)
def _to_format_style(sql: str) -> str:
    return sql.replace("?", "%s")


@functools.lru_cache(256)
def _lock_number(lock: str) -> int:
    """Return the number of a lock, which is the same on every node."""
    text = f"metier\0{lock}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)
