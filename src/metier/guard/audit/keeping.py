"""The recorder of a guard: it writes each record to the logs that must have it, and loses none."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from metier._log import logger
from metier.errors import InvalidArgument, MetierError
from metier.guard.audit.log import FileLog
from metier.guard.audit.telemetry import measure_record
from metier.guard.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.audit.log import AuditLog, AuditRecord
    from metier.guard.governance import Governance

log = logger("metier.guard")

_MAX_UNKEPT = 1_000


class Recorder:
    """Where the records of one guard go, and what becomes of those that cannot be kept."""

    def __init__(self, audit: AuditLog | str | None, governance: Governance) -> None:
        """`audit` is a log or the path of one; without it, METIER_AUDIT says where records go, or else the store."""
        self._chosen, self._must_record = _log_of(audit)
        self._by_default = audit is None and not os.environ.get("METIER_AUDIT")
        self._governance = governance
        self._unkept: list[tuple[AuditLog, AuditRecord]] = []
        self._late: list[AuditLog] = []
        self._is_ready = False
        self._keeping = threading.Lock()

    @property
    def file(self) -> str | None:
        """The file that was chosen, if it is one."""
        return os.path.abspath(self._chosen.path) if isinstance(self._chosen, FileLog) else None

    @property
    def _insists(self) -> bool:
        """Whether nothing may happen unrecorded: somebody chose the log, or an administrator's policy is in force."""
        return self._must_record or self._governance.insists_on_records

    @property
    def _logs(self) -> tuple[AuditLog, ...]:
        """Where a record goes: no program and no variable takes it from the trail that an administrator relies on."""
        found = () if self._chosen is None else (self._chosen,)
        if self._by_default or self._governance.insists_on_records:
            trail = self._governance.log
            if trail is not None and trail is not self._chosen:
                found = (*found, trail)
        return found

    def keep(self, record: AuditRecord) -> None:
        """Add a record to the trail."""
        measure_record(record)
        for one in self._logs:
            try:
                one.append(record)
                if getattr(one, "is_behind", False) and one not in self._late:
                    self._late.append(one)
            except Exception as error:
                self._put_by(one, record, error)

    def _put_by(self, to: AuditLog, record: AuditRecord, error: Exception) -> None:
        with self._keeping:
            if not self._unkept:
                hint = error.hint if isinstance(error, MetierError) else "Nothing is recorded until it works again."
                log.warning("A record could not be kept. %s %s", error, hint)
            # A refusal for want of a log is not worth keeping without end.
            if not self._unkept or (self._insists and len(self._unkept) < _MAX_UNKEPT):
                self._unkept.append((to, record))

    @property
    def is_behind(self) -> bool:
        """Whether records must be written before anything else happens, which may take a while."""
        return bool(self._unkept or self._late) and self._insists

    def unrecorded(self) -> Decision | None:
        """Against everything, while a log that must be written cannot be."""
        if (self._is_ready and not self._unkept and not self._late) or not self._insists:
            return None
        with contextlib.suppress(Exception):
            self._write_rest()
            return None
        return Decision(
            outcome="deny",
            reason="The audit log cannot be written, and nothing may happen unrecorded.",
            rule="audit",
            code="audit-unavailable",
            hint="Check the disk and the permissions of the audit log.",
        )

    def _write_rest(self) -> None:
        """Write what waits; raises where that cannot be done."""
        late, self._late = self._late, []
        try:
            for one in late:  # not while others are kept out, of whom one may be an event loop
                catch_up: Callable[[], None] = one.catch_up  # type: ignore[attr-defined]
                catch_up()
        except BaseException:
            self._late += late
            raise
        with self._keeping:
            if not self._is_ready:
                for one in self._logs:
                    prepare = getattr(one, "prepare", None)
                    if prepare is not None:
                        prepare()
            self._is_ready = True
            while self._unkept:
                to, record = self._unkept[0]
                to.append(record)
                del self._unkept[0]


def _log_of(audit: AuditLog | str | None) -> tuple[AuditLog | None, bool]:
    """The log, and whether it was asked for: a record that cannot be kept there must not be lost in silence."""
    if audit is None:
        chosen = os.environ.get("METIER_AUDIT")
        return (None, False) if not chosen or chosen.lower() == "off" else (FileLog(chosen), True)
    if isinstance(audit, str | os.PathLike):
        return FileLog(audit), True
    if not callable(getattr(audit, "append", None)):
        raise InvalidArgument(
            f"audit is {type(audit).__name__}.", hint="Give the path of a file, or a log such as MemoryLog()."
        )
    return audit, True
