"""The audit log in the store: records chained by hashes, queued while others write, and signed by checkpoints."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from metier._lazy import logger
from metier.errors import AuditUnavailable, MetierError
from metier.guard.decision import Actor
from metier.guard.open_stores import OPEN, open_store
from metier.store.audit_log import ChainPosition
from metier.store.connection_pool import WAIT_SECONDS, busy
from metier.store.location import default_store, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from metier.guard.audit.log import AuditRecord
    from metier.store import Store
    from metier.store.audit_log import AuditTable

log = logger("metier.guard")

EVERY = 100
"""Records between two checkpoints."""
_WORTH_SIGNING = 10
"""Records without a checkpoint that make one worth its time when the process ends."""
_SIGNING_PAUSE = 5.0
"""Seconds between two attempts to sign."""
_SIGNING_PATIENCE = 10.0
"""Seconds for which the end of a process waits for a signature that is under way."""
_MAX_TENANT = 120
_LOOP_PATIENCE = 0.05
"""Seconds that an event loop may wait for other writers."""
_MAX_QUEUE = 10_000
"""Records that may wait; a longer queue makes the event loop wait too."""
_MAX_GROUP = 100
"""Callers, or waiting records, that share one transaction."""
_WRITING_PAUSE = 1.0
"""Seconds between two attempts to write the queue."""


class StoreLog:
    """Records in the store, which the first record opens; each tenant has a chain of its own.

    Any number of threads and processes may write to it. A background thread signs a checkpoint after every so many
    records, and the process signs another one when it ends.

    >>> import tempfile
    >>> from metier.guard import AuditRecord
    >>> log = StoreLog(f"sqlite:///{tempfile.mkdtemp()}/metier.db")
    >>> log.append(AuditRecord(timestamp="2026-01-01T10:00:00.000+00:00", event="load", decision="allow", reason=""))
    >>> [record["type"] for record in log.store.of().audit.tail(10)]
    ['skill.activated']
    >>> log.close()
    """

    def __init__(self, store_url: str | None = None, *, every: int = EVERY, key: Path | str | None = None) -> None:
        """Keep records in the store at an address, by default the user's own.

        `every` is how many records come between two checkpoints, `key` the file of the key that signs them.
        """
        self._url = store_url or default_store()
        self._every = every
        self._key = key
        self.begin_anew()
        self._tables: dict[str, AuditTable] = {}
        self._signed: dict[str, int] = {}
        _LOGS.add(self)

    def begin_anew(self) -> None:
        """Begin with an empty queue and no thread: in a forked process, the parent writes the records that wait."""
        self._signer = _BackgroundSigner()
        self._queue = WriteQueue(self._write)
        self._groups: dict[str, GroupCommit] = {}

    @property
    def store(self) -> Store:
        """The store that decisions are made by; raises `AuditUnavailable` when it cannot be opened."""
        try:
            return OPEN.items.get(self._url) or open_store(self._url)
        except MetierError as error:
            raise _unavailable(error) from None

    def prepare(self) -> None:
        """Open the store; raises `AuditUnavailable` when no record could be written to it."""
        self.store  # noqa: B018

    def append(self, record: AuditRecord) -> None:
        """Add a record to the chain of its tenant; on an event loop it is queued while others write."""
        self._queue.append(record)

    @property
    def is_behind(self) -> bool:
        """Whether records wait because others are writing."""
        return bool(self._queue)

    def catch_up(self) -> None:
        """Write the records that wait; raises `AuditUnavailable` where that cannot be done yet."""
        self._queue.catch_up()

    def _write(self, records: Sequence[AuditRecord], wait: float | None) -> None:
        """Write records of one tenant, together with those of other threads that wait at the same time."""
        tenant = _valid_tenant(records[0].tenant or "")
        group = self._groups.get(tenant)
        if group is None:
            group = self._groups.setdefault(tenant, GroupCommit())
        try:
            position = group.write(self._table(tenant), [record.as_dict() for record in records], wait)
            signed = self._signed.get(tenant)
            if signed is None:
                signed = self._signed[tenant] = self._signed_up_to(tenant)
        except MetierError as error:
            raise _unavailable(error) from None
        if position.seq - signed >= self._every:
            self._signer.start(lambda: self._sign(tenant))

    def checkpoint(self, tenant: str = "") -> bool:
        """Sign the chain of a tenant as it is now; False where nothing is new since the last checkpoint."""
        from metier.guard.audit.checkpoints import default_key_path, make_checkpoint

        made = make_checkpoint(self.store, tenant, self._key or default_key_path())
        self._signed[tenant] = self._signed_up_to(tenant)
        return made is not None

    def _signed_up_to(self, tenant: str) -> int:
        """Return the number of the last signed record by the checkpoint beside the key; 0 for none or a bad one."""
        from metier.guard.audit.checkpoints import LastCheckpoint, default_key_path

        key_file = self._key or default_key_path()
        try:
            last = LastCheckpoint(key_file, str(self.store), self._table(tenant).tenant).read()
        except AuditUnavailable:
            return 0  # the next checkpoint reports what is wrong with it
        return last.seq if last is not None else 0

    def _table(self, tenant: str) -> AuditTable:
        table = self._tables.get(tenant)
        if table is None:
            table = self._tables[tenant] = self.store.of(tenant).audit
        return table

    def _sign(self, tenant: str) -> None:
        """Sign in the background, unless another process has done so; a failure is recorded and tried again."""
        try:
            self._sign_records(tenant, self._every)
            self._signer.is_failing = False
        except Exception as error:
            if self._signer.note_failure():
                log.warning("The audit log could not be signed; it is tried again. %s", error)
                self._record_failure(tenant, error)

    def _sign_records(self, tenant: str, least: int) -> None:
        """Sign the chain of a tenant where at least so many records are not signed yet, by whatever process."""
        last = self._table(tenant).last()
        self._signed[tenant] = self._signed_up_to(tenant)
        if last is not None and last.seq - self._signed[tenant] >= least:
            self.checkpoint(tenant)

    def _record_failure(self, tenant: str, error: Exception) -> None:
        from metier.guard.audit.governance_events import governance_record

        code = error.code if isinstance(error, MetierError) else "failed"
        record = governance_record("checkpoint.failed", actor=Actor(tenant=tenant), reason=str(error), code=code)
        try:
            self._table(tenant).append(record.as_dict())
        except Exception:
            log.exception("nor could that be recorded")

    def flush(self) -> None:
        """Wait until the queue is written and a signature that is under way is done."""
        self._queue.flush()
        self._signer.wait()

    def sign_rest(self) -> None:
        """Sign the records of this process that nobody has signed yet, where it is worth the time."""
        self.flush()
        for tenant in list(self._signed):
            try:
                # Reading from a store that was removed would create it again.
                if self._store_exists():
                    self._sign_records(tenant, _WORTH_SIGNING)
            except Exception as error:
                log.warning("The end of the audit log could not be signed. %s", error)

    def _store_exists(self) -> bool:
        address = parse_address(self._url)
        return address.kind != "sqlite" or os.path.exists(address.target)

    def close(self) -> None:
        """Sign the rest; the next record continues as before."""
        self.sign_rest()
        self._signed.clear()
        self._tables.clear()


class _BackgroundSigner:
    """At most one thread that signs, and the pause after a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self.is_failing = False

    def start(self, work: Callable[[], None]) -> None:
        """Start a thread for the work, unless one runs or has just failed."""
        with self._lock:
            if time.monotonic() < self._not_before or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = _start_thread(work, "metier-audit")

    def note_failure(self) -> bool:
        """Return whether it is the first failure in a row."""
        is_first, self.is_failing = not self.is_failing, True
        self._not_before = time.monotonic() + _SIGNING_PAUSE
        return is_first

    def wait(self) -> None:
        """Wait until the thread has ended, or takes too long."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_SIGNING_PATIENCE)


class GroupCommit:
    """Writers to one chain: those that wait at the same time share one transaction, which the first of them makes.

    Each waits until its records are on the disk, and one that is alone waits for nobody. The main thread of a process
    writes its own records only.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._turn = threading.Lock()

    def __len__(self) -> int:
        """The number of callers that wait."""
        return len(self._waiting)

    def write(self, table: AuditTable, records: list[dict[str, Any]], wait: float | None) -> ChainPosition:
        """Return the position of the last of the records, which are on the disk then.

        Inside of a transaction of this thread they are part of it alone: others would be undone with it, and one of
        them may be waiting for its end.
        """
        if table.pool.is_in_transaction:
            return table.append_all(lambda: records, wait=wait)[-1]
        own = _Waiting(records)
        self._waiting.append(own)
        try:
            has_turn = self._turn.acquire(timeout=WAIT_SECONDS if wait is None else wait)
        except BaseException:
            self._withdraw(own)
            raise
        if not has_turn:
            if self._withdraw(own):
                raise busy()
            self._turn.acquire()  # they are being written
        try:
            while own.result is None:
                self._write_waiting(table, own, wait)
        finally:
            self._turn.release()
        if isinstance(own.result, ChainPosition):
            return own.result
        raise own.result or _interrupted()

    def _write_waiting(self, table: AuditTable, own: _Waiting, wait: float | None) -> None:
        taken: list[_Waiting] = []

        def take() -> Iterator[dict[str, Any]]:
            if threading.current_thread() is threading.main_thread():
                # It alone is interrupted, perhaps right after the commit: others would not know that they are written.
                self._withdraw(own)
                taken.append(own)
                yield from own.records
                return
            # Only now: nobody else's records wait for a writer in another process longer than their caller does.
            while self._waiting and len(taken) < _MAX_GROUP:
                taken.append(self._waiting.popleft())
                yield from taken[-1].records

        try:
            if len(self._waiting) == len(own.records) == 1:
                positions = [table.append(own.records[0], wait=wait)]
                taken.append(self._waiting.popleft())
            else:
                positions = table.append_all(take, wait=wait)
        except BaseException as error:
            self._withdraw(own)
            for one in (own, *taken):
                one.result = error if isinstance(error, MetierError) else _interrupted()
            if not isinstance(error, MetierError):
                raise
            return
        at = 0
        for one in taken:
            at += len(one.records)
            one.result = positions[at - 1]

    def _withdraw(self, own: _Waiting) -> bool:
        """Return whether records still waited, which they no longer do."""
        try:
            self._waiting.remove(own)
        except ValueError:
            return False
        return True


class _Waiting:
    """Records of one caller that wait to be written, and what became of them."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records
        self.result: ChainPosition | MetierError | None = None


class WriteQueue:
    """The queue in front of a log that may be busy: the records of one thread stay in order.

    A thread that runs an event loop writes at once where that takes no longer than the writing itself. Otherwise the
    record waits here, and another thread writes it.

    >>> from metier.guard import AuditRecord
    >>> written = []
    >>> queue = WriteQueue(lambda records, wait: written.extend(record.reason for record in records))
    >>> queue.append(AuditRecord(timestamp="", event="load", decision="allow", reason="one"))
    >>> written, bool(queue)
    (['one'], False)
    """

    def __init__(self, write: Callable[[Sequence[AuditRecord], float | None], None]) -> None:
        """`write` keeps records of one tenant, and waits for other writers at most so many seconds (None: the default).

        It keeps all of them or none, and raises `AuditUnavailable`, with `is_busy` in its context where only other
        writers are in the way.
        """
        self._write = write
        self._records: deque[AuditRecord] = deque()
        self._emptying = threading.Lock()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None

    def __bool__(self) -> bool:
        """Whether records wait."""
        return bool(self._records)

    def append(self, record: AuditRecord) -> None:
        """Write a record, or queue it where an event loop would have to wait; raises what `write` does."""
        if not _runs_event_loop():
            self.catch_up()
            self._write((record,), None)
            return
        if len(self._records) >= _MAX_QUEUE:
            self.catch_up()
        if not self._records and self._try_write(record):
            return
        self._records.append(record)
        with self._changing:
            if self._thread is None:
                self._thread = _start_thread(self._work, "metier-audit-queue")

    def _try_write(self, record: AuditRecord) -> bool:
        try:
            self._write((record,), _LOOP_PATIENCE)
        except AuditUnavailable as error:
            if not error.context.get("is_busy"):
                raise
            return False
        return True

    def catch_up(self) -> None:
        """Write all that waits; raises `AuditUnavailable` where it cannot be, at once on an event loop."""
        if not self._records:
            return
        wait = _LOOP_PATIENCE if _runs_event_loop() else None
        if not self._emptying.acquire(timeout=-1 if wait is None else wait):
            raise AuditUnavailable("Records wait to be written.", hint="Try again in a moment.", is_busy=True)
        try:
            while self._records:
                together = self._first_of_one_tenant()
                self._write(together, wait)
                for _ in together:
                    self._records.popleft()
        finally:
            self._emptying.release()

    def _first_of_one_tenant(self) -> list[AuditRecord]:
        """Return the records that come next and may share a transaction."""
        first = list(itertools.islice(self._records, _MAX_GROUP))
        return list(itertools.takewhile(lambda record: record.tenant == first[0].tenant, first))

    def _work(self) -> None:
        is_failing = False
        while True:
            try:
                self.catch_up()
            except Exception as error:
                if not is_failing:
                    log.warning("Records wait, and cannot be written; it is tried again. %s", error)
                is_failing = True
                threading.Event().wait(_WRITING_PAUSE)
            with self._changing:
                if not self._records:
                    self._thread = None
                    return

    def flush(self) -> None:
        """Write all that waits, as far as that can be done."""
        with contextlib.suppress(Exception):
            self.catch_up()


def _runs_event_loop() -> bool:
    # Where nobody has imported asyncio, there is no loop, and nothing has to be imported to know that.
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


def _start_thread(work: Callable[[], None], name: str) -> threading.Thread | None:
    """Start a daemon thread; None where the interpreter is ending, which then does the work itself."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


_LOGS: weakref.WeakSet[StoreLog] = weakref.WeakSet()


@atexit.register
def _sign_at_exit() -> None:
    for one in list(_LOGS):
        one.sign_rest()


def _begin_anew() -> None:
    for one in list(_LOGS):
        one.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _valid_tenant(tenant: str) -> str:
    """Return a tenant that a store takes: the beginning of a name that is too long, and the hash of all of it."""
    if len(tenant) <= _MAX_TENANT:
        return tenant
    return f"{tenant[:_MAX_TENANT]}…{hashlib.sha256(tenant.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _interrupted() -> AuditUnavailable:
    return AuditUnavailable("The writing of the audit log was interrupted.", hint="Try again.")


def _unavailable(error: MetierError) -> AuditUnavailable:
    is_busy = bool(error.context.get("is_busy"))
    return AuditUnavailable(f"The audit log cannot be written. {error.message}", hint=error.hint, is_busy=is_busy)
