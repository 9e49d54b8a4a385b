"""Jobs and runners: a program with its limits, its outcome, and the interface of everything that runs one."""

from __future__ import annotations

import os
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from metier._lazy import dataclass, field
from metier.errors import FileMissing, InvalidArgument
from metier.hints import for_anybody

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from metier.errors import MetierError

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

Network: TypeAlias = Literal["none", "restricted", "host"]
"""The reach of a job: nothing, the hosts on a list, or all that this machine reaches."""
KilledBy: TypeAlias = Literal["timeout", "output", "memory", "disk", "processes", "signal", "crash", "cancel"]
"""The reason why a job did not end by itself. `crash` is an interpreter of ours that broke, not the job's program."""

MAX_SECONDS = 600.0
"""The longest time of any job, whatever its limits say."""
TIMED_OUT, CANNOT_START = 124, 127
"""Exit codes of a job that took too long and of one that never began."""

NEEDS = {
    "files": ("isolates_files", "files that it was not given"),
    "network": ("isolates_network", "the network"),
    "hosts": ("filters_hosts", "hosts that are not on its list"),
    "descendants": ("kills_descendants", "leaving processes behind"),
    "memory": ("limits_memory", "using more memory than its limit"),
    "processes": ("limits_processes", "starting more processes than its limit"),
    "disk": ("limits_disk", "filling the disk beyond its limit"),
    "calls": ("filters_calls", "parts of the kernel that no script needs"),
}
"""Requirements on a runner: the capability, and what it keeps a job from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a job."""

    seconds: float = 30.0
    output_bytes: int = 256 * 1024
    """For each of its two streams; the rest is dropped, and a flag says so."""
    memory_bytes: int = 512 * 1024 * 1024
    processes: int = 100
    file_bytes: int = 64 * 1024 * 1024
    """For a single file."""
    disk_bytes: int = 256 * 1024 * 1024
    """For all files that it writes and leaves, temporary ones included."""
    open_files: int = 256

    @property
    def bounded_seconds(self) -> float:
        """The seconds that a job really has."""
        # In this order a limit that is not a number counts as the most there is.
        return max(0.0, min(MAX_SECONDS, self.seconds))


@dataclass(frozen=True, slots=True)
class JobPath:
    """A file or folder of this machine that a job may use.

    >>> JobPath("/project", is_writable=True).seen_at
    '/project'
    """

    path: str
    is_writable: bool = False
    at: str = ""
    """The path under which the job sees it, if not its own; only runners with a filesystem view support that."""
    is_precaution: bool = False
    """Read-only inside a writable place where the runner supports it, and else not: nothing depends on it."""
    is_hidden: bool = False
    """Nothing of it is there for the job, although it lies inside another place."""

    @property
    def seen_at(self) -> str:
        """The path by which the job knows it."""
        return self.at or self.path

    def real_path(self) -> str:
        """The real path; raises for one that is not absolute, and for one that does not exist."""
        if not isinstance(self.path, str) or "\0" in self.path or not os.path.isabs(self.path):
            raise InvalidArgument(
                f"{self.path!r:.80} is no absolute path, so no job can be given it.",
                hint="Name a folder from the root.",
            )
        real = os.path.realpath(self.path)
        if not os.path.exists(real):
            raise FileMissing(
                f"{self.path!r:.200} does not exist, so no job can be given it.",
                hint="Create it first.",
                path=self.path,
            )
        return real


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program with its arguments, never a line for a shell to take apart."""

    argv: tuple[str, ...]
    folder: str
    """The working folder, as the job sees it. It may write there unless `places` say otherwise."""
    env: Mapping[str, str] = field(default_factory=lambda: _NO_VARIABLES)
    """Variables beside the few that every job gets; nothing is inherited."""
    stdin: bytes = b""
    limits: Limits = Limits()
    places: tuple[JobPath, ...] = ()
    """Paths beside the machine's own programs and the working folder; the longest path that fits counts."""
    network: Network = "none"
    hosts: tuple[str, ...] = ()
    """Hosts of a restricted job: `api.example.com`, `*.example.com`, `example.com:8443`. An empty list is nobody."""
    may_reach_private: bool = False
    """Whether these hosts may have addresses of a private network: for hosts that the user's own settings name."""
    grants: tuple[str, ...] = ()
    """The protected names that it may write to in its places, such as `.git`."""
    sandbox: bool = True
    """False asks for no isolation at all; the caller has asked the guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """A line of a job's output, with its line end."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources that a job used, as far as its runner can tell."""

    cpu_ms: float = 0.0
    memory_bytes: int = 0
    """The most at any one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a job.

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
    usage: Usage = Usage()
    contacts: tuple[str, ...] = ()
    """Hosts that a job with a restricted network asked for, and the decision: `api.example.com:443 allowed`."""
    notes: tuple[str, ...] = ()
    """Notes for people, a sentence each: refused requests, and what else they should know."""

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself and reports success."""
        return self.exit_code == 0 and not self.timed_out and self.killed_by is None

    @property
    def is_truncated(self) -> bool:
        """Whether any of its output was dropped."""
        return self.stdout_truncated or self.stderr_truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerCapabilities:
    """Guarantees that a runner really enforces on this machine."""

    isolates_files: bool = False
    """A job reads and writes only what it was given, and the machine's programs."""
    hides_files: bool = False
    """Files that it was not given do not exist for it: they cannot be named, measured or marked either."""
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
    """The means of enforcement, for people."""


class Runner(Protocol):
    """The interface of everything that runs a job."""

    @property
    def name(self) -> str:
        """The name in results and audit records."""
        ...

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees that it enforces here."""
        ...

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked some twenty times a second, and ends it.

        `on_output` gets each line as it comes, in the order in which they were seen, until no more is kept. It may be
        called from another thread.
        """
        ...

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run a job without blocking the event loop; cancelling ends the job and waits until it is dead."""
        return await run_in_thread(self, job, on_output)


def check_needs(required: Collection[str]) -> tuple[str, ...]:
    """The names of requirements; raises `InvalidArgument` for one that does not exist."""
    for name in required:
        if name not in NEEDS:
            raise InvalidArgument(f"Nothing called {name!r} can be required.", hint=f"There is {', '.join(NEEDS)}.")
    return tuple(required)


def missing(job: Job, capabilities: RunnerCapabilities, required: Collection[str] = ()) -> tuple[str, ...]:
    """The requirements of a job that a runner does not meet, by the names of `NEEDS`.

    >>> missing(Job(argv=("true",), folder="/"), RunnerCapabilities(isolates_files=True))
    ('network',)
    """
    needs = {"files", *required}
    if job.network != "host":
        # An empty list is nobody, which is easier to keep than a list.
        needs.add("hosts" if job.network == "restricted" and job.hosts else "network")
    return tuple([name for name in NEEDS if name in needs and not getattr(capabilities, NEEDS[name][0])])


def not_started(error: MetierError, runner: str) -> Outcome:
    """The outcome of a job that an error kept from starting."""
    return Outcome(exit_code=CANNOT_START, stderr=for_anybody(error, error.hint), runner=runner)


async def run_in_thread(runner: Runner, job: Job, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
    """The async `run` of a runner that blocks: cancelling ends the job and waits until it is dead."""
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
        # The first to claim the job has it: given up before its thread began, it never begins.
        if not claimed.acquire(blocking=False):
            with anyio.CancelScope(shield=True):
                while not dead.is_set():
                    await anyio.sleep(0.01)
