"""One run of a script of an active skill."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from metier.errors import FileMissing, InvalidArgument
from metier.guard import Action
from metier.run import Job, Limits, job_environment
from metier.session.scripts import checked_args, checked_script, limits_for, script_job
from metier.skill import requirements_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.run import Outcome
    from metier.session.active import ActiveSkill
    from metier.session.state import By, State

MAX_COMMAND_BYTES = 64 * 1024


class Running:
    """A script that was asked for, checked and ready; the guard decides before it runs."""

    def __init__(
        self,
        session: State,
        active: ActiveSkill,
        script: object,
        args: object = (),
        *,
        env: Mapping[str, Any] | None = None,
        folder: str | None = None,
        seconds: float | None = None,
        by: By = "host",
    ) -> None:
        self._session = session
        self.active = active
        self.path = checked_script(active, script, session.options.script_folders)
        self._args = checked_args(args)
        if env is not None and not hasattr(env, "items"):
            raise InvalidArgument("env must be a dictionary.", hint='Write env={"NAME": "value"}.')
        self._env = env
        # What a model sets must be what the skill asks for: each program that a script starts has variables of its own.
        self._names = requirements_of(active.skill).env if by == "model" else None
        self._limits = limits_for(seconds, Limits())
        self._folder = self._checked_folder(folder)
        self.action = Action(
            point="run",
            skill=active.subject,
            path=self.path,
            command=" ".join((self.path, *self._args)),
            by=by,
            isolated=session.runner.capabilities().isolates_files,
        )

    async def run(self) -> Outcome:
        """Run it without holding up the event loop."""
        from anyio.to_thread import run_sync

        with contextlib.ExitStack() as used:
            # Its files may be many, and are copied when it is run for the first time.
            root = await run_sync(used.enter_context, self._session.copies.of(self.active))
            return await self._session.runner.run(self._job(root))

    def run_blocking(self) -> Outcome:
        """Run it and wait."""
        with self._session.copies.of(self.active) as root:
            return self._session.runner.run_blocking(self._job(root))

    def _job(self, root: str) -> Job:
        return script_job(
            root,
            self.path,
            self._args,
            workspace=self._session.workspace,
            folder=self._folder,
            env=self._env,
            names=self._names,
            session_id=self._session.id,
            limits=self._limits,
        )

    def _checked_folder(self, folder: object) -> str:
        """The working folder: the workspace, or a folder inside it."""
        workspace = self._session.workspace
        if folder is None or folder == "":
            os.makedirs(workspace, exist_ok=True)
            return workspace
        if not isinstance(folder, str) or "\0" in folder:
            raise InvalidArgument("The working folder is no path.", hint="Name a folder inside the workspace.")
        full = os.path.realpath(os.path.join(workspace, folder))
        inside = os.path.realpath(workspace)
        if full != inside and not full.startswith(inside + os.sep):
            raise InvalidArgument(
                f"The working folder {folder!r} is outside allowed roots.", hint="Name a folder inside the workspace."
            )
        if not os.path.isdir(full):
            raise FileMissing(f"The working folder {folder!r} does not exist.", hint="Create it first.", path=folder)
        return full


class CommandLine:
    """A line for bash that was asked for, and the job that runs it."""

    def __init__(self, session: State, command: object, *, seconds: float | None, by: By) -> None:
        if not isinstance(command, str) or not command.strip():
            raise InvalidArgument("The command cannot be empty.", hint="Write a command for bash.")
        if "\0" in command or len(command.encode(errors="replace")) > MAX_COMMAND_BYTES:
            raise InvalidArgument(
                "The command has a NUL byte or is too long.",
                hint=f"Write at most {MAX_COMMAND_BYTES:,} bytes; put more into a file.",
            )
        os.makedirs(session.workspace, exist_ok=True)
        self.job = Job(
            argv=("bash", "--noprofile", "--norc", "-c", command),
            folder=session.workspace,
            env=job_environment(workspace=session.workspace, session_id=session.id),
            limits=limits_for(seconds, Limits()),
        )
        self.action = Action(point="run", command=command, by=by, isolated=session.runner.capabilities().isolates_files)
