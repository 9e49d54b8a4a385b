"""Selection of the runner for a job: the strongest one here that keeps the job from what it must be kept from."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from metier.errors import IsolationMissing
from metier.hints import NO_ISOLATION
from metier.run.job import NEEDS, check_needs, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from metier.run.job import Job, Outcome, OutputLine, Runner, RunnerCapabilities
    from metier.run.virtual.runner import VirtualRunner


class AutoRunner:
    """Runs each job by the strongest of the runners here.

    A job goes to the native runner. Where there is none, or one that hides less than the virtual shell does, a script
    that needs nothing but a shell goes there. Only a job that asks for no sandbox runs as a plain process: the maker of
    such a job has asked the guard. `required` are more of the names of `NEEDS` that must hold.
    """

    def __init__(self, *, required: Collection[str] = ()) -> None:
        self._required = check_needs(required)
        self._lock = threading.Lock()
        self._native: Runner | None = None
        self._virtual: VirtualRunner | None = None

    @property
    def name(self) -> str:
        """The name before a runner is selected."""
        return "auto"

    @property
    def native(self) -> Runner:
        """The sandbox of this operating system, whatever it can do here."""
        with self._lock:
            if self._native is None or getattr(self._native, "is_outdated", False):
                self._native, self._virtual = native_runner(), None
            return self._native

    @property
    def virtual(self) -> VirtualRunner:
        """The virtual shell, whether it is installed or not."""
        native = self.native
        with self._lock:
            if self._virtual is None:
                from metier.run.virtual.runner import VirtualRunner

                self._virtual = VirtualRunner(native=native)
            return self._virtual

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees for a job in a sandbox here."""
        return self.native.capabilities()

    def choose(self, job: Job) -> Runner:
        """The runner for a job; raises `IsolationMissing` with what nothing here can keep it from."""
        if not job.sandbox:
            from metier.run.plain import PlainRunner

            return PlainRunner()
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
            hint=NO_ISOLATION,
            missing=list(lacking),
        )

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Select a runner, and run the job there."""
        return self.choose(job).run_blocking(job, should_stop=should_stop, on_output=on_output)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Select a runner, and run the job there."""
        from anyio.to_thread import run_sync

        # Finding out what this machine can do takes a moment, the first time.
        runner = await run_sync(self.choose, job)
        return await runner.run(job, on_output=on_output)


def native_runner() -> Runner:
    """The sandbox of this operating system; on one that has none, a runner that enforces nothing."""
    if sys.platform == "darwin":
        from metier.run.seatbelt import SeatbeltRunner

        return SeatbeltRunner()
    from metier.run.native.runner import NativeRunner

    return NativeRunner()
