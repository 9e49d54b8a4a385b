"""Records that wait until a store that others write to is free, so that no event loop waits for it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from metier._log import logger
from metier.errors import AuditUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.audit.log import AuditRecord

log = logger("metier.guard")

_PATIENCE = 0.05
"""Seconds that an event loop may stand still for what others write."""
_MOST = 10_000
"""Records that may wait; behind them, whoever has another one waits as well."""
_PAUSE = 1.0
"""Seconds until it is tried again to write."""


class WriteQueue:
    """The way of records into a log that may be busy: each behind those that came before it from the same thread.

    A thread that runs an event loop writes at once where that takes no longer than the writing itself. Where it would,
    the record waits here, and another thread writes it.

    >>> from metier.guard import AuditRecord
    >>> written = []
    >>> backlog = WriteQueue(lambda record, wait: written.append(record.reason))
    >>> backlog.append(AuditRecord(timestamp="", event="load", decision="allow", reason="one"))
    >>> written, bool(backlog)
    (['one'], False)
    """

    def __init__(self, write: Callable[[AuditRecord, float | None], None]) -> None:
        """`write` keeps one record, and waits for others no longer than so many seconds (None: as long as anybody).

        It raises `AuditUnavailable`, with `is_busy` in its context where only others are in the way.
        """
        self._write = write
        self._process = 0
        self._reset()

    def _reset(self) -> None:
        """In a process that was forked: what waits is for the parent to write."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._records: deque[AuditRecord] = deque()
            self._emptying = threading.Lock()
            self._changing = threading.Lock()
            self._thread: threading.Thread | None = None

    def __bool__(self) -> bool:
        """Whether records wait."""
        self._reset()
        return bool(self._records)

    def append(self, record: AuditRecord) -> None:
        """Write a record, or let it wait where an event loop would have to; raises what `write` does."""
        self._reset()
        if not _runs_event_loop():
            self.catch_up()
            self._write(record, None)
            return
        if len(self._records) >= _MOST:
            self.catch_up()
        if not self._records and self._has_written(record):
            return
        self._records.append(record)
        self._begin()

    def _has_written(self, record: AuditRecord) -> bool:
        try:
            self._write(record, _PATIENCE)
        except AuditUnavailable as error:
            if not error.context.get("is_busy"):
                raise
            return False
        return True

    def catch_up(self) -> None:
        """Write all that waits; raises `AuditUnavailable` where it cannot be, at once on an event loop."""
        self._reset()
        if not self._records:
            return
        wait = _PATIENCE if _runs_event_loop() else None
        if not self._emptying.acquire(timeout=-1 if wait is None else wait):
            raise AuditUnavailable("Records wait to be written.", hint="Try again in a moment.", is_busy=True)
        try:
            while self._records:
                self._write(self._records[0], wait)
                self._records.popleft()
        finally:
            self._emptying.release()

    def _begin(self) -> None:
        """Have what waits written by a thread, unless one is at it."""
        with self._changing:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="metier-audit-backlog", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # the interpreter is ending, and writes all of it before it does

    def _work(self) -> None:
        is_failing = False
        while True:
            try:
                self.catch_up()
            except Exception as error:
                if not is_failing:
                    log.warning("Records wait, and cannot be written; it is tried again. %s", error)
                is_failing = True
                threading.Event().wait(_PAUSE)
            with self._changing:
                if not self._records:
                    self._thread = None
                    return

    def flush(self) -> None:
        """Write all that waits, as far as that can be done."""
        with contextlib.suppress(Exception):
            self.catch_up()


def _runs_event_loop() -> bool:
    # Where nobody has imported it, there is none, and nothing has to be imported to know that.
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None
