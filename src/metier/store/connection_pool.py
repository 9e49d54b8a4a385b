"""Connections to a database: taken when needed, one transaction a thread, safe over a fork.

`Backend` is what SQLite and PostgreSQL have in common; `sqlite` and `postgresql` add the rest. Statements have `?`
where a value goes. Any text comes back as it was written, also one that neither database could hold.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from metier._lazy import dataclass, field
from metier.errors import InvalidArgument, StoreUnavailable
from metier.store.rows import decode_rows, encode_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from metier.errors import MetierError
    from metier.store.location import Kind

Value: TypeAlias = str | int | bytes
Mark: TypeAlias = tuple[Any, int, int]
"""A connection, a number that changes with each commit of another one, and one that changes with its own rows."""
MIGRATION_LOCK = "\0migrations"
_MAX_IDLE = 4
"""Connections that wait for their next use."""
WAIT_SECONDS = 30.0
"""The longest wait of a transaction for those before it: many times what they take."""


class Backend(ABC):
    """One kind of database: how its connections open, lock, commit and fail."""

    kind: ClassVar[Kind]
    failures: ClassVar[tuple[type[Exception], ...]]
    """The exceptions of its connections."""
    conflicts: ClassVar[tuple[type[Exception], ...]] = ()
    """Those of them that mean that a constraint of the tables is against a row."""
    newest: ClassVar[int] = 4
    """The version of the tables that this version of Métier works with."""
    is_shared: ClassVar[bool]
    """Whether several connections of this process may write at once, and other nodes too."""

    def __init__(self, name: str, *, create: bool) -> None:
        self.name = name
        """The name for people, without a password."""
        self.create = create

    @abstractmethod
    def reach(self) -> Any:
        """Open a connection to the database, whatever its content; raises `StoreUnavailable`."""

    @abstractmethod
    def is_usable(self, connection: Any) -> bool:
        """Return whether an idle connection still leads to the database."""

    @abstractmethod
    def begin(self, connection: Any, lock: str, wait: float | None = None) -> None:
        """Begin to write, alone among those that name the same lock, after a wait of at most so many seconds."""

    @abstractmethod
    def begin_snapshot(self, connection: Any) -> None:
        """Begin to read from one state of everything."""

    @abstractmethod
    def roll_back(self, connection: Any) -> None:
        """Undo the transaction, if there is one."""

    @abstractmethod
    def version(self, connection: Any) -> int:
        """Return the version of the tables; 0 where there are none."""

    @abstractmethod
    def set_version(self, connection: Any, version: int) -> None:
        """Write the version, inside of the transaction that made it."""

    @abstractmethod
    def explain(self, error: Exception) -> MetierError:
        """Return the error for the caller that a failure of the database means."""

    def run(self, connection: Any, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """Execute a statement; the result has `fetchall()` and `rowcount`."""
        return connection.execute(sql, parameters)

    def mark(self, connection: Any) -> Mark | None:
        """Return a mark that changes with every commit; None where a database has none."""
        return None

    def run_alone(self, connection: Any, sql: str, parameters: Sequence[Value], wait: float | None = None) -> None:
        """Execute a statement as a transaction of its own, which is on the disk when this returns.

        `wait` is the longest wait for other writers in seconds, where one alone may write.
        """
        self.run(connection, sql, parameters)

    def run_all(self, connection: Any, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Execute a statement for each of many rows of values."""
        connection.executemany(sql, parameters)

    def commit(self, connection: Any) -> None:
        """Commit the transaction: its changes are on the disk when this returns."""
        connection.execute("COMMIT")

    def configure(self, connection: Any) -> None:  # noqa: B027
        """Set what a connection needs before its first use."""

    def connect(self) -> Any:
        """Return a connection to a database that has all tables; raises `StoreUnavailable`."""
        connection = self.reach()
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, self.failures):
                raise self.explain(error) from None
            raise
        return connection

    def _prepare(self, connection: Any) -> None:
        version = self.version(connection)
        if version > self.newest or (not version and not self.create) or (0 < version < self.newest and self.is_shared):
            from metier.store.migrations import wrong_version

            raise wrong_version(self.name, version)
        self.configure(connection)
        if version < self.newest:
            self.migrate(connection)

    def migrate(self, connection: Any) -> int:
        """Make the tables, or bring them up to date step by step; returns the version that they had.

        Each step is a transaction: a second process finds it done, and an interrupted one never happened.
        """
        first = -1
        while True:
            self.begin(connection, MIGRATION_LOCK)
            try:
                version = self.version(connection)
                first = version if first < 0 else first
                if version == self.newest:
                    self.roll_back(connection)
                    return first
                if version == 0:
                    from metier.store.rows import creation

                    for statement in creation(self.kind):
                        self.run(connection, statement)
                    self.set_version(connection, self.newest)
                else:
                    from metier.store.migrations import STEPS, wrong_version

                    if version > self.newest:
                        raise wrong_version(self.name, version)
                    STEPS[version - 1](lambda sql: self.run(connection, sql), self.kind)
                    self.set_version(connection, version + 1)
                self.commit(connection)
            except BaseException:
                self.roll_back(connection)
                raise


@dataclass(slots=True)
class _IdleConnections:
    idle: list[Any] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)


@dataclass(slots=True)
class _Transaction:
    connection: Any
    process: int
    can_write: bool
    depth: int = 0


class _Explained:
    """A block whose failures of the database are raised as errors of this room.

    One object without state serves all threads: a record enters three such blocks, and a generator for each costs it a
    fortieth of its time.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._backend.failures):
            raise self._backend.explain(error) from None


class _Turn:
    """A block for one thread at a time, which waits for the others before; every record enters one."""

    def __init__(self, lock: threading.Lock, wait: float) -> None:
        self._lock = lock
        self._wait = wait

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._wait):
            raise busy()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_LEFT_BEHIND: list[_IdleConnections] = []
"""Connections of a parent process, which must neither be used nor closed here."""


class ConnectionPool:
    """The connections of a process to one database, for all of its threads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._explained = _Explained(backend)
        self._local = threading.local()
        self._open_pool()

    @property
    def kind(self) -> Kind:
        """`sqlite` or `postgresql`."""
        return self.backend.kind

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is inside of a transaction or a snapshot."""
        return self._current() is not None

    @property
    def is_writing(self) -> bool:
        """Whether this thread is inside of a transaction that may have changed something."""
        current = self._current()
        return current is not None and current.can_write

    def execute(self, sql: str, parameters: Sequence[Value] = (), *, decode: bool = True) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, in the transaction of this thread if there is one."""
        values = _encode(parameters)
        current = self._current()
        rows: list[tuple[Any, ...]] = []

        def read(connection: Any) -> None:
            rows[:] = self.backend.run(connection, sql, values).fetchall()

        if current is None:
            self._give_back(*self._first(read))
        else:
            with self._explained:
                read(current.connection)
        return decode_rows(rows) if decode else rows

    def is_unchanged(self, since: Mark | None) -> bool:
        """Return whether nothing was committed since a mark, by anybody; False also where that cannot be told.

        Only outside of transactions.
        """
        pool, backend = self._pool, self.backend
        if since is None or pool.process != os.getpid():
            return False
        try:
            connection = pool.idle.pop()
        except IndexError:
            return False
        try:
            return connection is since[0] and backend.is_usable(connection) and backend.mark(connection) == since
        except backend.failures:
            return False
        finally:
            self._give_back(connection, pool)

    def execute_marked(self, sql: str, parameters: Sequence[Value]) -> tuple[list[tuple[Any, ...]], Mark | None]:
        """Return the rows of a statement, which are not decoded, and a mark of the moment before."""
        rows: list[tuple[Any, ...]] = []
        mark: Mark | None = None

        def read(connection: Any) -> None:
            nonlocal mark
            mark = self.backend.mark(connection)
            rows[:] = self.backend.run(connection, sql, _encode(parameters)).fetchall()

        self._give_back(*self._first(read))
        return rows, mark

    def change(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """Return how many rows a statement changed; only inside of a transaction."""
        connection = self._writing_connection()
        with self._explained:
            changed: int = self.backend.run(connection, sql, _encode(parameters)).rowcount
            return changed

    def change_all(self, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Execute a statement for each of many rows of values; only inside of a transaction."""
        connection = self._writing_connection()
        with self._explained:
            self.backend.run_all(connection, sql, map(_encode, parameters))

    def insert_alone(self, sql: str, parameters: Sequence[Value], wait: float | None = None) -> bool:
        """Add a row by one statement, which is a transaction of its own; False where a constraint is against it.

        Only inside of `writing_alone`, for a database that lets one connection write at a time.
        """
        values, is_added = _encode(parameters), True

        def insert(connection: Any) -> None:
            nonlocal is_added
            try:
                self.backend.run_alone(connection, sql, values, wait)
            except self.backend.conflicts:
                is_added = False

        self._give_back(*self._first(insert))
        return is_added

    def _writing_connection(self) -> Any:
        current = self._current()
        if current is None or not current.can_write:
            raise InvalidArgument("Changes are made inside of a transaction.", hint="Use `with scope.transaction():`.")
        return current.connection

    @contextlib.contextmanager
    def transaction(self, lock: str = "", wait: float | None = None) -> Iterator[None]:
        """Make all that this thread does inside one transaction; an inner one that fails undoes its own part alone.

        Those that name the same `lock` run one after the other, so what was read inside still holds at the end.
        `wait` is the longest wait for those before it in seconds, by default `WAIT_SECONDS`.
        """
        current = self._current()
        if current is not None:
            with self._savepoint(current):
                yield
            return
        with self.writing_alone(wait):
            connection, pool = self._first(lambda connection: self.backend.begin(connection, lock, wait))
            self._local.current = _Transaction(connection, pool.process, can_write=True)
            try:
                with self._explained:
                    try:
                        yield
                        _require_same_process(pool)
                        self.backend.commit(connection)
                    except BaseException:
                        self._roll_back(connection, pool)
                        raise
            finally:
                self._local.current = None
                self._give_back(connection, pool)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read all inside from one moment, whatever others write meanwhile."""
        if self._current() is not None:
            yield
            return
        connection, pool = self._first(self.backend.begin_snapshot)
        self._local.current = _Transaction(connection, pool.process, can_write=False)
        try:
            yield
        finally:
            self._local.current = None
            self._roll_back(connection, pool)
            self._give_back(connection, pool)

    def close(self) -> None:
        """Close all idle connections; the next use opens one again."""
        closing = self._closing
        self._open_pool()
        closing()

    def _open_pool(self) -> None:
        self._pool = _IdleConnections()
        self._writing = threading.Lock()
        self._closing = weakref.finalize(self, _close, self._pool)

    def _current(self) -> _Transaction | None:
        current: _Transaction | None = getattr(self._local, "current", None)
        return current if current is not None and current.process == os.getpid() else None

    def writing_alone(self, wait: float | None) -> AbstractContextManager[None]:
        """Let threads of one process wait for each other here, not in the database, which only polls."""
        if self.backend.is_shared:
            return contextlib.nullcontext()
        self._after_fork()
        return _Turn(self._writing, WAIT_SECONDS if wait is None else wait)

    @contextlib.contextmanager
    def _savepoint(self, current: _Transaction) -> Iterator[None]:
        if not current.can_write:
            raise InvalidArgument("Nothing can be changed while a snapshot is read.", hint="End the snapshot first.")
        run, connection = self.backend.run, current.connection
        name = f"inner_{current.depth}"
        current.depth += 1
        try:
            with self._explained:
                run(connection, f"SAVEPOINT {name}")
                try:
                    yield
                except BaseException:
                    # Some failures have ended the whole transaction already; then there is nothing left to undo.
                    with contextlib.suppress(*self.backend.failures):
                        run(connection, f"ROLLBACK TO SAVEPOINT {name}")
                    raise
                run(connection, f"RELEASE SAVEPOINT {name}")
        finally:
            current.depth -= 1

    def _first(self, work: Callable[[Any], object]) -> tuple[Any, _IdleConnections]:
        """Return a connection after the first work on it."""
        while True:
            connection, pool, is_fresh = self._take()
            try:
                work(connection)
                return connection, pool
            except BaseException as error:
                was_cut_off = not self.backend.is_usable(connection)
                connection.close()
                if not isinstance(error, self.backend.failures):
                    raise
                # A restarted server has cut off the idle connections; nothing was done on this one yet.
                if is_fresh or not was_cut_off:
                    raise self.backend.explain(error) from None

    def _roll_back(self, connection: Any, pool: _IdleConnections) -> None:
        if pool.process == os.getpid():
            self.backend.roll_back(connection)

    def _take(self) -> tuple[Any, _IdleConnections, bool]:
        self._after_fork()
        pool = self._pool
        while pool.idle:
            try:
                connection = pool.idle.pop()
            except IndexError:
                break
            if self.backend.is_usable(connection):
                return connection, pool, False
            connection.close()
        return self.backend.connect(), pool, True

    def _give_back(self, connection: Any, pool: _IdleConnections) -> None:
        if pool.process != os.getpid():
            return
        if pool is self._pool and len(pool.idle) < _MAX_IDLE:
            pool.idle.append(connection)
        else:
            connection.close()

    def _after_fork(self) -> None:
        if self._pool.process != os.getpid():
            _LEFT_BEHIND.append(self._pool)
            self._closing.detach()
            self._open_pool()


def _encode(values: Sequence[Value]) -> list[Value]:
    # Most texts need no escape: a call for each would cost every decision a microsecond.
    return [
        encode_text(value) if isinstance(value, str) and not (value.isascii() and "\0" not in value) else value
        for value in values
    ]


def _close(pool: _IdleConnections) -> None:
    while pool.idle and pool.process == os.getpid():
        pool.idle.pop().close()


def _require_same_process(pool: _IdleConnections) -> None:
    if pool.process != os.getpid():
        raise InvalidArgument(
            "A transaction cannot be ended by another process than the one that began it.",
            hint="Do not fork inside of a transaction.",
        )


def busy() -> StoreUnavailable:
    """Return the error for a writer that holds the store for too long."""
    return StoreUnavailable(
        f"The store is busy: others have been writing to it for {WAIT_SECONDS:.0f} seconds.",
        hint="Try again; if it stays so, look for a process that hangs while it holds the store.",
        is_busy=True,
    )
