"""The seam between whoever decides that something runs and whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a runner really enforces on this machine."""

    isolates_files: bool = False
    isolates_network: bool = False
    kills_descendants: bool = False
    limits_memory: bool = False
    limits_processes: bool = False


class Runner(Protocol):
    """Whatever runs a job."""

    @property
    def name(self) -> str:
        """What results and audit records call it."""
        ...

    def capabilities(self) -> Capabilities:
        """What it enforces here."""
        ...

    def run_blocking(self, job: Job, *, should_stop: Callable[[], bool] | None = None) -> Outcome:
        """Run a job to its end; `should_stop` is asked now and then, and ends it."""
        ...

    async def run(self, job: Job) -> Outcome:
        """Run a job without holding up the event loop; cancelling ends the job, with all it started."""
        ...
