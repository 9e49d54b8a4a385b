"""VirtualShell: files, variables and folder last from one command to the next."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from metier._lazy import fields
from metier.errors import InvalidArgument, MetierError, ShellRefused
from metier.hints import for_anybody
from metier.run.host_files import change, list_folder, load, with_executable_scripts
from metier.run.virtual.checkpoint import Checkpoints
from metier.run.virtual.command_line import prepare_command
from metier.run.virtual.connection import WorkerRefusal
from metier.run.virtual.native_bridge import LoadedSkillFiles, checked_files
from metier.run.virtual.outcome import RunningCommand
from metier.run.virtual.validation import (
    MOST_SECONDS,
    ShellEntry,
    ShellLimits,
    ShellUsage,
    checked_mode,
    checked_number,
    checked_text,
    is_inside,
    normal,
    refusal_of,
    refused,
)
from metier.run.virtual.worker_process import CAPABILITIES, WorkerLost, unavailable, worker_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metier.run.job import Outcome, OutputLine, Runner, RunnerCapabilities
    from metier.run.virtual.channel import Head
    from metier.run.virtual.connection import Connection

_Blobs: TypeAlias = list[bytes]
_Entries: TypeAlias = list[ShellEntry]
_Failed: TypeAlias = list[str]
_T = TypeVar("_T")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}").fullmatch
_SKILL = re.compile(r"[^/\0\\]{1,255}").fullmatch
_LATE = 0.4
"""Seconds that a worker has beyond a command's time to end it by itself, which keeps what the command did so far."""
_MOST_INPUT = 8_000_000


class VirtualShell:
    """A bash shell over files in memory. It starts no process of this machine and reads no file of it.

    Skills are mounted below `mount` and can only be read. `python3` and `node` are run by `native`, if there is one,
    over a copy of the workspace. A command that crashes the interpreter is an outcome like any other: the shell goes on
    where it was before.

    >>> with VirtualShell() as shell:
    ...     _ = shell.execute("cd /tmp && name=world")
    ...     shell.execute('echo "hello $name" | tee note.txt').stdout, shell.read("/tmp/note.txt")
    ('hello world\\n', b'hello world\\n')
    """

    def __init__(
        self,
        *,
        limits: ShellLimits | None = None,
        folder: str = "/",
        mount: str = "/.sandbox/skills",
        native: Runner | None = None,
        before: Callable[[str], None] | None = None,
    ) -> None:
        """`before` gets each command line before it is run, to mount the skills that it needs."""
        worker_packages()
        self._before = before
        self._limits = limits or ShellLimits()
        self._mount = normal(mount)
        if self._mount == "/":
            raise InvalidArgument("Skills cannot be mounted at the root.", hint="Name a folder, as /.sandbox/skills.")
        self._native = native
        self._checkpoints = Checkpoints(
            folder=normal(folder), mount=self._mount, limits=self._limits, is_native=native is not None
        )
        self._gate = threading.Lock()
        self._is_running = self._is_closed = False

    @property
    def limits(self) -> ShellLimits:
        """Its limits."""
        return self._limits

    @property
    def mount_path(self) -> str:
        """The folder that skills are in."""
        return self._mount

    @property
    def folder(self) -> str:
        """The working folder now."""
        return self._ask(lambda reply, _: checked_text(reply["path"], 8_192), op="folder")

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees for its commands; none, with the reason, where its worker does not start."""
        connection = self._checkpoints.connection
        if connection is None or not connection.is_alive:
            try:
                with self._entered():
                    self._checkpoints.connected()
            except (MetierError, WorkerRefusal, WorkerLost) as error:
                return unavailable(error)
        return CAPABILITIES

    def mount(self, name: str, source: str | os.PathLike[str] | Mapping[str, bytes]) -> str:
        """Mount a skill, from a folder of this machine or from files in memory; the path in the shell.

        What is in `scripts/` can be executed. A skill of the same name is replaced.
        """
        at = self._path_of(name)
        skill = _skill_files(source, self._limits)
        with self._entered(), self._translating_errors():
            self._checkpoints.put_skill(name, skill)
        return at

    def unmount(self, name: str) -> bool:
        """Unmount a skill, but for its outline if there is one; whether it was there."""
        with self._entered(), self._translating_errors():
            return self._checkpoints.put_skill(name, None)

    def outline(self, skills: Mapping[str, str]) -> None:
        """Set the outlines: a folder with this text as its SKILL.md, if any, for each skill that is not mounted.

        Native programs do not see them.
        """
        for name in skills:
            self._path_of(name)
        with self._entered(), self._translating_errors():
            self._checkpoints.put_outlines({name: text.encode("utf-8", "replace") for name, text in skills.items()})

    def _mounted(self) -> dict[str, LoadedSkillFiles]:
        """The skills that are mounted now, by their paths."""
        return {f"{self._mount}/{name}": skill for name, skill in tuple(self._checkpoints.skills.items())}

    def _path_of(self, name: str) -> str:
        if not isinstance(name, str) or not _SKILL(name) or name in (".", ".."):
            raise InvalidArgument(f"{name!r:.80} is no name of a skill.", hint="Give a name without slashes.")
        return normal(f"{self._mount}/{name}")

    def execute(
        self,
        command: str,
        *,
        seconds: float | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        isolated: bool = False,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a command line, whole. What it changes stays, unless it is `isolated`: then it works on a copy.

        `env` is for this command alone. `should_stop` is asked some twenty times a second; a command that is stopped
        leaves nothing behind. While one runs, another is refused with `shell-busy`, but an isolated one runs beside it.
        """
        self._check(command, seconds, stdin, env)
        if self._before is not None:
            self._before(command)
        wanted = self._limits.seconds if seconds is None else seconds
        head: Head = {
            "op": "run",
            "command": prepare_command(command, has_input=bool(stdin)),
            "seconds": wanted,
            "env": dict(env or {}),
            "keep": self._limits.output_bytes,
            "is_streamed": on_output is not None,
        }
        blobs = [stdin] if stdin else []

        def is_over() -> bool:
            return self._is_closed or (should_stop is not None and should_stop())

        running = RunningCommand(
            self._limits,
            on_output,
            seconds=wanted,
            native=self._native,
            skills=self._mounted,
            should_stop=is_over,
        )
        if isolated:
            return self._execute_aside(head, blobs, running, is_over)
        with self._entered():
            self._is_running = True
            try:
                return self._execute(head, blobs, running, is_over)
            finally:
                self._is_running = False

    def write(self, path: str, data: bytes | str) -> None:
        """Write a file, with the folders that it needs. If it exceeds a limit, what was there stays."""
        if isinstance(data, str):
            try:
                data = data.encode()
            except UnicodeEncodeError:
                raise InvalidArgument("The text is not valid Unicode.", hint="Write bytes, or valid text.") from None
        where, most = normal(path), self._limits.file_bytes
        if len(data) > most:
            raise refusal_of("over", f"{where} exceeds the limit of {most} bytes for a file", where)
        self._ask(_nothing, [data], op="write", path=where)

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._ask(lambda _, blobs: blobs[0], op="read", path=normal(path))

    def list(self, path: str = "/") -> _Entries:
        """The entries of a folder, by name, without those of its folders."""
        return self._ask(
            lambda reply, _: [_entry(*entry) for entry in reply["entries"]], op="entries", path=normal(path)
        )

    def stat(self, path: str) -> ShellEntry:
        """The entry at a path; a link is not followed."""
        return self._ask(lambda reply, _: _entry(*reply["entry"]), op="stat", path=normal(path))

    def exists(self, path: str) -> bool:
        """Whether a path exists."""
        try:
            self.stat(path)
        except ShellRefused as error:
            if error.code == "shell-missing":
                return False
            raise
        return True

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or an empty folder, or with `recursive` a folder with all that is in it."""
        self._ask(_nothing, op="remove", path=normal(path), recursive=recursive)

    def copy(self, path: str, to: str) -> None:
        """Copy a file or folder to a path where nothing is; if it exceeds a limit, nothing is copied."""
        self._ask(_nothing, op="copy", path=normal(path), to=normal(to))

    def move(self, path: str, to: str) -> None:
        """Move a file or folder to a path where nothing is."""
        self._ask(_nothing, op="move", path=normal(path), to=normal(to))

    def make_folder(self, path: str) -> None:
        """Make a folder, with those that it is in."""
        self._ask(_nothing, op="make_folder", path=normal(path))

    def import_folder(self, folder: str | os.PathLike[str], at: str = "/") -> int:
        """Copy a folder of this machine into the shell; the number of files. Links stay links."""
        host, base = os.fspath(folder), normal(at).rstrip("/")
        files = load(host, list_folder(host, self._limits).records, self._limits)
        self._ask(_nothing, op="put", files=[(base + path, kind, mode, data) for path, kind, mode, data in files])
        return sum(kind == "f" for _, kind, _, _ in files)

    def export_folder(self, at: str, folder: str | os.PathLike[str]) -> _Failed:
        """Copy a folder of the shell into one of this machine; what could not be written, with the reason.

        Nothing is written outside of that folder, and links that lead out of it are not made.
        """
        where = normal(at)
        files = self._ask(lambda reply, _: checked_files(reply["files"]), op="take", path=where)
        base = len(where.rstrip("/"))
        os.makedirs(folder, exist_ok=True)
        inside = [(path[base:], kind, mode, data) for path, kind, mode, data in files if is_inside(path, where)]
        return change(os.fspath(folder), inside)

    def snapshot(self) -> bytes:
        """Files, variables, functions and folder in one piece, without the skills. Treat it as you treat the files."""
        return self._ask(lambda _, blobs: blobs[0], op="snapshot")

    def restore(self, snapshot: bytes) -> None:
        """Go back to a snapshot; what came later is gone."""
        over = self._ask(lambda reply, _: checked_text(reply["over"], 2_000), [snapshot], op="restore")
        if over:
            with self._entered():
                self._checkpoints.go_back()
            raise refusal_of("over", over.rstrip("."), "")

    def usage(self) -> ShellUsage:
        """The files of the workspace, beside those of every new shell."""
        names = [field.name for field in fields(ShellUsage)]
        return self._ask(
            lambda reply, _: ShellUsage(**{name: checked_number(reply["counts"][name], 0, 2**40) for name in names}),
            op="usage",
        )

    def close(self) -> None:
        """End it; a command that runs is ended first. It can be called at any time, and more than once."""
        self._is_closed = True
        connection = self._checkpoints.connection
        if connection is not None and self._is_running:
            connection.kill()
        with self._gate:
            self._checkpoints.forget()

    def __enter__(self) -> VirtualShell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, command: str, seconds: float | None, stdin: bytes, env: Mapping[str, str] | None) -> None:
        if not isinstance(command, str) or "\0" in command:
            raise InvalidArgument("A command is text without NUL.", hint="Give one command line, or a whole script.")
        try:
            size = len(command.encode())
        except UnicodeEncodeError:
            raise InvalidArgument("The command is not valid Unicode.", hint="Give valid text.") from None
        if size > self._limits.command_bytes:
            raise refused(
                "shell-command-too-long",
                f"The command has {size} bytes, which exceeds the limit of {self._limits.command_bytes}.",
                "Write the script to a file and run that.",
            )
        if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds <= MOST_SECONDS):
            raise InvalidArgument(
                f"A command cannot have {seconds!r:.40} seconds.",
                hint=f"Give a positive number up to {MOST_SECONDS:g}.",
            )
        most = min(_MOST_INPUT, self._limits.total_bytes)
        if not isinstance(stdin, bytes) or len(stdin) > most:
            raise refused(
                "shell-input-too-long",
                f"The input is no bytes, or exceeds the limit of {most}.",
                "Write it to a file in the shell.",
            )
        for name, value in (env or {}).items():
            if not isinstance(name, str) or not _NAME(name) or not isinstance(value, str) or "\0" in value:
                raise InvalidArgument(f"{name!r:.80} cannot be set as a variable.", hint="Give names and text.")

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        """Use the worker alone. File operations are waited for, a command is not."""
        while True:
            if self._is_closed:
                raise refused("shell-closed", "This shell is closed.", "Open a new one.")
            if self._is_running:
                raise refused(
                    "shell-busy",
                    "A command is running in this shell.",
                    "Wait until it has ended, or use another shell.",
                )
            if self._gate.acquire(timeout=0.02):
                break
        try:
            if self._is_closed:
                raise refused("shell-closed", "This shell is closed.", "Open a new one.")
            yield
        finally:
            self._gate.release()

    @contextlib.contextmanager
    def _translating_errors(self, path: str = "") -> Iterator[None]:
        """Raise errors of the worker as those of the shell."""
        try:
            yield
        except WorkerRefusal as error:
            raise refusal_of(error.kind, error.detail, path) from None
        except WorkerLost as lost:
            raise refused(
                "shell-lost", f"The shell's worker is gone: {lost.why}.", "Try again: it goes on where it was saved."
            ) from lost

    def _ask(self, read: Callable[[Head, _Blobs], _T], blobs: Sequence[bytes] = (), **head: Any) -> _T:
        """Send a request, and `read` its reply."""
        with self._entered(), self._translating_errors(head.get("path", "")):
            return self._checkpoints.connected().ask_for(read, head, blobs)

    def _execute(
        self, head: Head, blobs: Sequence[bytes], running: RunningCommand, should_stop: Callable[[], bool]
    ) -> Outcome:
        checkpoints = self._checkpoints
        try:
            with self._translating_errors():
                connection = checkpoints.connected()
            outcome, reply = self._run_in(connection, head, blobs, running, should_stop, checkpoints.take)
        except WorkerLost as lost:
            checkpoints.drop()
            why = WorkerLost(137, "cancel", "the shell was closed") if self._is_closed else lost
            return running.lost(why, checkpoints.state)
        if over := reply.get("over"):
            checkpoints.go_back()
            return running.over(outcome, over, checkpoints.state)
        if "commit" not in reply and reply.get("is_same") is not True:
            checkpoints.fall_behind()
        checkpoints.tidy()
        return outcome

    def _execute_aside(
        self, head: Head, blobs: Sequence[bytes], running: RunningCommand, should_stop: Callable[[], bool]
    ) -> Outcome:
        """Run a command in a worker of its own, from a copy of the workspace."""
        if self._is_closed or not self._checkpoints.is_current:
            with self._entered(), self._translating_errors():
                self._checkpoints.refresh()
        with self._translating_errors():
            connection = self._checkpoints.start()
        try:
            return self._run_in(connection, head, blobs, running, should_stop, _nothing)[0]
        except WorkerLost as lost:
            return running.lost(lost, "The workspace was not touched.")
        finally:
            connection.close()

    def _run_in(
        self,
        connection: Connection,
        head: Head,
        blobs: Sequence[bytes],
        running: RunningCommand,
        should_stop: Callable[[], bool],
        keep: Callable[[Head, _Blobs], None],
    ) -> tuple[Outcome, Head]:
        """Have a worker run a command: its outcome, and the reply. `keep` gets checkpoints, at the end and before."""

        def hear(event: Head, more: _Blobs) -> tuple[Head, Sequence[bytes]] | None:
            if event["event"] == "checkpoint":
                keep(event, more)
                return None
            try:
                return running.hear(event, more)
            except MetierError as error:
                said = f"{for_anybody(error, error.hint)}\n".encode()
                return {"code": 126, "files": [], "gone": [], "is_late": False}, [b"", said]

        def read(reply: Head, answer: _Blobs) -> tuple[Outcome, Head]:
            outcome = running.ended(reply, answer[:2])
            checked_text(reply.get("over", ""), 2_000)
            if "commit" in reply:
                keep(reply, answer[2:])
            return outcome, reply

        seconds = head["seconds"] + _LATE
        try:
            return connection.ask_for(read, head, blobs, seconds=seconds, should_stop=should_stop, on_event=hear)
        except WorkerRefusal:
            raise WorkerLost(139, "crash", "it sent what nobody sends") from None


def _nothing(_head: Head, _blobs: list[bytes]) -> None:
    """Read nothing from a reply."""


def _entry(path: object, kind: object, size: object, mode: object) -> ShellEntry:
    if kind not in ("file", "folder", "link"):
        raise ValueError("a kind that is none")
    return ShellEntry(
        path=checked_text(path, 8_192), kind=kind, size=checked_number(size, 0, 2**40), mode=checked_mode(mode)
    )


def _skill_files(source: str | os.PathLike[str] | Mapping[str, bytes], limits: ShellLimits) -> LoadedSkillFiles:
    folder = ""
    if isinstance(source, str | os.PathLike):
        folder = os.path.realpath(source)
        files = load(folder, list_folder(folder, limits).records, limits)
    else:
        files = [(normal(path), "f", 0o644, content) for path, content in source.items()]
    return LoadedSkillFiles(with_executable_scripts(files), folder)
