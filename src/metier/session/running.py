"""One run of a script of an active skill."""

from __future__ import annotations

import contextlib
import hashlib
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from metier.errors import FileMissing, InvalidArgument
from metier.guard import Action
from metier.run import Job, Limits, job_environment
from metier.session.places import made_workspace
from metier.session.scripts import checked_args, checked_script, limits_for, script_job
from metier.session.shell import ShellRunner
from metier.skill import requirements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.guard import AuditedAction
    from metier.run import Outcome
    from metier.run.job import OutputLine
    from metier.session.active import ActiveSkill
    from metier.session.cage import CagedJob
    from metier.session.shell import SessionShell
    from metier.session.state import By, State
    from metier.session.vocabulary import Vocabulary

MAX_COMMAND_BYTES = 64 * 1024
MAX_STDIN_BYTES = 16 * 1024 * 1024

_following: ContextVar[Callable[[OutputLine], None] | None] = ContextVar("metier_following", default=None)


@contextlib.contextmanager
def following_output(listener: Callable[[OutputLine], None]) -> Iterator[None]:
    """Tell a listener each line of what is run meanwhile, in this task and the threads it starts.

    It is told as it comes, perhaps from another thread; whoever runs something with an `on_output` of its own is told
    instead.
    """
    token = _following.set(listener)
    try:
        yield
    finally:
        _following.reset(token)


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
        stdin: bytes = b"",
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> None:
        self._session = session
        self.active = active
        if not isinstance(stdin, bytes) or len(stdin) > MAX_STDIN_BYTES:
            raise InvalidArgument(
                "What a script reads is bytes, and not more than 16 MiB of them.", hint="Put more into a file."
            )
        self._stdin = stdin
        self._on_output = on_output or _following.get()
        self.path = checked_script(active, script, session.options.script_folders)
        self._args = checked_args(args)
        if env is not None and not hasattr(env, "items"):
            raise InvalidArgument("env must be a dictionary.", hint='Write env={"NAME": "value"}.')
        self._env = env
        # What a model sets must be what the skill asks for: each program that a script starts has variables of its own.
        self._names = requirements_of(active.skill).env if by == "model" else None
        self._limits = limits_for(seconds, Limits())
        self._folder = _checked_folder(session.workspace, folder)
        self.action = Action(
            point="run",
            skill=active.subject,
            path=self.path,
            command=" ".join((self.path, *self._args)),
            arguments=self._asked_with(folder, seconds),
            by=by,
            isolated=session.cage.isolates(active, self._job),
        )

    def _asked_with(self, folder: str | None, seconds: float | None) -> dict[str, Any]:
        """All that decides what it does, so that who agrees to a run agrees to this one and no other."""
        given: dict[str, Any] = {"args": list(self._args), "env": dict(self._env or {}), "folder": folder or ""}
        given["seconds"] = seconds
        if self._stdin:
            given["stdin"] = f"sha256:{hashlib.sha256(self._stdin).hexdigest()}"
        return {name: value for name, value in given.items() if value}

    async def run(self, audited: AuditedAction) -> Outcome:
        """Run it without holding up the event loop."""
        from anyio.to_thread import run_sync

        with contextlib.ExitStack() as used:
            # Its files may be many, and are copied when it is run for the first time; secrets may come from afar.
            caged = await run_sync(self._caged, used, audited)
            return await caged.run(self._on_output)

    def run_blocking(self, audited: AuditedAction) -> Outcome:
        """Run it and wait."""
        with contextlib.ExitStack() as used:
            return self._caged(used, audited).run_blocking(self._on_output)

    def _caged(self, used: contextlib.ExitStack, audited: AuditedAction) -> CagedJob:
        root = used.enter_context(self._session.copies.of(self.active))
        caged = self._session.cage.for_skill(
            self._job(root), self.active, isolated=self.action.isolated, gets_secrets=True
        )
        caged.announce(audited)
        return caged

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
            stdin=self._stdin,
        )


class CommandLine:
    """A line for bash that was asked for, and the job that runs it."""

    def __init__(
        self,
        session: State,
        command: object,
        *,
        seconds: float | None,
        by: By,
        shell: SessionShell | None = None,
        words: Vocabulary | None = None,
    ) -> None:
        if not isinstance(command, str) or not command.strip():
            raise InvalidArgument("The command cannot be empty.", hint="Write a command for bash.")
        if "\0" in command or len(command.encode(errors="replace")) > MAX_COMMAND_BYTES:
            raise InvalidArgument(
                "The command has a NUL byte or is too long.",
                hint=f"Write at most {MAX_COMMAND_BYTES:,} bytes; put more into a file.",
            )
        self._job = Job(
            argv=("bash", "--noprofile", "--norc", "-c", command),
            folder=made_workspace(session.workspace) if shell is None else "/",
            env=job_environment(workspace=session.workspace, session_id=session.id),
            limits=limits_for(seconds, Limits()),
        )
        self._session = session
        self._shell = shell
        self._words = words
        isolated = session.cage.isolates() if shell is None else True
        owner = session.cage.strictest(self._job, isolated=isolated, by=by)
        subject = owner.subject if owner is not None else None
        self._agreed = () if owner is None else (owner.name,)
        self.action = Action(point="run", skill=subject, command=command, by=by, isolated=isolated)

    async def run(self, audited: AuditedAction, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run it without holding up the event loop."""
        from anyio.to_thread import run_sync

        caged = await run_sync(self._caged)
        caged.announce(audited)
        return await caged.run(on_output or _following.get())

    def _caged(self) -> CagedJob:
        cage, isolated = self._session.cage, self.action.isolated
        # The guard was asked about one skill; a command may run something of several.
        is_virtual = self._shell is not None
        cage.require_scripts(
            self._job, isolated=isolated, by=self.action.by, agreed=self._agreed, is_virtual=is_virtual
        )
        if self._shell is None:
            return cage.for_command(self._job, isolated=isolated, agreed=self._agreed)
        return cage.for_shell(self._job, ShellRunner(self._shell.get(self._words), self._job.argv[-1]))


def _checked_folder(workspace: str, folder: object) -> str:
    """The working folder: the workspace, or a folder inside it."""
    if folder is None or folder == "":
        return made_workspace(workspace)
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
