"""Running what belongs to a skill: its scripts, as a program with a list of arguments, never through a shell."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metier.errors import FileMissing, FileRefused, InvalidArgument, ScriptUnsupported
from metier.run import INTERPRETERS, Job, command_for, job_environment
from metier.skill.files import checked_path, relative_to_root

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from metier.run import Limits
    from metier.session.active import ActiveSkill

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
