"""Native programs of the virtual shell: run by another runner over a copy of the workspace.

The request comes from the worker and is held to be hostile: each path and value in it is checked, the files go to a
private folder, and the program gets no variable that steers others.
"""

from __future__ import annotations

import os
import stat
import tempfile
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field, replace
from metier._paths import safe_rmtree
from metier.errors import InvalidArgument, MetierError
from metier.run.environment import environment_python, find_program, job_environment, own_python, programs_behind
from metier.run.host_files import change, list_folder, load
from metier.run.job import Job, JobPath, Limits
from metier.run.virtual.validation import MOST_FILES, checked_mode, checked_path, checked_text, is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from metier.run.host_files import File
    from metier.run.job import Runner
    from metier.run.virtual.channel import Head
    from metier.run.virtual.validation import ShellLimits

_PROGRAMS = frozenset({"python3", "node"})
"""The programs that are run natively."""
_SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "proc", "sbin", "sys", "usr")
)
"""Folders at the top that a native program has of its own."""
_EVERY_SHELL = 16
_ROOT = "/.shell"
"""The path of the shell's root for a native program, which has a root of its own."""
_ENDED = {
    "timeout": "it exceeds its time",
    "output": "it exceeds what it may write",
    "memory": "it exceeds its memory",
    "disk": "it exceeds its disk",
    "processes": "it exceeds its processes",
    "signal": "by a signal",
    "cancel": "it was told to stop",
}
_MOST_WORDS, _MOST_BYTES = 4_096, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRequest:
    """A native program to run, checked."""

    argv: tuple[str, ...]
    folder: str
    env: Mapping[str, str]
    stdin: bytes
    files: list[File]


@dataclass(frozen=True, slots=True)
class LoadedSkillFiles:
    """A skill that the shell has: a folder of this machine, or files that are in memory alone."""

    files: list[File] = field(repr=False)
    folder: str = ""


def checked_request(head: Head, blobs: Sequence[bytes]) -> NativeRequest:
    """A request of the worker; raises `ValueError` for one that no shell would make."""
    words, variables = head["argv"], head["env"]
    if not isinstance(words, list) or not isinstance(variables, dict) or max(len(words), len(variables)) > _MOST_WORDS:
        raise ValueError("more words or variables than any command has")
    argv = tuple(checked_text(word, _MOST_BYTES) for word in words)
    if not argv or argv[0] not in _PROGRAMS:
        raise ValueError("a program that is not handed over")
    env = {checked_text(name, 200): checked_text(value, _MOST_BYTES) for name, value in variables.items()}
    (stdin,) = blobs
    folder, files = checked_path(head["folder"]), checked_files(head["files"])
    return NativeRequest(argv=argv, folder=folder, env=env, stdin=stdin, files=files)


def checked_files(files: object) -> list[File]:
    """The files of a worker, with sound paths; raises `ValueError` for others."""
    if not isinstance(files, list):
        raise ValueError("what should be files is not")
    found: list[File] = []
    for path, kind, mode, content in files:
        if kind not in ("f", "d", "l"):
            raise ValueError("a file of no kind")
        if checked_path(path) != path or path == "/":
            raise ValueError("a path that is not normal")
        found.append((path, kind, checked_mode(mode), content))
    return found


def run_natively(
    request: NativeRequest,
    runner: Runner,
    *,
    skills: Mapping[str, LoadedSkillFiles],
    limits: ShellLimits,
    seconds: float,
    should_stop: Callable[[], bool] | None,
) -> tuple[Head, bytes, bytes]:
    """Run a program over the files of a request: the reply to the worker, its output and its errors.

    `skills` are by the paths that they are seen at.
    """
    if seconds <= 0:
        # Only a worker that does not stop when it should still asks for something.
        raise TimeoutError
    private = tempfile.mkdtemp(prefix="metier-")
    try:
        # A job may be run as somebody else, who must be able to pass; nobody else knows the name.
        os.chmod(private, 0o711)
        return _run(private, request, runner, skills, limits, seconds, should_stop)
    finally:
        safe_rmtree(private)


def _run(
    private: str,
    request: NativeRequest,
    runner: Runner,
    skills: Mapping[str, LoadedSkillFiles],
    limits: ShellLimits,
    seconds: float,
    should_stop: Callable[[], bool] | None,
) -> tuple[Head, bytes, bytes]:
    work = os.path.join(private, "work")
    os.mkdir(work)
    # The root may be another user's when the job runs, but its folder is the job's own.
    os.chmod(work, 0o777)
    unseen = change(work, request.files, any_link=True)
    _open_to_all(work, request.files)
    # Beside what is the shell's own there are folders that every shell has.
    room = replace(limits, files=min(MOST_FILES, limits.files + _EVERY_SHELL))
    there = {path for path, _, _ in list_folder(work, room).records}
    program = find_program(request.argv[0])
    has_view = runner.capabilities().hides_files
    shown = _shown(request.files, program, skills) if has_view else frozenset()
    places, mapped = _places(private, work, request, skills, shown, has_view=has_view)
    folder = request.folder
    if not any(is_inside(folder, place.at) for place in places if place.at):
        folder = _outside(folder, mapped)
    if not any(is_inside(folder, place.seen_at) for place in places):
        folder = places[-1].seen_at
    job = Job(
        argv=(program, *(_outside(word, mapped) for word in request.argv[1:])),
        folder=folder,
        env={name: _outside(value, mapped) for name, value in _passed(request.env).items()},
        stdin=request.stdin,
        limits=Limits(
            seconds=seconds,
            output_bytes=limits.output_bytes,
            file_bytes=limits.file_bytes,
            disk_bytes=limits.total_bytes,
        ),
        places=places,
    )
    outcome = runner.run_blocking(job, should_stop=should_stop)
    before = {file[0]: file for file in request.files}
    changed: list[File] = []
    gone: list[str] = []
    dropped = ""
    try:
        after = {file[0]: file for file in load(work, list_folder(work, room).records, limits)}
    except MetierError as error:
        dropped = f"What it wrote is dropped: {error}\n"
    else:
        changed = [file for path, file in after.items() if _is_changed(before.get(path), file)]
        gone = sorted(there - after.keys())
    said = outcome.stderr if outcome.stderr.endswith("\n") or not outcome.stderr else f"{outcome.stderr}\n"
    if outcome.killed_by:
        said += f"The program was ended: {_ENDED.get(outcome.killed_by, outcome.killed_by)}.\n"
    said += "".join(f"Not given to the program: {text}\n" for text in unseen[:20]) + dropped
    reply: Head = {
        "code": outcome.exit_code or int(bool(dropped)),
        "files": changed,
        "gone": gone,
        # A program that took all the time ends the whole command line.
        "is_late": outcome.timed_out,
    }
    return reply, outcome.stdout.encode("utf-8", "replace"), said.encode("utf-8", "replace")


def _is_changed(before: File | None, file: File) -> bool:
    """Whether a file is another than before; of its mode, only whether it can be executed was the program's to set."""
    if before is None or (before[1], before[3]) != (file[1], file[3]):
        return True
    return file[1] == "f" and bool((before[2] ^ file[2]) & 0o100)


def _shown(files: Sequence[File], program: str, skills: Collection[str]) -> frozenset[str]:
    """Folders at the top that the program sees under their own names: those with something in them, and `/tmp`.

    One that this machine's interpreters are in cannot be shown, as they would be hidden by it; nor one that skills are
    in, which are shown by themselves.
    """
    tops = {path.split("/")[1] for path, kind, *_ in files if kind != "d" or path.count("/") == 1}
    empty = {"home", "root"} - {path.split("/")[1] for path, kind, *_ in files if kind != "d"}
    no_folders = {path[1:] for path, kind, *_ in files if kind != "d" and path.count("/") == 1}
    needed = (*programs_behind(program), *programs_behind(environment_python()), own_python())
    hiding = {name for name in tops if any(is_inside(path, f"/{name}") for path in needed)}
    return frozenset(tops - empty - no_folders - hiding - _SYSTEM - {path.split("/")[1] for path in skills})


def _places(
    private: str,
    work: str,
    request: NativeRequest,
    skills: Mapping[str, LoadedSkillFiles],
    shown: frozenset[str],
    *,
    has_view: bool,
) -> tuple[tuple[JobPath, ...], list[tuple[str, str]]]:
    """The places of the program, and paths of the shell with other names outside."""
    places: list[JobPath] = []
    mapped: list[tuple[str, str]] = []
    for path, skill in skills.items():
        folder = skill.folder
        if not folder:
            folder = os.path.join(private, "skills", os.path.basename(path))
            os.makedirs(folder)
            change(folder, skill.files, any_link=True)
        places.append(JobPath(folder, at=path if has_view else ""))
        mapped.append((path, path if has_view else folder))
    places += [JobPath(os.path.join(work, name), is_writable=True, at=f"/{name}") for name in sorted(shown)]
    others = {file[0].split("/")[1] for file in request.files} - shown
    root = JobPath(work, is_writable=True, at=_ROOT if has_view else "")
    mapped += [(f"/{name}", f"{root.seen_at}/{name}") for name in sorted(others)]
    return (*places, root), [*mapped, ("/", root.seen_at)]


def _outside(value: str, mapped: Sequence[tuple[str, str]]) -> str:
    for path, folder in mapped:
        if value == path or (path != "/" and is_inside(value, path)):
            return folder + value[len(path) :]
    return value


def _passed(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the shell that a program outside may have: none that steers it."""
    passed: dict[str, str] = {}
    for name, value in env.items():
        try:
            job_environment({name: value}, workspace="/")
        except InvalidArgument:
            continue
        if name not in ("PWD", "OLDPWD", "_", "SHLVL") and len(passed) < 64:
            passed[name] = value
    return passed


def _open_to_all(work: str, given: Sequence[File]) -> None:
    """Let the user of the job change the copy, which only that job ever sees."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    wanted = {path: 0o777 if kind == "d" else 0o666 | mode & 0o111 for path, kind, mode, _ in given if kind != "l"}
    # By the folders that are there, and not by those of the request: a link on the way would lead to files of others.
    for at, folders, files, descriptor in os.fwalk(work, follow_symlinks=False):
        for name in (*folders, *files):
            mode = wanted.get(f"{at[len(work) :]}/{name}")
            if mode is not None and not stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.chmod(name, mode, dir_fd=descriptor)
