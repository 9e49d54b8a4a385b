"""The seam between whoever decides that something runs and whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import Job, Outcome, OutputLine


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
