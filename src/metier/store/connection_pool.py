"""Connections to a database: taken when needed, one transaction a thread, safe over a fork.

What differs between databases is in `sqlite` and `postgresql`. Statements have `?` where a value goes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from metier.errors import InvalidArgument, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metier.errors import MetierError
    from metier.store.location import Kind

Value: TypeAlias = str | int | bytes
_KEPT = 4
"""Connections that wait for their next use."""
WAIT_SECONDS = 30.0
"""How long a transaction waits for those before it: many times what they take."""


class Backend(Protocol):
    """What the driver needs of a kind of database."""

    kind: Kind
    name: str
    """What people call it, without a password."""
    failures: tuple[type[Exception], ...]
    """What its connections raise."""
    is_shared: bool
    """Whether several connections of this process may write at once."""

    def connect(self) -> Any:
        """A connection to a database that has all tables; raises `StoreUnavailable`."""
        ...

    def is_usable(self, connection: Any) -> bool:
        """Whether a connection that has waited still leads to the database."""
        ...

    def begin(self, connection: Any, lock: str, wait: float | None = None) -> None:
        """Begin to write, alone among those that name the same lock; `wait` is for how many seconds at most."""
        ...

    def begin_snapshot(self, connection: Any) -> None:
        """Begin to read from one state of everything."""
        ...

    def run(self, connection: Any, sql: str, parameters: Sequence[Value]) -> Any:
        """Carry out a statement; what is returned has `fetchall()` and `rowcount`."""
        ...

    def run_all(self, connection: Any, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Carry out a statement for each of many values."""
        ...

    def commit(self, connection: Any) -> None:
        """Make what the transaction has done last; raises when it does not."""
        ...

    def roll_back(self, connection: Any) -> None:
        """Forget what the transaction has done, if there is one."""
        ...

    def version(self, connection: Any) -> int:
        """The version of its tables; 0 where there are none."""
        ...

    def set_version(self, connection: Any, version: int) -> None:
        """Note the version, inside the transaction that made it."""
        ...

    def told(self, error: Exception) -> MetierError:
        """What a failure means for whoever asked."""
        ...


@dataclass(slots=True)
class _Pool:
    idle: list[Any] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)


@dataclass(slots=True)
class _Transaction:
    connection: Any
    process: int
    can_write: bool
    depth: int = 0


_LEFT_BEHIND: list[_Pool] = []
"""Connections of a parent process: they must neither be used nor closed here."""


class ConnectionPool:
    """The connections of a process to one database, for all of its threads."""

    def __init__(self, database: Backend) -> None:
        self.database = database
        self._local = threading.local()
        self._open_pool()

    @property
    def kind(self) -> Kind:
        """`sqlite` or `postgresql`."""
        return self.database.kind

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is inside a transaction or a snapshot."""
        return self._current() is not None

    @property
    def is_writing(self) -> bool:
        """Whether this thread is inside a transaction that may have changed something."""
        current = self._current()
        return current is not None and current.can_write

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement gives: inside the transaction of this thread, else on its own."""
        current = self._current()
        rows: list[tuple[Any, ...]] = []

        def read(connection: Any) -> None:
            rows[:] = self.database.run(connection, sql, parameters).fetchall()

        if current is None:
            self._give_back(*self._first(read))
            return rows
        try:
            read(current.connection)
        except self.database.failures as error:
            raise self.database.told(error) from None
        return rows

    def change(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """How many rows a statement changed; only inside of a transaction."""
        current = self._current()
        if current is None or not current.can_write:
            raise _outside()
        try:
            changed: int = self.database.run(current.connection, sql, parameters).rowcount
            return changed
        except self.database.failures as error:
            raise self.database.told(error) from None

    def change_all(self, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Carry out a statement for each of many values; only inside of a transaction."""
        current = self._current()
        if current is None or not current.can_write:
            raise _outside()
        try:
            self.database.run_all(current.connection, sql, parameters)
        except self.database.failures as error:
            raise self.database.told(error) from None

    @contextlib.contextmanager
    def transaction(self, lock: str = "", wait: float | None = None) -> Iterator[None]:
        """All that this thread does inside is one transaction; an inner one that fails takes back what it did alone.

        Those that name the same `lock` come one after the other, so what was read inside still holds at the end.
        `wait` is for how many seconds it waits for those before it, by default as long as anybody does.
        """
        current = self._current()
        if current is not None:
            with self._savepoint(current):
                yield
            return
        with self._alone(wait):
            connection, pool = self._first(lambda connection: self.database.begin(connection, lock, wait))
            self._local.current = _Transaction(connection, pool.process, can_write=True)
            try:
                try:
                    yield
                    _require_same(pool)
                    self.database.commit(connection)
                except BaseException:
                    self._roll_back(connection, pool)
                    raise
            except self.database.failures as error:
                raise self.database.told(error) from None
            finally:
                self._local.current = None
                self._give_back(connection, pool)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread reads inside is of one moment, whatever others write meanwhile."""
        if self._current() is not None:
            yield
            return
        connection, pool = self._first(self.database.begin_snapshot)
        self._local.current = _Transaction(connection, pool.process, can_write=False)
        try:
            yield
        finally:
            self._local.current = None
            self._roll_back(connection, pool)
            self._give_back(connection, pool)

    def close(self) -> None:
        """Let go of all connections; the next use opens one again."""
        closing = self._closing
        self._open_pool()
        closing()

    def _open_pool(self) -> None:
        self._pool = _Pool()
        self._writing = threading.Lock()
        self._closing = weakref.finalize(self, _close, self._pool)

    def _current(self) -> _Transaction | None:
        current: _Transaction | None = getattr(self._local, "current", None)
        return current if current is not None and current.process == os.getpid() else None

    @contextlib.contextmanager
    def _alone(self, wait: float | None) -> Iterator[None]:
        """Threads of one process wait for each other here, not in the database, which only looks now and then."""
        if self.database.is_shared:
            yield
            return
        self._after_fork()
        writing = self._writing
        if not writing.acquire(timeout=WAIT_SECONDS if wait is None else wait):
            raise busy()
        try:
            yield
        finally:
            writing.release()

    @contextlib.contextmanager
    def _savepoint(self, current: _Transaction) -> Iterator[None]:
        if not current.can_write:
            raise InvalidArgument("Nothing can be changed while a snapshot is read.", hint="End the snapshot first.")
        run, connection = self.database.run, current.connection
        name = f"inner_{current.depth}"
        current.depth += 1
        try:
            run(connection, f"SAVEPOINT {name}", ())
            try:
                yield
            except BaseException:
                # Some failures have ended the whole transaction already; then there is nothing left to take back.
                with contextlib.suppress(*self.database.failures):
                    run(connection, f"ROLLBACK TO SAVEPOINT {name}", ())
                raise
            run(connection, f"RELEASE SAVEPOINT {name}", ())
        except self.database.failures as error:
            raise self.database.told(error) from None
        finally:
            current.depth -= 1

    def _first(self, work: Callable[[Any], object]) -> tuple[Any, _Pool]:
        """A connection on which the first work was done."""
        while True:
            connection, pool, is_fresh = self._take()
            try:
                work(connection)
                return connection, pool
            except BaseException as error:
                was_cut_off = not self.database.is_usable(connection)
                connection.close()
                if not isinstance(error, self.database.failures):
                    raise
                # A server that was restarted has cut off those that waited; nothing was done on this one yet.
                if is_fresh or not was_cut_off:
                    raise self.database.told(error) from None

    def _roll_back(self, connection: Any, pool: _Pool) -> None:
        if pool.process == os.getpid():
            self.database.roll_back(connection)

    def _take(self) -> tuple[Any, _Pool, bool]:
        self._after_fork()
        pool = self._pool
        while pool.idle:
            try:
                connection = pool.idle.pop()
            except IndexError:
                break
            if self.database.is_usable(connection):
                return connection, pool, False
            connection.close()
        return self.database.connect(), pool, True

    def _give_back(self, connection: Any, pool: _Pool) -> None:
        if pool.process != os.getpid():
            return
        if pool is self._pool and len(pool.idle) < _KEPT:
            pool.idle.append(connection)
        else:
            connection.close()

    def _after_fork(self) -> None:
        if self._pool.process != os.getpid():
            _LEFT_BEHIND.append(self._pool)
            self._closing.detach()
            self._open_pool()


def _close(pool: _Pool) -> None:
    while pool.idle and pool.process == os.getpid():
        pool.idle.pop().close()


def _outside() -> InvalidArgument:
    return InvalidArgument("Changes are made inside of a transaction.", hint="Use `with scope.transaction():`.")


def _require_same(pool: _Pool) -> None:
    if pool.process != os.getpid():
        raise InvalidArgument(
            "A transaction cannot be ended by another process than the one that began it.",
            hint="Do not fork inside of a transaction.",
        )


def busy() -> StoreUnavailable:
    """Somebody else writes for longer than anybody should."""
    return StoreUnavailable(
        f"The store is busy: others have been writing to it for {WAIT_SECONDS:.0f} seconds.",
        hint="Try again; if it stays so, look for a process that hangs while it holds the store.",
        is_busy=True,
    )
