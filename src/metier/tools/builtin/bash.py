"""The tool `Bash`: a command line, through a runner."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from metier.errors import FileMissing, InvalidArgument
from metier.run import Job, Limits, job_environment
from metier.skill import shown
from metier.skill.untrusted_text import shown_text
from metier.tools.function import FunctionTool
from metier.tools.tool import ToolResult

if TYPE_CHECKING:
    from metier.run import Outcome, Runner
    from metier.tools.workspace import Workspace

MAX_SECONDS = 600.0
MAX_COMMAND = 64 * 1024
_ENDING = 15.0
"""Seconds beyond its own limit that a command may take to be ended."""


def bash_tool(workspace: Workspace, runner: Runner) -> FunctionTool:
    """The tool `Bash`; a call may ask for less or more time than usual, up to ten minutes."""
    bounds = Limits()

    async def bash(
        command: str, cwd: str = ".", timeout: float | None = None, env: dict[str, str] | None = None
    ) -> ToolResult:
        """Run a command line with bash and return what it prints and its exit code.

        Args:
            command: The command line.
            cwd: The folder to run it in, relative to the workspace or absolute.
            timeout: After how many seconds to end it, at most 600.
            env: More environment variables, whose names begin with INPUT_ or ARG_; set others in the command itself.
        """
        if not command.strip():
            raise InvalidArgument("The command cannot be empty.", hint="Give a command line, such as ls -l.")
        if "\0" in command or len(command) > MAX_COMMAND:
            raise InvalidArgument(
                f"The command has a NUL character or more than {MAX_COMMAND:,} characters.",
                hint="Write a script to a file and run that.",
            )
        seconds = bounds.seconds if timeout is None else timeout
        if not 0 < seconds <= MAX_SECONDS:
            raise InvalidArgument(f"The timeout is {seconds:g} seconds.", hint=f"Give 1 to {MAX_SECONDS:g} seconds.")
        try:
            folder = workspace.folder(cwd)
        except FileMissing as error:
            raise FileMissing(f"The folder {shown(cwd)!r} does not exist.", hint=error.hint) from None
        outcome = await runner.run(
            Job(
                argv=("bash", "--noprofile", "--norc", "-c", command),
                folder=folder,
                # Others are set in the command, where the rules for commands see them.
                env=job_environment(env, names=(), workspace=workspace.root),
                limits=dataclasses.replace(bounds, seconds=seconds),
            )
        )
        return _result(outcome, command, folder, seconds)

    return FunctionTool(bash, name="Bash", timeout=MAX_SECONDS + _ENDING)


def _result(outcome: Outcome, command: str, folder: str, seconds: float) -> ToolResult:
    parts = [outcome.stdout, outcome.stderr]
    if outcome.is_truncated:
        parts.append("[Output truncated: there was more than is kept]")
    parts += [f"[{note}]" for note in outcome.notes]
    output = shown_text("\n".join(part.removesuffix("\n") for part in parts if part))
    code, error = None, None
    if outcome.timed_out:
        # A policy may have given it less than it asked for.
        after = min(seconds, round(outcome.duration_ms / 1000, 1))
        code, error = "timed-out", f"The command timed out after {after:g} seconds."
    elif not outcome.is_success:
        code, error = "command-failed", f"The command failed with exit code {outcome.exit_code}."
    return ToolResult(
        success=error is None,
        result=output,
        error=error,
        code=code,
        hint=None if error is None else "Read the output to see why.",
        truncated=outcome.is_truncated,
        data={
            "message": error or "The command succeeded.",
            "output": output,
            "exit_code": outcome.exit_code,
            "command": command,
            "cwd": folder,
            "duration_ms": outcome.duration_ms,
            "timed_out": outcome.timed_out,
            "killed_by": outcome.killed_by,
            "runner": outcome.runner,
            "contacts": outcome.contacts,
            **({"notes": list(outcome.notes)} if outcome.notes else {}),
        },
    )
