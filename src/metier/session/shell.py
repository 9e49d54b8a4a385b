"""The virtual shell of a session: files in memory, a bash interpreter over them, and the skills among them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from typing import TYPE_CHECKING

from metier.errors import MetierError, ShellRefused
from metier.hints import for_anybody
from metier.run import Outcome
from metier.run.job import run_in_thread
from metier.session.skill_mounts import SkillMounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run import Capabilities, Job, Runner
    from metier.run.job import OutputLine
    from metier.run.virtual import VirtualShell
    from metier.session.state import State
    from metier.session.vocabulary import Vocabulary


_CANNOT_EXECUTE = 126


def is_installed() -> bool:
    """Whether what the virtual shell needs is here: `pip install 'metier[shell]'`."""
    return importlib.util.find_spec("bashkit") is not None


class SessionShell:
    """One session's shell: made when it is first used, and kept with all that is in it until the session ends.

    Programs that are no part of the shell, such as `python3`,
    are handed to the session's runner, if policy lets them run there.
    """

    def __init__(self, session: State) -> None:
        self._session = session
        self._shell: VirtualShell | None = None
        self._mounts: SkillMounts | None = None
        self._lock = threading.RLock()

    def get(self, words: Vocabulary | None = None) -> VirtualShell:
        """The shell, with the skills in it; raises `ShellUnavailable` where there can be none.

        `words` are those of the model that it is for.
        """
        self._session.require_open()
        with self._lock:
            if self._shell is None or self._mounts is None:
                from metier.run.virtual import VirtualShell

                native = _Handover(self._session.cage.runner_for_commands(have_places=True))
                self._shell = VirtualShell(mount=self._session.options.mount, native=native, before=self._open)
                self._mounts = SkillMounts(self._session, self._shell)
            self._mounts.follow(words)
            return self._shell

    def follow(self) -> None:
        """Mount and unmount what was loaded and unloaded, if there is a shell.

        One in which a command runs is left alone: whoever uses it next has it as it should be.
        """
        with self._lock, contextlib.suppress(ShellRefused):
            if self._mounts is not None:
                self._mounts.follow()

    def close(self) -> None:
        """End it; what is in it is gone."""
        with self._lock:
            shell, self._shell = self._shell, None
            mounts, self._mounts = self._mounts, None
        if shell is not None:
            shell.close()
        if mounts is not None:
            mounts.close()

    def _open(self, command: str) -> None:
        with self._lock:
            if self._mounts is not None and not self._session.is_closed:
                self._mounts.open(command)


class _Handover:
    """A runner whose refusals are answers, as a shell has them for programs that it cannot start."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def name(self) -> str:
        return self._runner.name

    def capabilities(self) -> Capabilities:
        return self._runner.capabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        try:
            return self._runner.run_blocking(job, should_stop=should_stop, on_output=on_output)
        except MetierError as error:
            said = f"{os.path.basename(job.argv[0])}: {for_anybody(error, error.hint)}"
            return Outcome(exit_code=_CANNOT_EXECUTE, stderr=f"{said}\n", runner=self.name)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        return await run_in_thread(self, job, on_output)


class ShellRunner:
    """The shell as a runner of command lines, for what waits for jobs and cancels them."""

    def __init__(self, shell: VirtualShell, command: str) -> None:
        self._shell = shell
        self._command = command

    @property
    def name(self) -> str:
        """What results and audit records call it."""
        return "virtual"

    def capabilities(self) -> Capabilities:
        """What it enforces."""
        return self._shell.capabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run the command line to its end."""
        return self._shell.execute(
            self._command, seconds=job.limits.seconds, should_stop=should_stop, on_output=on_output
        )

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run the command line without holding up the event loop."""
        return await run_in_thread(self, job, on_output)
