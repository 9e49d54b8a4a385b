"""Which runner runs a job: the strongest one here that keeps the job from what it must be kept from."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, IsolationMissing
from metier.hints import for_people
from metier.run.plain import PlainRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from metier.run.job import Capabilities, Job, Outcome, OutputLine, Runner
    from metier.run.virtual import VirtualRunner

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
"""What can be required of a runner: the capability, and what it keeps a job from."""

WHAT_TO_DO = for_people(
    "On Linux, allow user namespaces or Landlock, or install bubblewrap; shell scripts alone can run in the virtual "
    "shell: pip install 'metier[shell]'. `metier doctor` shows what this machine can enforce.",
    model="Tell the user that nothing here can isolate it.",
)


def checked_needs(required: Collection[str]) -> tuple[str, ...]:
    """The names of what is required; raises for one that does not exist."""
    for name in required:
        if name not in NEEDS:
            raise InvalidArgument(f"Nothing called {name!r} can be required.", hint=f"There is {', '.join(NEEDS)}.")
    return tuple(required)


def missing(job: Job, capabilities: Capabilities, required: Collection[str] = ()) -> tuple[str, ...]:
    """What a job needs and a runner does not do, by the names of `NEEDS`.

    >>> from metier.run import Capabilities, Job
    >>> missing(Job(argv=("true",), folder="/"), Capabilities(isolates_files=True))
    ('network',)
    """
    needs = {"files", *required}
    if job.network != "host":
        # An empty list is nobody, which is easier to keep than a list.
        needs.add("hosts" if job.network == "restricted" and job.hosts else "network")
    return tuple(name for name in NEEDS if name in needs and not getattr(capabilities, NEEDS[name][0]))


class AutoRunner:
    """Runs each job by the strongest of the runners here.

    A job goes to the native runner. Where there is none, or one that hides less than the virtual shell does, a script
    that needs nothing but a shell goes there. Only a job that asks for no sandbox runs as a plain process: whoever
    makes such a job has asked the guard. `required` are more of the names of `NEEDS` that must hold.
    """

    def __init__(self, *, required: Collection[str] = ()) -> None:
        self._required = checked_needs(required)
        self._lock = threading.Lock()
        self._plain = PlainRunner()
        self._native: Runner | None = None
        self._virtual: VirtualRunner | None = None

    @property
    def name(self) -> str:
        """What it is called until it has chosen."""
        return "auto"

    @property
    def native(self) -> Runner:
        """The sandbox of this operating system, whatever it can do here."""
        with self._lock:
            if self._native is None:
                self._native = native_runner()
            return self._native

    @property
    def virtual(self) -> VirtualRunner:
        """The virtual shell, whether it is installed or not."""
        native = self.native
        with self._lock:
            if self._virtual is None:
                from metier.run.virtual import VirtualRunner

                self._virtual = VirtualRunner(native=native)
            return self._virtual

    def capabilities(self) -> Capabilities:
        """What holds for a job in a sandbox here."""
        return self.native.capabilities()

    def choose(self, job: Job) -> Runner:
        """The runner for a job; raises `IsolationMissing` with what nothing here can keep it from."""
        if not job.sandbox:
            return self._plain
        native = self.native
        enforced = native.capabilities()
        lacking = missing(job, enforced, self._required)
        if lacking or not enforced.hides_files:
            virtual = self.virtual
            if not missing(job, virtual.capabilities(), self._required) and virtual.runs(job):
                return virtual
        if not lacking:
            return native
        raise IsolationMissing(
            f"Nothing here can keep this job from {' or '.join(NEEDS[name][1] for name in lacking)}.",
            hint=WHAT_TO_DO,
            missing=list(lacking),
        )

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Choose, and run there."""
        return self.choose(job).run_blocking(job, should_stop=should_stop, on_output=on_output)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Choose, and run there."""
        from anyio.to_thread import run_sync

        # Finding out what this machine can do takes a moment, the first time.
        runner = await run_sync(self.choose, job)
        return await runner.run(job, on_output=on_output)


def native_runner() -> Runner:
    """The sandbox of this operating system; on one that has none, a runner that enforces nothing."""
    if sys.platform == "darwin":
        from metier.run.seatbelt import SeatbeltRunner

        return SeatbeltRunner()
    from metier.run.native import NativeRunner

    return NativeRunner()
