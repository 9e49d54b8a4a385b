"""What is to be run, within which limits, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTHING: Mapping[str, str] = MappingProxyType({})

TIMED_OUT, CANNOT_START = 124, 127
"""Exit codes for a job that took too long and for one that never began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a job may use."""

    seconds: float = 30.0
    output_bytes: int = 256 * 1024
    """For each of its two streams; what is more is dropped, and a flag says so."""
    memory_bytes: int = 512 * 1024 * 1024
    processes: int = 100
    file_bytes: int = 64 * 1024 * 1024
    open_files: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program with its arguments, never a line for a shell to take apart."""

    argv: tuple[str, ...]
    folder: str
    """The working folder."""
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Variables beside the few that every job gets; nothing is inherited."""
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job.

    >>> Outcome(exit_code=0, stdout="4\\n", runner="plain").is_success
    True
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    timed_out: bool = False
    killed_by: Literal["timeout", "output", "memory", "signal", "cancel"] | None = None
    duration_ms: float = 0.0
    runner: str = ""

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself and says that all went well."""
        return self.exit_code == 0 and not self.timed_out and self.killed_by is None

    @property
    def is_truncated(self) -> bool:
        """Whether any of its output was dropped."""
        return self.stdout_truncated or self.stderr_truncated
