"""Runs of a session: scripts of skills and shell commands, from what was asked for to its outcome."""

from __future__ import annotations

import contextlib
import hashlib
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypedDict

from metier._lazy import logger, replace
from metier._paths import is_inside
from metier._telemetry import describe_skill
from metier.errors import FileMissing, FileRefused, InvalidArgument, MetierError, ScriptUnsupported
from metier.guard import Action
from metier.guard.audit.redaction import redact
from metier.run import INTERPRETERS, Job, Limits, command_for, job_environment
from metier.session.events import Event
from metier.session.job_sandbox import close_with
from metier.session.resource_grants import made_workspace
from metier.session.shell import ShellRunner, is_installed
from metier.skill import requirements_of, shown
from metier.skill.package import checked_path, relative_to_root
from metier.skill.script_packages import knows_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Unpack

    from metier.guard.audited_action import AuditedAction
    from metier.run import Outcome
    from metier.run.job import OutputLine
    from metier.run.virtual import VirtualShell
    from metier.session.active_skills import ActiveSkill, ActiveSkills
    from metier.session.context import By, SessionContext
    from metier.session.copies import Copies
    from metier.session.job_sandbox import JobSandbox, SandboxedJob
    from metier.session.prompt import Vocabulary
    from metier.session.shell import SessionShell


log = logger("metier.session")

SCRIPT_FOLDERS = ("scripts",)
MAX_ARGUMENTS = 256
MAX_ARGUMENT_BYTES = 64 * 1024
MAX_TOTAL_BYTES = 1024 * 1024
"""For all arguments and variables together: no system starts a program with much more."""
MAX_SECONDS = 600.0


def checked_script(active: ActiveSkill, script: object, folders: Sequence[str] = SCRIPT_FOLDERS) -> str:
    """The path of a script of the skill, which may be named with the skill's root; raises for what is not one."""
    if not isinstance(script, str) or not script.strip():
        raise InvalidArgument("No script was named.", hint=_choices(active, folders))
    try:
        segments = checked_path(relative_to_root(script, active.root))
    except FileRefused as error:
        raise FileRefused(
            f"{error.message} A script must be in the {' or '.join(folders)} directory.",
            hint=_choices(active, folders),
            path=script,
            violation="path_traversal",
        ) from None
    path = "/".join(segments)
    if segments[0] not in folders or len(segments) < 2:
        raise FileRefused(
            f"{path!r} is not in the {' or '.join(folders)} directory of skill {active.name!r}.",
            hint=_choices(active, folders),
            path=path,
            violation="path_traversal",
        )
    file = next((file for file in active.listing.files if file.path == path), None)
    if file is None:
        raise FileMissing(
            f"Script not found: skill {active.name!r} has no {path}.", hint=_choices(active, folders), path=path
        )
    if file.kind == "link":
        raise FileRefused(
            f"{path!r} is a link and must be a file in the scripts directory (path traversal).",
            hint="Replace the link by the script itself.",
            path=path,
            violation="path_traversal",
        )
    return path


def checked_args(arguments: object) -> tuple[str, ...]:
    """The arguments of a script; raises for what no program could be started with."""
    if arguments is None:
        return ()
    if isinstance(arguments, str) or not isinstance(arguments, list | tuple):
        raise InvalidArgument("Arguments of a script are a list of texts.", hint='Write args=["--all", "file.csv"].')
    if len(arguments) > MAX_ARGUMENTS:
        raise InvalidArgument(f"{len(arguments)} arguments are too many.", hint=f"At most {MAX_ARGUMENTS} are passed.")
    for argument in arguments:
        if not isinstance(argument, str):
            raise InvalidArgument("Arguments of a script are texts.", hint=f"Put {argument!r:.60} into quotes.")
        if "\0" in argument or len(argument.encode(errors="replace")) > MAX_ARGUMENT_BYTES:
            raise InvalidArgument(
                f"The argument {argument[:40]!r} has a NUL byte or is too long.",
                hint=f"Pass at most {MAX_ARGUMENT_BYTES:,} bytes; put more into a file.",
            )
    return tuple(arguments)


def limits_for(seconds: object, limits: Limits) -> Limits:
    """The limits with another time, which may be at most ten minutes."""
    if seconds is None:
        return limits
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS:
        raise InvalidArgument(
            f"A timeout of {seconds!r} seconds cannot be.", hint=f"Give more than 0 and at most {MAX_SECONDS:.0f}."
        )
    return replace(limits, seconds=float(seconds))


def script_job(
    root: str,
    path: str,
    arguments: tuple[str, ...],
    *,
    workspace: str,
    folder: str,
    env: Mapping[str, Any] | None = None,
    names: Collection[str] | None = None,
    session_id: str = "",
    limits: Limits,
    interpreters: Mapping[str, tuple[str, ...]] = INTERPRETERS,
    stdin: bytes = b"",
) -> Job:
    """The job that runs a file of a skill; `names` are the variables that `env` may set, None for those of the host."""
    full = os.path.join(root, *path.split("/"))
    command = command_for(full, interpreters)
    if not os.path.isabs(command[0]):
        raise ScriptUnsupported(
            f"{path} needs {command[0]}, which is not installed here.",
            hint=f"Install {command[0]}, where the PATH of this program leads to.",
            path=path,
            program=command[0],
        )
    variables = job_environment(env, names=names, workspace=workspace, skill_dir=root, session_id=session_id)
    total = sum(len(text.encode(errors="replace")) + 1 for text in (*arguments, *variables, *variables.values()))
    if total > MAX_TOTAL_BYTES:
        raise InvalidArgument(
            f"Arguments and environment variables have {total:,} bytes together.",
            hint=f"At most {MAX_TOTAL_BYTES:,} are passed; put more into a file.",
        )
    return Job(
        argv=(*command, *arguments),
        folder=folder,
        env=variables,
        limits=limits,
        stdin=stdin,
    )


def _choices(active: ActiveSkill, folders: Sequence[str]) -> str:
    found = [file.path for file in active.listing.scripts() if file.path.split("/")[0] in folders]
    if not found:
        return f"Skill {active.name!r} has no scripts."
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return f"Its scripts are {', '.join(found[:10])}{more}."


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


class RunOptions(TypedDict, total=False):
    """Options of the run of a script."""

    env: Mapping[str, Any] | None
    """Environment variables for it; a model can set those that the skill asks for."""
    folder: str | None
    """The working folder, inside the workspace; the workspace by default."""
    seconds: float | None
    """Seconds that it may take, at most 600; 30 by default."""
    stdin: bytes
    """The bytes that it reads, at most 16 MiB."""
    by: By
    """The origin of the request: `model`, `user`, `host` (the program) or `client` (a program for a person)."""
    on_output: Callable[[OutputLine], None] | None
    """A function that is told each line as it comes, perhaps from another thread."""


class Runs:
    """Runs scripts of active skills and commands of bash for one session, where policy allows it."""

    def __init__(
        self,
        context: SessionContext,
        loaded: ActiveSkills,
        copies: Copies,
        sandbox: JobSandbox,
        shell: Callable[[], SessionShell],
    ) -> None:
        self.context = context
        self.copies = copies
        self.sandbox = sandbox
        """The sandbox that scripts, hooks and commands run in."""
        self._loaded = loaded
        self._shell = shell

    @property
    def shell(self) -> VirtualShell:
        """The virtual shell of the session, with the skills mounted; it lasts as long as the session.

        Raises `ShellUnavailable` where what it needs is not installed.
        """
        return self._shell().get()

    @property
    def has_shell(self) -> bool:
        """Whether there is a virtual shell here."""
        return is_installed()

    async def script(
        self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Unpack[RunOptions]
    ) -> Outcome:
        """Run a script of an active skill."""
        from anyio.to_thread import run_sync

        run = await run_sync(self._prepare, script, args, skill, options)
        with self.context.audited(run.action, await self.context.enter_async(run.action)) as audited:
            outcome = await run.run(audited)
            close_with(audited, outcome)
        return self._finish(run, outcome)

    def script_blocking(
        self,
        script: str,
        args: Sequence[str] = (),
        skill: str | None = None,
        *,
        should_stop: Callable[[], bool] | None = None,
        **options: Unpack[RunOptions],
    ) -> Outcome:
        """`script`, for programs without an event loop; `should_stop` is asked some twenty times a second."""
        run = self._prepare(script, args, skill, options)
        with self.context.audited(run.action) as audited:
            outcome = run.run_blocking(audited, should_stop)
            close_with(audited, outcome)
        return self._finish(run, outcome)

    async def command(
        self,
        command: str,
        *,
        seconds: float | None = None,
        by: By = "host",
        virtual: bool = False,
        words: Vocabulary | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a command of bash in the workspace, or in the virtual shell, where policy allows it.

        `words` are those of the model that it is for: skills that are not loaded say how to load them.
        """
        from anyio.to_thread import run_sync

        context, sandbox = self.context, self.sandbox
        context.require_open()
        shell = self._shell() if virtual else None
        # Finding out what this machine can do takes a moment, the first time.
        job, action, agreed = await run_sync(self._prepare_command, command, seconds, by, virtual)
        isolated = action.isolated

        def make() -> SandboxedJob:
            # The guard was asked about one skill; a command may run something of several.
            sandbox.require_scripts(job, isolated=isolated, by=by, agreed=agreed, is_virtual=virtual)
            if shell is None:
                return sandbox.for_command(job, isolated=isolated, agreed=agreed)
            return sandbox.for_shell(job, ShellRunner(shell.get(words), command))

        with context.audited(action, await context.enter_async(action)) as audited:
            sandboxed = await run_sync(make)
            sandboxed.announce(audited)
            outcome = await sandboxed.run(on_output or _following.get())
            close_with(audited, outcome)
        message = f"Ran {shown(command)}: exit code {outcome.exit_code}."
        context.emit(Event(kind="ran", message=message, data=_outcome_data(outcome)))
        return outcome

    def _prepare_command(
        self, command: object, seconds: float | None, by: By, virtual: bool
    ) -> tuple[Job, Action, tuple[str, ...]]:
        """The job of a line for bash, the action to decide about, and the skill that this decision is about."""
        if not isinstance(command, str) or not command.strip():
            raise InvalidArgument("The command cannot be empty.", hint="Write a command for bash.")
        if "\0" in command or len(command.encode(errors="replace")) > MAX_COMMAND_BYTES:
            raise InvalidArgument(
                "The command has a NUL byte or is too long.",
                hint=f"Write at most {MAX_COMMAND_BYTES:,} bytes; put more into a file.",
            )
        workspace = self.context.workspace
        job = Job(
            argv=("bash", "--noprofile", "--norc", "-c", command),
            folder="/" if virtual else made_workspace(workspace),
            env=job_environment(workspace=workspace, session_id=self.context.id),
            limits=limits_for(seconds, Limits()),
        )
        isolated = virtual or self.sandbox.isolates()
        owner = self.sandbox.strictest(job, isolated=isolated, by=by)
        subject = owner.subject if owner is not None else None
        action = Action(point="run", skill=subject, command=command, by=by, isolated=isolated)
        return job, action, () if owner is None else (owner.name,)

    def _prepare(self, script: object, args: object, skill: str | None, options: RunOptions) -> ScriptRun:
        """A script that was asked for; one that cannot be run was asked for all the same, and leaves a record."""
        context, by = self.context, options.get("by", "host")
        one = self._loaded.one(skill, by=by)
        try:
            return ScriptRun(self, one, script, args, **options)
        except MetierError as error:
            path = script if isinstance(script, str) else ""
            action = Action(point="run", skill=one.subject, path=path, by=by)
            context.guard.refuse(action, context.actor, "scripts", error.message, code=error.code).close()
            log.warning("refused to run %s of %s: %s", shown(path), one.name, redact(error.message))
            context.emit(Event(kind="refused", skill=one.name, code=error.code, message=error.message))
            raise

    def _finish(self, run: ScriptRun, outcome: Outcome) -> Outcome:
        self._loaded.is_stale(run.active)
        describe_skill(run.active.entry.description, run.active.entry.location)
        message = f"Ran {run.path} of {run.active.name}: exit code {outcome.exit_code}."
        self.context.emit(Event(kind="ran", skill=run.active.name, message=message, data=_outcome_data(outcome)))
        return outcome


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    """The data of an event about a run."""
    data = {"exit_code": outcome.exit_code, "duration_ms": outcome.duration_ms, "runner": outcome.runner}
    return data | ({"notes": list(outcome.notes)} if outcome.notes else {})


class ScriptRun:
    """A script that was asked for, checked and ready; the guard decides before it runs."""

    def __init__(
        self,
        runs: Runs,
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
        self._runs = runs
        self.active = active
        if not isinstance(stdin, bytes) or len(stdin) > MAX_STDIN_BYTES:
            raise InvalidArgument(
                "What a script reads is bytes, and not more than 16 MiB of them.", hint="Put more into a file."
            )
        self._stdin = stdin
        self._on_output = on_output or _following.get()
        self.path = checked_script(active, script, runs.context.options.script_folders)
        self._args = checked_args(args)
        if not knows_packages(active.digest):
            # The guard decides by what a verified copy declares, which the files of the skill may no longer be.
            with runs.copies.of(active):
                _ = active.package_kinds
        if env is not None and not hasattr(env, "items"):
            raise InvalidArgument("env must be a dictionary.", hint='Write env={"NAME": "value"}.')
        self._env = env
        # What a model sets must be what the skill asks for: each program that a script starts has variables of its own.
        self._names = requirements_of(active.skill).env if by == "model" else None
        self._limits = limits_for(seconds, Limits())
        self._folder = _checked_folder(runs.context.workspace, folder)
        self.action = Action(
            point="run",
            skill=active.subject,
            path=self.path,
            command=" ".join((self.path, *self._args)),
            arguments=self._asked_with(folder, seconds),
            by=by,
            isolated=runs.sandbox.isolates(active, self._job),
        )

    def _asked_with(self, folder: str | None, seconds: float | None) -> dict[str, Any]:
        """The arguments of the action: whoever agrees to a run agrees to this one and no other."""
        given = {
            "args": list(self._args),
            "env": dict(self._env or {}),
            "folder": folder,
            "seconds": seconds,
            "stdin": self._stdin and f"sha256:{hashlib.sha256(self._stdin).hexdigest()}",
        }
        return {name: value for name, value in given.items() if value}

    async def run(self, audited: AuditedAction) -> Outcome:
        """Run it without holding up the event loop."""
        from anyio.to_thread import run_sync

        with contextlib.ExitStack() as used:
            # Its files may be many, and are copied when it is run for the first time; secrets may come from afar.
            sandboxed = await run_sync(self._sandboxed, used, audited)
            return await sandboxed.run(self._on_output)

    def run_blocking(self, audited: AuditedAction, should_stop: Callable[[], bool] | None = None) -> Outcome:
        """Run it and wait."""
        with contextlib.ExitStack() as used:
            return self._sandboxed(used, audited).run_blocking(self._on_output, should_stop)

    def _sandboxed(self, used: contextlib.ExitStack, audited: AuditedAction) -> SandboxedJob:
        root = used.enter_context(self._runs.copies.of(self.active))
        sandboxed = self._runs.sandbox.for_skill(
            self._job(root), self.active, isolated=self.action.isolated, gets_secrets=True
        )
        sandboxed.announce(audited)
        return sandboxed

    def _job(self, root: str) -> Job:
        return script_job(
            root,
            self.path,
            self._args,
            workspace=self._runs.context.workspace,
            folder=self._folder,
            env=self._env,
            names=self._names,
            session_id=self._runs.context.id,
            limits=self._limits,
            stdin=self._stdin,
        )


def _checked_folder(workspace: str, folder: object) -> str:
    """The working folder: the workspace, or a folder inside it."""
    if folder is None or folder == "":
        return made_workspace(workspace)
    if not isinstance(folder, str) or "\0" in folder:
        raise InvalidArgument("The working folder is no path.", hint="Name a folder inside the workspace.")
    full = os.path.realpath(os.path.join(workspace, folder))
    if not is_inside(full, os.path.realpath(workspace)):
        raise InvalidArgument(
            f"The working folder {folder!r} is outside allowed roots.", hint="Name a folder inside the workspace."
        )
    if not os.path.isdir(full):
        raise FileMissing(f"The working folder {folder!r} does not exist.", hint="Create it first.", path=folder)
    return full
