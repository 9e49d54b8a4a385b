"""The audit trail: one record for everything that was decided, as a line of JSON."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from metier.errors import AuditUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What was wanted, by whom, what was decided and why, and how it ended."""

    timestamp: str
    """In UTC, ISO 8601."""
    event: str
    """`load`, `unload`, `call`, `read`, `run`, `hook` or `inject`."""
    decision: str
    """`allow`, `ask` (nobody was there to agree) or `deny`."""
    reason: str
    rule: str = ""
    code: str = ""
    """What went wrong, when something did."""
    skill: str = ""
    digest: str = ""
    layer: str = ""
    active: tuple[str, ...] = ()
    """The skills that were active, for a tool call."""
    tool: str = ""
    path: str = ""
    command: str = ""
    arguments: str = ""
    """The arguments of a tool call as JSON, secrets redacted, shortened."""
    by: str = ""
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

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON holds it; what is not known is left out."""
        found = {name: getattr(self, name) for name in _NAMES}
        return {name: value for name, value in found.items() if value not in (None, "", ())}

    def as_line(self) -> bytes:
        """The record as one line of JSON."""
        return json.dumps(self.as_dict(), separators=(",", ":")).encode() + b"\n"


_NAMES = tuple(field.name for field in fields(AuditRecord))


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


def default_audit_file(environ: Mapping[str, str] = os.environ) -> str | None:
    """Where the trail is kept: `$METIER_AUDIT`, else the user's state folder; nowhere when that is `off`."""
    chosen = environ.get("METIER_AUDIT")
    if chosen:
        return None if chosen.lower() == "off" else chosen
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(environ.get("LOCALAPPDATA") or home, "metier", "audit.jsonl")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Logs", "metier", "audit.jsonl")
    return os.path.join(environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state"), "metier", "audit.jsonl")
