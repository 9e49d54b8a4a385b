"""The asynchronous face of a runner whose work is done by a thread that waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from metier.run.job import CANNOT_START, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import Job, OutputLine
    from metier.run.runner import Runner


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
