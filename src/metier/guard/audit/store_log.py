"""The audit trail in the store: records tied to each other by hashes, and signed every now and then."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from metier._log import logger
from metier.errors import AuditUnavailable, MetierError
from metier.guard.audit.backlog import WriteQueue
from metier.guard.audit.log import governance_record
from metier.guard.decision import Actor
from metier.guard.open_stores import open_store
from metier.store.location import default_store, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from metier.guard.audit.log import AuditRecord
    from metier.store import Store
    from metier.store.audit_log import AuditTable

log = logger("metier.guard")

EVERY = 100
"""Records between two checkpoints."""
_WORTH = 10
"""Records without a checkpoint that make one worth its time when the process ends."""
_PAUSE = 5.0
"""Seconds until it is tried again to sign."""
_PATIENCE = 10.0
"""Seconds for which the end of a process waits for a signature that is under way."""
_MAX_TENANT = 120


class StoreLog:
    """Records in the store, which is open_store with the first one; each tenant has a chain of its own.

    Any number of threads and processes may write to it. After every so many records a checkpoint is signed, by a
    thread that nobody waits for, and another when the process ends.

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
        self._signing = _Signing()
        self._backlog = WriteQueue(self._write)
        self._trails: dict[str, AuditTable] = {}
        self._signed: dict[str, int] = {}
        _LOGS.add(self)

    @property
    def store(self) -> Store:
        """The store, the same that decisions are made by; raises `AuditUnavailable` when it cannot be open_store."""
        try:
            return open_store(self._url)
        except MetierError as error:
            raise _unavailable(error) from None

    def prepare(self) -> None:
        """Open the store; raises `AuditUnavailable` when no record could be written to it."""
        self.store  # noqa: B018

    def append(self, record: AuditRecord) -> None:
        """Add a record to the chain of its tenant; on an event loop it waits its turn where others are writing."""
        self._backlog.append(record)

    @property
    def is_behind(self) -> bool:
        """Whether records wait because others are writing."""
        return bool(self._backlog)

    def catch_up(self) -> None:
        """Write the records that wait; raises `AuditUnavailable` where that cannot be done yet."""
        self._backlog.catch_up()

    def _write(self, record: AuditRecord, wait: float | None) -> None:
        tenant = _usable(record.tenant or "")
        trail = self._trail(tenant)
        try:
            stamp = trail.append(record.as_dict(), wait=wait)
            signed = self._signed.get(tenant)
            if signed is None:
                signed = self._signed[tenant] = self._signed_up_to(tenant)
        except MetierError as error:
            raise _unavailable(error) from None
        if stamp.seq - signed >= self._every:
            self._signing.begin(lambda: self._sign(tenant))

    def checkpoint(self, tenant: str = "") -> bool:
        """Sign what the chain of a tenant is now; False where nothing is new since the last time."""
        from metier.guard.audit.checkpoints import make_checkpoint
        from metier.guard.audit.keys import default_key_file

        made = make_checkpoint(self.store, tenant, self._key or default_key_file())
        self._signed[tenant] = self._signed_up_to(tenant)
        return made is not None

    def _signed_up_to(self, tenant: str) -> int:
        """The last record that the key has signed, by the mark beside it; 0 for none, or none that can be told."""
        from metier.guard.audit.checkpoints import LastCheckpoint
        from metier.guard.audit.keys import default_key_file

        try:
            mark = LastCheckpoint(self._key or default_key_file(), str(self.store), self._trail(tenant).tenant).read()
        except AuditUnavailable:
            return 0  # whoever signs next says what is wrong with it
        return mark.seq if mark is not None else 0

    def _trail(self, tenant: str) -> AuditTable:
        trail = self._trails.get(tenant)
        if trail is None:
            trail = self._trails[tenant] = self.store.of(tenant).audit
        return trail

    def _sign(self, tenant: str) -> None:
        """Sign in the background, unless another process has done so; what fails is recorded and tried again."""
        try:
            trail = self._trail(tenant)
            last = trail.last()
            self._signed[tenant] = self._signed_up_to(tenant)
            if last is not None and last.seq - self._signed[tenant] >= self._every:
                self.checkpoint(tenant)
            self._signing.succeeded()
        except Exception as error:
            if self._signing.failed():
                log.warning("The audit trail could not be signed; it is tried again. %s", error)
                self._record_failure(tenant, error)

    def _record_failure(self, tenant: str, error: Exception) -> None:
        code = error.code if isinstance(error, MetierError) else "failed"
        record = governance_record("checkpoint.failed", actor=Actor(tenant=tenant), reason=str(error), code=code)
        try:
            self._trail(tenant).append(record.as_dict())
        except Exception:
            log.exception("nor could that be recorded")

    def flush(self) -> None:
        """Wait until what waits is written, and what is being signed has been."""
        self._backlog.flush()
        self._signing.wait()

    def sign_rest(self) -> None:
        """Sign what this process has added and nobody has signed yet, where it is worth the time."""
        self.flush()
        for tenant in list(self._signed):
            try:
                trail = self._trail(tenant)
                # A store that was taken away would be made anew by the question what is in it.
                last = trail.last() if self._is_there() else None
                if last is not None and last.seq - self._signed_up_to(tenant) >= _WORTH:
                    self.checkpoint(tenant)
            except Exception as error:
                log.warning("The end of the audit trail could not be signed. %s", error)

    def _is_there(self) -> bool:
        address = parse_address(self._url)
        return address.kind != "sqlite" or os.path.exists(address.target)

    def close(self) -> None:
        """Sign what is left; the next record goes on as before."""
        self.sign_rest()
        self._signed.clear()
        self._trails.clear()


class _Signing:
    """At most one thread that signs, and when it may try again; a process that was forked begins anew."""

    def __init__(self) -> None:
        self._process = 0
        self._reset()

    def _reset(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lock = threading.Lock()
            self._thread: threading.Thread | None = None
            self._not_before = 0.0
            self._is_failing = False

    def begin(self, work: Callable[[], None]) -> None:
        """Have it signed, unless that is happening or has just failed."""
        self._reset()
        with self._lock:
            if time.monotonic() < self._not_before or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=work, name="metier-audit", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # the interpreter is ending; then all of it is signed

    def succeeded(self) -> None:
        self._is_failing = False

    def failed(self) -> bool:
        """Note a failure; whether it is news."""
        is_news, self._is_failing = not self._is_failing, True
        self._not_before = time.monotonic() + _PAUSE
        return is_news

    def wait(self) -> None:
        """Until the thread has ended, or takes too long."""
        self._reset()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)


_LOGS: weakref.WeakSet[StoreLog] = weakref.WeakSet()


@atexit.register
def _sign_at_the_end() -> None:
    for one in list(_LOGS):
        one.sign_rest()


def _usable(tenant: str) -> str:
    """A tenant that a store takes: of a name that is too long, the beginning and a hash of all of it."""
    if len(tenant) <= _MAX_TENANT:
        return tenant
    return f"{tenant[:_MAX_TENANT]}…{hashlib.sha256(tenant.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _unavailable(error: MetierError) -> AuditUnavailable:
    is_busy = bool(error.context.get("is_busy"))
    return AuditUnavailable(f"The audit trail cannot be written. {error.message}", hint=error.hint, is_busy=is_busy)
