"""The virtual shell of a session: files in memory, a bash interpreter over them, and the active skills among them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from typing import TYPE_CHECKING

from metier.errors import MetierError, ShellRefused, SkillChanged
from metier.run import Outcome
from metier.run.waiting import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run import Capabilities, Job, Runner
    from metier.run.job import OutputLine
    from metier.run.virtual import VirtualShell
    from metier.session.active import ActiveSkill
    from metier.session.state import State


_CANNOT_EXECUTE = 126


def is_installed() -> bool:
    """Whether what the virtual shell needs is here: `pip install 'metier[shell]'`."""
    return importlib.util.find_spec("bashkit") is not None


class SessionShell:
    """One session's shell: made when it is first used, and kept with all that is in it until the session ends.

    Skills are mounted from the copies of what was loaded. Programs that are no part of the shell, such as `python3`,
    are handed to the session's runner, if policy lets them run there.
    """

    def __init__(self, session: State) -> None:
        self._session = session
        self._shell: VirtualShell | None = None
        self._mounted: dict[str, tuple[str, contextlib.ExitStack]] = {}
        self._lock = threading.RLock()

    def get(self) -> VirtualShell:
        """The shell, with the active skills in it; raises `ShellUnavailable` where there can be none."""
        self._session.require_open()
        with self._lock:
            if self._shell is None:
                from metier.run.virtual import VirtualShell

                native = _Handover(self._session.cage.runner_for_commands(have_places=True))
                self._shell = VirtualShell(mount=self._session.options.mount, native=native)
            self._mount(self._shell)
            return self._shell

    def follow(self) -> None:
        """Mount and unmount what was loaded and unloaded, if there is a shell.

        One in which a command runs is left alone: whoever uses it next has it as it should be.
        """
        with self._lock, contextlib.suppress(ShellRefused):
            if self._shell is not None:
                self._mount(self._shell)

    def path_of(self, active: ActiveSkill) -> str:
        """Where the files of a skill are in it."""
        return f"{self._session.options.mount}/{active.name}"

    def close(self) -> None:
        """End it; what is in it is gone."""
        with self._lock:
            shell, self._shell = self._shell, None
            mounted, self._mounted = self._mounted, {}
        if shell is not None:
            shell.close()
        for _, copy in mounted.values():
            copy.close()

    def _mount(self, shell: VirtualShell) -> None:
        wanted = {one.name: one for one in self._session.live()}
        for name, (digest, copy) in tuple(self._mounted.items()):
            if name not in wanted or wanted[name].digest != digest:
                shell.unmount(name)
                del self._mounted[name]
                copy.close()
        for name in wanted.keys() - self._mounted.keys():
            with contextlib.ExitStack() as copy:
                try:
                    root = copy.enter_context(self._session.copies.of(wanted[name]))
                except SkillChanged:
                    # What was loaded is gone; the other skills can still be used.
                    self._session.is_stale(wanted[name])
                    continue
                shell.mount(name, root)
                self._mounted[name] = (wanted[name].digest, copy.pop_all())


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
            said = f"{os.path.basename(job.argv[0])}: {error} {error.hint}".strip()
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
