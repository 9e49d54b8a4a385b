"""The session's runner as somebody else sees it who makes jobs: the Bash tool, hooks, programs of the virtual shell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.hints import for_anybody
from metier.run.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import Job, OutputLine, RunnerCapabilities
    from metier.session.job_sandbox import JobSandbox, SandboxedJob

_CANNOT_EXECUTE = 126
"""The exit code of a shell for a program that it cannot start."""


class SandboxedRunner:
    """The session's runner for jobs that somebody else makes: each is completed, or refused, right before it runs."""

    def __init__(self, sandbox: JobSandbox, sandboxed: Callable[[Job], SandboxedJob], *, answers: bool = False) -> None:
        """With `answers`, a refusal is an outcome, as a shell has it for programs that it cannot start."""
        self._sandbox = sandbox
        self._sandboxed = sandboxed
        self._answers = answers

    @property
    def name(self) -> str:
        """The name in results and audit records."""
        return self._sandbox.runner.name

    def capabilities(self) -> RunnerCapabilities:
        """The capabilities of the session's runner."""
        return self._sandbox.runner.capabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end."""
        try:
            return self._sandboxed(job).run_blocking(on_output, should_stop)
        except MetierError as error:
            return self._answer(job, error)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run a job without holding up the event loop."""
        # Copies are verified and the workspace is looked through, and somebody may be asked.
        try:
            sandboxed = await self._sandbox.context.guard.in_thread(self._sandboxed, job)
            return await sandboxed.run(on_output)
        except MetierError as error:
            return self._answer(job, error)

    def _answer(self, job: Job, error: MetierError) -> Outcome:
        """Return a refusal as an outcome, or raise it where nobody asked for answers."""
        if not self._answers:
            raise error
        text = f"{os.path.basename(job.argv[0])}: {for_anybody(error, error.hint)}\n"
        return Outcome(exit_code=_CANNOT_EXECUTE, stderr=text, runner=self.name)
