"""The audit trail: one record for everything that was decided or changed, and the simplest places to keep it."""

from __future__ import annotations

import errno
import json
import operator
import os
import threading
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from metier.errors import AuditUnavailable
from metier.guard.audit.redaction import redact, redact_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from metier.guard.decision import Actor

_FAMILIES = {
    "load": ("skill", "activated"),
    "unload": ("skill", "deactivated"),
    "call": ("tool", "called"),
    "read": ("resource", "read"),
    "run": ("script", "run"),
    "hook": ("hook", "run"),
    "inject": ("inject", "run"),
}
"""What a decision point is about, and what it is called when it happened."""
POINTS = frozenset(_FAMILIES)
"""The events of a session; all others are what people do."""
_REFUSING = (".denied", ".refused", ".rejected", ".failed")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What was wanted, by whom, what was decided and why, and how it ended."""

    timestamp: str
    """In UTC, ISO 8601."""
    event: str
    """`load`, `unload`, `call`, `read`, `run`, `hook` or `inject`; for what people do, the subject of its type."""
    decision: str
    """`allow`, `ask` (nobody was there to agree) or `deny`."""
    reason: str
    type: str = ""
    """What happened, such as `skill.activated` or `approval.granted`; told by the rest unless it is given."""
    rule: str = ""
    code: str = ""
    """What went wrong, when something did."""
    would: str = ""
    """What would have been decided if policy did more than watch: `ask` or `deny`."""
    policy: str = ""
    """The digest of the policy that was in force."""
    skill: str = ""
    source: str = ""
    """Where the skill comes from: with its name, `name@source` says which one it is."""
    digest: str = ""
    new_digest: str = ""
    """The digest of the content that took its place, where that is what happened."""
    layer: str = ""
    active: tuple[str, ...] = ()
    """The skills that were active, for a tool call."""
    skills: tuple[str, ...] = ()
    """Which ones these were: `name@source#` and the beginning of the digest of each."""
    tool: str = ""
    path: str = ""
    command: str = ""
    arguments: str = ""
    """The arguments of a tool call as JSON, secrets redacted, shortened."""
    by: str = ""
    answered_by: str = ""
    """Where the yes came from that allowed it: `terminal`, `client:NAME over elicitation` or `program`."""
    trigger: str = ""
    """What set it off: `user`, `model`, `nested` (another skill), `host` (the program around them) or `client` (a
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
    success: bool | None = None
    exit_code: int | None = None
    output: str = ""
    """What it wrote, without secrets and shortened, as far as policy wants it kept."""
    output_digest: str = ""
    """The digest of all that it wrote."""
    duration_ms: float = 0.0
    runner: str = ""
    """What ran it."""
    network: str = ""
    """What it could reach: `none`, `restricted` or `host`."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that it was given."""
    contacts: tuple[str, ...] = ()
    """Whom it asked for where its network was restricted, each with what came of it."""
    notes: tuple[str, ...] = ()
    """What it asked for and did not get, and what else people should know of it."""
    request: str = ""
    """The request for an approval that it led to, or that was decided about."""
    approval: str = ""
    """The approval that was given, that fell or that was taken back."""
    terms: str = ""
    """The digest of all that an approval or a token is given: what the store says of it counts by that."""
    proposal: str = ""
    """The proposal that it is about."""

    def __post_init__(self) -> None:
        if not self.type:
            object.__setattr__(self, "type", type_of(self.event, self.decision, self.success))

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, without secrets; what is not known is left out."""
        known = {name: value for name, value in zip(_NAMES, _VALUES(self), strict=True) if value not in _NOTHING}
        # Once over all of it: most records hold no secret, and looking at each value costs ten times as much.
        text = "\n".join(_texts(known.values()))
        return known if redact(text) == text else redact_value(known)

    def as_line(self) -> bytes:
        """The record as one line of JSON."""
        return json.dumps(self.as_dict(), separators=(",", ":")).encode() + b"\n"


_NAMES = tuple(field.name for field in fields(AuditRecord))
_VALUES = operator.attrgetter(*_NAMES)
_NOTHING = (None, "", ())


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from map(str, value)


def type_of(event: str, decision: str, success: bool | None = None) -> str:
    """What a record of a decision is called.

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


def governance_record(
    type: str,  # noqa: A002
    *,
    actor: Actor,
    skill: str = "",
    digest: str = "",
    reason: str = "",
    **more: Any,
) -> AuditRecord:
    """A record of what people did about skills, such as `approval.granted`; `more` are other fields of the record.

    >>> from metier.guard import Actor
    >>> record = governance_record("approval.denied", actor=Actor(user="sam"), skill="pdf@acme", reason="Not yet.")
    >>> record.decision, record.user, record.event
    ('deny', 'sam', 'approval')
    """
    given: dict[str, Any] = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": type.partition(".")[0],
        "decision": "deny" if type.endswith(_REFUSING) else "allow",
        "agent": actor.agent,
        "task": actor.task,
        "tenant": actor.tenant,
        "environment": actor.environment or "",
        "user": actor.user,
        "session": actor.session,
        "correlation_id": actor.correlation_id,
        "parent": actor.parent,
        "model": actor.model,
    }
    return AuditRecord(type=type, skill=skill, digest=digest, reason=reason, **{**given, **more})


class AuditLog(Protocol):
    """Wherever records go."""

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
    """Records in a file, a line of JSON each. Any number of processes may write to the same one."""

    def __init__(self, path: Path | str) -> None:
        self._file: int | None = None
        self.path = os.fspath(path)
        self._is_torn = False
        self._opening = threading.Lock()

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
        # A process that was forked has the descriptor too, and may keep using it: appends do not share a position.
        file = self._file
        if file is not None and self._is_in_place(file):
            return file
        with self._opening:
            if self._file is None:
                self._file = self._open()
            elif not self._is_in_place(self._file):
                # Moved or removed: records must not go where nobody looks. The number stays the same, because
                # another thread may be writing to it.
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
        if self._file is not None:
            os.close(self._file)
            self._file = None
