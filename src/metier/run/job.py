"""What is to be run, within which limits, and what became of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_NOTHING: Mapping[str, str] = MappingProxyType({})

Network: TypeAlias = Literal["none", "restricted", "host"]
"""What a job reaches: nothing, the hosts on a list, or all that this machine reaches."""
KilledBy: TypeAlias = Literal["timeout", "output", "memory", "disk", "processes", "signal", "crash", "cancel"]
"""Why a job did not end by itself. `crash` is an interpreter of ours that broke, and not the job's own program."""

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
    """For a single file."""
    disk_bytes: int = 256 * 1024 * 1024
    """For all that it writes and leaves lying, its temporary files included."""
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder of this machine that a job may use.

    >>> Place("/project", is_writable=True).seen_at
    '/project'
    """

    path: str
    is_writable: bool = False
    at: str = ""
    """Where the job sees it, if not under its own path; only a runner that gives a view of its own can do that."""
    is_precaution: bool = False
    """Read-only inside a writable place where the runner can do that, and else not: nothing depends on it."""
    is_hidden: bool = False
    """Nothing of it is there for the job, although it lies inside another place."""

    @property
    def seen_at(self) -> str:
        """The path by which the job knows it."""
        return self.at or self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program with its arguments, never a line for a shell to take apart."""

    argv: tuple[str, ...]
    folder: str
    """The working folder, as the job sees it. It may write there unless `places` say otherwise."""
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Variables beside the few that every job gets; nothing is inherited."""
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    places: tuple[Place, ...] = ()
    """What it may use beside the machine's own programs and its working folder; the longest path that fits counts."""
    network: Network = "none"
    hosts: tuple[str, ...] = ()
    """Whom a restricted job reaches: `api.example.com`, `*.example.com`, `example.com:8443`. None is nobody."""
    grants: tuple[str, ...] = ()
    """The protected names that it may write to in its places, such as `.git`."""
    sandbox: bool = True
    """False asks for no isolation at all; whoever makes the job has asked the guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line that a job wrote, as it was written; the end of a line is part of it."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a job used, as far as its runner can tell."""

    cpu_ms: float = 0.0
    memory_bytes: int = 0
    """The most at any one time."""


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
    killed_by: KilledBy | None = None
    duration_ms: float = 0.0
    runner: str = ""
    usage: Usage = field(default_factory=Usage)
    contacts: tuple[str, ...] = ()
    """Whom a job with a restricted network asked for, and what came of it: `api.example.com:443 allowed`."""
    notes: tuple[str, ...] = ()
    """What it asked for and did not get, and what else people should know, a sentence each."""

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself and says that all went well."""
        return self.exit_code == 0 and not self.timed_out and self.killed_by is None

    @property
    def is_truncated(self) -> bool:
        """Whether any of its output was dropped."""
        return self.stdout_truncated or self.stderr_truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a runner really enforces on this machine."""

    isolates_files: bool = False
    """A job reads and writes only what it was given, and the machine's programs."""
    hides_files: bool = False
    """What it was not given does not exist for it: not to be named, measured or marked either."""
    isolates_network: bool = False
    """`network="none"` holds."""
    filters_hosts: bool = False
    """`network="restricted"` holds."""
    isolates_processes: bool = False
    """It neither sees nor signals any process but its own."""
    kills_descendants: bool = False
    """Nothing that it started outlives it."""
    limits_memory: bool = False
    limits_processes: bool = False
    limits_disk: bool = False
    filters_calls: bool = False
    """It has no way to the parts of the kernel that no script needs."""
    how: str = ""
    """By what means, for people."""


class Runner(Protocol):
    """Whatever runs a job."""

    @property
    def name(self) -> str:
        """What results and audit records call it."""
        ...

    def capabilities(self) -> Capabilities:
        """What it enforces here."""
        ...

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked now and then, and ends it.

        `on_output` is told each line as it comes, in the order in which they were seen, until no more is kept. It may
        be called from another thread.
        """
        ...

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run a job without holding up the event loop; cancelling ends the job, with all it started."""
        ...


async def run_in_thread(runner: Runner, job: Job, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
    """Run a job without holding up the event loop; cancelling ends the job and waits until it is dead."""
    import anyio
    import anyio.to_thread

    stop, dead, claimed = threading.Event(), threading.Event(), threading.Lock()

    def run() -> Outcome:
        if not claimed.acquire(blocking=False):
            return Outcome(exit_code=CANNOT_START, killed_by="cancel", runner=runner.name)
        try:
            return runner.run_blocking(job, should_stop=stop.is_set, on_output=on_output)
        finally:
            dead.set()

    try:
        # A limiter of its own: a job that takes minutes must not keep others from the threads that all share.
        limiter = anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
    finally:
        stop.set()
        # Whoever claims the job first has it: given up before its thread began, it never begins.
        if not claimed.acquire(blocking=False):
            with anyio.CancelScope(shield=True):
                while not dead.is_set():
                    await anyio.sleep(0.01)
