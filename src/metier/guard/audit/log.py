"""Audit records, the logs that keep them, and the recorder that writes each record to the right logs."""

from __future__ import annotations

import contextlib
import errno
import json
import operator
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

from metier import _telemetry
from metier._cache import BoundedCache
from metier._lazy import dataclass, fields, logger
from metier.errors import AuditUnavailable, InvalidArgument, MetierError
from metier.guard.audit.redaction import redact, redact_value
from metier.guard.decision import Actor, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from metier.guard.decision import Decision

log = logger("metier.guard")

_FAMILIES = {
    "load": ("skill", "activated"),
    "unload": ("skill", "deactivated"),
    "answer": ("tool", "agreed"),
    "call": ("tool", "called"),
    "read": ("resource", "read"),
    "run": ("script", "run"),
    "hook": ("hook", "run"),
    "inject": ("inject", "run"),
}
"""The subject and the participle of the record type, by decision point."""
POINTS = frozenset(_FAMILIES)
"""The events of a session; all others are governance events."""
_MAX_PENDING = 1_000
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One decision: the action, the actor, the outcome with its reason, and the result."""

    timestamp: str
    """In UTC, ISO 8601."""
    event: str
    """`load`, `unload`, `call`, `read`, `run`, `hook` or `inject`; for a governance event, the subject of its type."""
    decision: str
    """`allow`, `ask` (nobody was there to agree) or `deny`."""
    reason: str
    type: str = ""
    """The type of event, such as `skill.activated` or `approval.granted`; derived from the other fields by default."""
    rule: str = ""
    code: str = ""
    """The error code of a failure."""
    would: str = ""
    """The outcome in enforce mode, `ask` or `deny`, where policy only audits."""
    policy: str = ""
    """The digest of the policy that was in force."""
    skill: str = ""
    source: str = ""
    """The source of the skill: with its name, `name@source` identifies it."""
    digest: str = ""
    new_digest: str = ""
    """The digest of the content that replaced it."""
    layer: str = ""
    active: tuple[str, ...] = ()
    """The skills that were active: for a tool call, and after a load, which moved its own behind those before it."""
    skills: tuple[str, ...] = ()
    """The active skills as `name@source#` and the beginning of the digest of each."""
    tool: str = ""
    path: str = ""
    command: str = ""
    arguments: str = ""
    """The arguments of a tool call as JSON, secrets redacted, shortened."""
    basis: tuple[str, ...] = ()
    """The facts beyond other fields that the guard decided on: `workspace /srv/site`; empty where it did not decide."""
    by: str = ""
    answered_by: str = ""
    """The source of the approving answer: `terminal`, `client:NAME over elicitation` or `program`."""
    trigger: str = ""
    """The trigger: `user`, `model`, `nested` (another skill), `host` (the program around them) or `client` (a
    client's program, which says that it speaks for a user)."""
    environment: str = ""
    agent: str | None = None
    task: str | None = None
    tenant: str | None = None
    user: str | None = None
    session: str | None = None
    correlation_id: str | None = None
    parent: str | None = None
    """The session that started this one, for an agent that another one started."""
    model: str | None = None
    """The model whose answer asked for it, where that is known."""
    tokens_in: int | None = None
    """The tokens that answers of the model read since the record before that tells of any, where that is known."""
    tokens_out: int | None = None
    """The tokens that these answers have."""
    found: int | None = None
    """The number of skills that a search found."""
    success: bool | None = None
    exit_code: int | None = None
    output: str = ""
    """The output, redacted and shortened, as far as policy keeps it."""
    output_digest: str = ""
    """The digest of the whole output."""
    duration_ms: float = 0.0
    runner: str = ""
    """The runner of the script."""
    network: str = ""
    """The network access: `none`, `restricted` or `host`."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that it was given."""
    contacts: tuple[str, ...] = ()
    """The hosts requested over a restricted network, each with the result."""
    notes: tuple[str, ...] = ()
    """Requests that were not granted, and other remarks for people."""
    request: str = ""
    """The approval request that it led to, or that was decided."""
    approval: str = ""
    """The approval that was granted, that lapsed or that was revoked."""
    terms: str = ""
    """The digest of the terms of an approval or a token: a row of the store counts only with matching terms."""
    proposal: str = ""
    """The proposal that it is about."""

    def __post_init__(self) -> None:
        if not self.type:
            object.__setattr__(self, "type", type_of(self.event, self.decision, self.success))

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON values, redacted; unknown fields are left out."""
        known = {
            name: value for name, value in zip(_NAMES, _VALUES(self), strict=True) if value or value not in _UNKNOWN
        }
        # One pass over all texts that are new: most records hold no secret, and repeat much of the one before.
        try:
            fresh = [value for value in known.values() if isinstance(value, _TEXTS) and value not in _PLAIN]
        except TypeError:
            return redact_value(known)  # type: ignore[no-any-return]  # a tuple of something that has no hash
        return known if _keep_plain(dict.fromkeys(fresh)) else redact_value(known)

    def as_line(self) -> bytes:
        """Return the record as one line of JSON."""
        parts: list[str] = []
        fresh: dict[str | tuple[Any, ...], str | None] = {}
        try:
            for name, value in zip(_NAMES, _VALUES(self), strict=True):
                if not value and value in _UNKNOWN:
                    continue
                form = _PLAIN.get(value)
                if form is None:
                    form = _encode_value(value)
                    if isinstance(value, _TEXTS):
                        fresh[value] = form
                parts.append(f'"{name}":{form}')
            is_plain = _keep_plain(fresh)
        except TypeError:  # a tuple of something that has no hash
            is_plain = False
        return (f"{{{','.join(parts)}}}" if is_plain else _ENCODE(self.as_dict())).encode() + b"\n"


_NAMES = tuple(one.name for one in fields(AuditRecord))
_VALUES = operator.attrgetter(*_NAMES)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_UNKNOWN = ("", None, ())
_TEXTS = (str, tuple)
_PLAIN: BoundedCache[str | tuple[str, ...], str] = BoundedCache(2_000)
"""The JSON of short texts of records, and of tuples of them, that were found to hold no secret."""
_SHORT = 400
_LONGEST_MS = 1e15


_ACTOR = tuple(one.name for one in fields(Actor))
_ACTOR_VALUES = operator.attrgetter(*_ACTOR)


def actor_fields(actor: Actor) -> dict[str, Any]:
    """Return the fields of a record that say who acts."""
    found = dict(zip(_ACTOR, _ACTOR_VALUES(actor), strict=True))
    found["environment"] = actor.environment or ""
    return found


def _encode_value(value: Any) -> str:
    """Return the JSON of a value, for those numbers that records mostly have without an encoder made for it."""
    if value is True or value is False:
        return "true" if value else "false"
    return repr(value) if type(value) is float and 0 <= value < _LONGEST_MS else _ENCODE(value)


def _keep_plain(fresh: Mapping[str | tuple[Any, ...], str | None]) -> bool:
    """Return whether texts, with their JSON where that is known, hold no secret; then the short ones are kept."""
    text = "\n".join(["\n".join(map(str, value)) if isinstance(value, tuple) else value for value in fresh])
    if redact(text) != text:
        return False
    for value, form in fresh.items():
        if _is_short(value):
            _PLAIN[value] = form or _ENCODE(value)
    return True


def _is_short(value: str | tuple[Any, ...]) -> bool:
    """Return whether a text, or a tuple of nothing but texts, is short enough to be kept in a cache."""
    if isinstance(value, str):
        return len(value) <= _SHORT
    return all(type(one) is str for one in value) and sum(map(len, value)) <= _SHORT


def type_of(event: str, decision: str, success: bool | None = None) -> str:
    """Return the type of a record of a decision.

    >>> type_of("load", "allow"), type_of("call", "deny"), type_of("run", "ask")
    ('skill.activated', 'tool.denied', 'script.asked')
    >>> type_of("load", "allow", success=False)
    'skill.failed'
    """
    subject, happened = _FAMILIES.get(event, (event, "done"))
    if decision != "allow":
        return f"{subject}.{'asked' if decision == 'ask' else 'denied'}"
    # A tool or a script that failed was still called; a skill that could not be loaded was never active.
    return "skill.failed" if event == "load" and success is False else f"{subject}.{happened}"


class AuditLog(Protocol):
    """A destination of audit records."""

    def append(self, record: AuditRecord) -> None:
        """Keep a record; raises `AuditUnavailable` when it cannot be kept."""
        ...


class MemoryLog:
    """Records in memory, for tests and for programs that look at them at once.

    >>> MemoryLog().records
    []
    """

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def append(self, record: AuditRecord) -> None:
        """Keep a record."""
        self.records.append(record)


class FileLog:
    """Records in a file, a line of JSON each, which any number of processes may append to."""

    def __init__(self, path: Path | str) -> None:
        self._file: int | None = None
        self._opening = threading.Lock()
        self._is_torn = False
        self.path = os.fspath(path)

    def prepare(self) -> None:
        """Open the file; raises `AuditUnavailable` when no record could be written to it."""
        try:
            self._descriptor()
        except OSError as error:
            raise self._unavailable(error) from None

    def append(self, record: AuditRecord) -> None:
        """Write a record at the end of the file, in one piece."""
        line = record.as_line()
        if self._is_torn:
            line = b"\n" + line
        try:
            # Appending in one write is what keeps the lines of several processes apart.
            written = os.write(self._descriptor(), line)
            self._is_torn = written != len(line) if written else self._is_torn
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: OSError) -> AuditUnavailable:
        return AuditUnavailable(
            f"The audit log {self.path} cannot be written: {error.strerror}.",
            hint="Check the disk and the permissions, or set METIER_AUDIT to another file.",
            path=self.path,
        )

    def _descriptor(self) -> int:
        # A forked process may keep using the descriptor: appends do not share a position.
        file = self._file
        if file is not None and self._is_in_place(file):
            return file
        with self._opening:
            if self._file is None:
                self._file = self._open()
            elif not self._is_in_place(self._file):
                # The file was moved or removed: records must not go where nobody looks. The number of the descriptor
                # stays the same, because another thread may be writing to it.
                opened = self._open()
                os.dup2(opened, self._file, inheritable=False)
                os.close(opened)
            return self._file

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self.path) or ".", mode=0o700, exist_ok=True)
        return os.open(self.path, _FLAGS, 0o600)

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._opening:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        # Without the lock, which a forked process could find held.
        if self._file is not None:
            os.close(self._file)
            self._file = None


class RecordingTerms(Protocol):
    """The part of governance that decides where records go."""

    @property
    def insists_on_records(self) -> bool:
        """Whether nothing may happen that cannot be recorded."""

    @property
    def log(self) -> AuditLog | None:
        """The audit log in the store."""


class Recorder:
    """Writes the records of one guard to its logs, and retries the records that could not be written."""

    def __init__(self, audit: AuditLog | str | None, governance: RecordingTerms) -> None:
        """`audit` is a log or the path of one; without it, METIER_AUDIT names a file, and else the store is the log."""
        self._chosen = _chosen_log(audit)
        self._by_default = audit is None and not os.environ.get("METIER_AUDIT")
        self._governance = governance
        self._pending: list[tuple[AuditLog, AuditRecord]] = []
        self._late: list[AuditLog] = []
        self._queueing: list[AuditLog] = []
        """The logs that have ever queued a record."""
        self._is_ready = False
        self._writing = threading.Lock()

    @property
    def file(self) -> str | None:
        """The chosen log file, if the log is one."""
        return os.path.abspath(self._chosen.path) if isinstance(self._chosen, FileLog) else None

    @property
    def _insists(self) -> bool:
        """Whether nothing may happen unrecorded: somebody chose the log, or an administrator's policy is in force."""
        return self._chosen is not None or self._governance.insists_on_records

    @property
    def _logs(self) -> tuple[AuditLog, ...]:
        """The logs of a record: no program and no variable keeps it from the log that an administrator relies on."""
        found = () if self._chosen is None else (self._chosen,)
        if self._by_default or self._governance.insists_on_records:
            store_log = self._governance.log
            if store_log is not None and store_log is not self._chosen:
                found = (*found, store_log)
        return found

    def record(self, record: AuditRecord) -> None:
        """Add a record to the logs, and measure it where there is telemetry."""
        if _telemetry.is_measuring() or _telemetry.current_call() is not None:
            from metier.guard.audit.telemetry import measure_record

            measure_record(record)
        for one in self._logs:
            try:
                one.append(record)
                if getattr(one, "is_behind", False):
                    for logs in (self._late, self._queueing):
                        if one not in logs:
                            logs.append(one)
            except Exception as error:
                self._postpone(one, record, error)

    def _postpone(self, to: AuditLog, record: AuditRecord, error: Exception) -> None:
        with self._writing:
            if not self._pending:
                hint = error.hint if isinstance(error, MetierError) else "Nothing is recorded until it works again."
                log.warning("A record could not be kept. %s %s", error, hint)
            # A refusal for want of a log is not worth keeping without end.
            if not self._pending or (self._insists and len(self._pending) < _MAX_PENDING):
                self._pending.append((to, record))

    @property
    def is_behind(self) -> bool:
        """Whether records must be written before anything else happens, which may take a while."""
        return bool(self._pending or self._late) and self._insists

    @property
    def has_queued(self) -> bool:
        """Whether records wait in the queue of a log, because others were writing."""
        return any(one.is_behind for one in self._queueing)  # type: ignore[attr-defined]

    def catch_up(self) -> None:
        """Write the records that wait in the queue of a log, as far as that can be done."""
        for one in self._queueing:
            with contextlib.suppress(Exception):
                one.catch_up()  # type: ignore[attr-defined]

    def unrecorded(self) -> Decision | None:
        """Return a denial of everything while a log that must be written cannot be."""
        if (self._is_ready and not self._pending and not self._late) or not self._insists:
            return None
        with contextlib.suppress(Exception):
            self._write_pending()
            return None
        return refuse(
            "audit",
            "The audit log cannot be written, and nothing may happen unrecorded.",
            code="audit-unavailable",
            hint="Check the disk and the permissions of the audit log.",
        )

    def _write_pending(self) -> None:
        """Write the pending records; raises where that is not possible."""
        late, self._late = self._late, []
        try:
            for one in late:  # outside of the lock, which an event loop may wait for
                catch_up: Callable[[], None] = one.catch_up  # type: ignore[attr-defined]
                catch_up()
        except BaseException:
            self._late += late
            raise
        with self._writing:
            if not self._is_ready:
                for one in self._logs:
                    prepare = getattr(one, "prepare", None)
                    if prepare is not None:
                        prepare()
            self._is_ready = True
            while self._pending:
                to, record = self._pending[0]
                to.append(record)
                del self._pending[0]


def _chosen_log(audit: AuditLog | str | None) -> AuditLog | None:
    """Return the log that somebody chose, if anybody did: such a log must not lose a record in silence."""
    if audit is None:
        chosen = os.environ.get("METIER_AUDIT")
        return None if not chosen or chosen.lower() == "off" else FileLog(chosen)
    if isinstance(audit, str | os.PathLike):
        return FileLog(audit)
    if not callable(getattr(audit, "append", None)):
        raise InvalidArgument(
            f"audit is {type(audit).__name__}.", hint="Give the path of a file, or a log such as MemoryLog()."
        )
    return audit


_TOLD_NOTES = ("tried ", "successor ", "Unsigned: ", "Another signer: ", "Findings accepted: ")
"""How notes begin that whoever reads the log is told: attempts, and exceptions that somebody made."""


def object_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the object of a record beside its skill, and its reason where that adds something.

    >>> object_of({"type": "person.added", "event": "person", "decision": "allow", "reason": "ada (user): reviewer"})
    ('', 'ada (user): reviewer')
    >>> object_of({"event": "call", "decision": "allow", "tool": "Read", "reason": "Nothing is against it."})
    ('Read', '')
    >>> object_of({"type": "skill.installed", "event": "skill", "reason": "From afar.", "notes": ["Unsigned: mine"]})
    ('', 'From afar. (Unsigned: mine)')
    >>> object_of({"type": "skill.yanked", "event": "skill", "path": "/srv", "notes": ["version 1.5"]})
    ('/srv', '(version 1.5)')
    """
    from metier.store.audit_log import skill_ref  # those who only write records to a file need no store

    # The object of a governance event is in its ids and its reason: the person added, the request decided.
    is_governance = str(record.get("event")) not in POINTS
    names = ("proposal", "request", "approval", "tool", "path") if is_governance else ("tool", "path", "command")
    found = [str(record[name]) for name in names if record.get(name)]
    is_plain = record.get("decision") == "allow" and not record.get("would")
    is_known = is_plain and not is_governance and bool(found or skill_ref(record))
    reason = "" if is_known else str(record.get("reason") or record.get("unreadable") or "")
    notes = record.get("notes")
    wanted = (*_TOLD_NOTES, "version ") if str(record.get("type")).endswith("yanked") else _TOLD_NOTES
    told = [str(note) for note in notes if str(note).startswith(wanted)] if isinstance(notes, list | tuple) else []
    return " ".join(found if is_governance else found[:1]), " ".join(
        part for part in (reason, *(f"({note})" for note in told)) if part
    )
