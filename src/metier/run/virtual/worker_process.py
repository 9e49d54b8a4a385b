"""The process of a worker: its start, its sandbox, and its exit.

A worker needs nothing but its interpreter and its socket: it writes no file, reads none after its imports, and reaches
nobody. So it runs in any sandbox. The interpreter keeps scripts from the machine, and the sandbox keeps the interpreter
from it: if it is taken over, there is nothing to take.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

from metier.errors import MetierError, ShellUnavailable
from metier.hints import for_people, for_person
from metier.run.environment import own_python, package_folder
from metier.run.job import Job, JobPath, Limits, RunnerCapabilities
from metier.run.plain import limit_process

if TYPE_CHECKING:
    from metier.run.job import KilledBy
    from metier.run.native.request import Tier

MEMORY_BYTES = 768 * 1024 * 1024
"""The memory of a worker: a large stack, its files, and the data of running commands."""
PROCESSES = 32
"""The interpreter has threads, which count as processes."""
OPEN_FILES = 256
"""Each interpreter and each folder that is kept has a few."""
CAPABILITIES = RunnerCapabilities(
    isolates_files=True,
    hides_files=True,
    isolates_network=True,
    isolates_processes=True,
    kills_descendants=True,
    limits_memory=sys.platform == "linux",
    limits_processes=True,
    limits_disk=True,
    filters_calls=True,
    how="a bash interpreter over files in memory, in a process of its own",
)
"""The guarantees for a job in a worker that works."""
_PATIENCE = 1.0
"""Seconds that one has to end by itself after it hung up."""
_IMPORTED = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
for name, folder in packages.items():
    spec = spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
from metier.run.virtual.worker import main
main()
"""
"""The packages are named one by one, as the folders that they are in may not be there to be searched."""
_OUT_OF_MEMORY = b"memory allocation of"
"""The beginning of the interpreter's last message when it gets no more memory."""
_MOST_SAID = 300


class WorkerLost(Exception):
    """The loss of a worker, with all its files; `stderr` is the end of its error output."""

    def __init__(self, exit_code: int, killed_by: KilledBy, why: str, stderr: str = "") -> None:
        super().__init__(why)
        self.exit_code, self.killed_by, self.why, self.stderr = exit_code, killed_by, why, stderr


class Worker(Protocol):
    """A worker that was started."""

    channel: socket.socket
    """Our end of a socket pair whose other end is the worker's standard input."""

    def kill(self) -> None:
        """End it at once; no harm if it has ended."""
        ...

    def wait(self) -> WorkerLost:
        """Wait until it is gone; the way it ended."""
        ...


def start_worker() -> Worker:
    """Start a worker, in a sandbox where one can be made; raises `ShellUnavailable` without an interpreter."""
    command, tier = worker_command(), sandbox_tier()
    if tier is not None:
        with contextlib.suppress(OSError):
            return SandboxedWorker(command, tier)
    return PlainWorker(command)


@functools.cache
def sandbox_tier() -> Tier | None:
    """The kind of sandbox for workers; None if none can be made here."""
    if sys.platform != "linux":
        return None
    from metier.run.native.runner import BEST, NativeRunner, probe

    probe(BEST)  # a worker whose sandbox cannot be made has none around it
    return NativeRunner().tier


def worker_packages() -> dict[str, str]:
    """The folders of the two packages that a worker reads from: this one, and the interpreter."""
    found = importlib.util.find_spec("bashkit")
    if found is None or found.origin is None:
        raise ShellUnavailable(
            "The virtual shell is not installed.",
            hint=for_people("Install it with: pip install 'metier[shell]'"),
            package="bashkit",
        )
    return {"metier": os.path.join(package_folder(), "metier"), "bashkit": os.path.dirname(found.origin)}


def worker_command() -> tuple[str, ...]:
    """The command of a worker, which reads from its two packages and from nowhere else."""
    return (own_python(), "-I", "-S", "-c", f"packages = {worker_packages()!r}\n{_IMPORTED}")


def unavailable(error: Exception) -> RunnerCapabilities:
    """The capabilities of a virtual shell that does not work: none, with the reason."""
    if isinstance(error, MetierError):
        return RunnerCapabilities(how=f"{error} {for_person(error.hint)}".strip())
    return RunnerCapabilities(how=f"Its worker is gone: {error}.")


class SandboxedWorker:
    """A worker in a sandbox, which sees its own packages and nothing else; raises `OSError` where none can be made."""

    def __init__(self, command: tuple[str, ...], tier: Tier) -> None:
        from metier.run.native.launcher import launch
        from metier.run.native.request import request_for

        packages = tuple(worker_packages().values())
        job = Job(
            argv=command,
            # It has no use for a working folder, and this one it cannot write to.
            folder=packages[0],
            places=tuple(JobPath(os.path.realpath(path), at=path) for path in packages),
            limits=Limits(
                memory_bytes=MEMORY_BYTES,
                processes=PROCESSES,
                file_bytes=0,
                disk_bytes=1024 * 1024,
                open_files=OPEN_FILES,
            ),
        )
        request = request_for(job, tier, is_endless=True)
        self.channel, theirs = socket.socketpair()
        self._errors, errors = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            with theirs, open(errors, "wb"), open(os.devnull, "wb") as null:
                self._sandbox = launch(request, (theirs.fileno(), null.fileno(), errors))
        except BaseException:
            self.channel.close()
            os.close(self._errors)
            raise

    def kill(self) -> None:
        """End it at once; no harm if it has ended."""
        self._sandbox.kill()

    def wait(self) -> WorkerLost:
        """Wait until it is gone; the way it ended."""
        report = self._sandbox.wait_for_report(_PATIENCE)
        self.kill()
        errors = _last_words(self._errors) or report.get("failed", "").encode()
        os.close(self._errors)
        self._sandbox.close()
        try:
            code = os.waitstatus_to_exitcode(int(report["status"]))
        except (KeyError, ValueError):
            code = -9
        return _loss(code, errors, is_memory=report.get("killed_by") == "memory")


class PlainWorker:
    """A worker that is a plain process: an empty environment, a session of its own, and limits where there are some."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.channel, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _started(command, theirs)
        except OSError as error:
            self.channel.close()
            raise ShellUnavailable(
                f"The virtual shell cannot be started: {error.strerror or error}.",
                hint="Check that this Python can start itself.",
            ) from error
        limit_process(self._process.pid, DATA=MEMORY_BYTES, FSIZE=0, NOFILE=OPEN_FILES, CORE=0)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once; no harm if it has ended."""
        self._process.kill()

    def wait(self) -> WorkerLost:
        """Wait until it is gone; the way it ended."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        errors = b""
        if self._process.stderr is not None:
            with self._process.stderr as pipe:
                errors = _last_words(pipe.fileno())
        return _loss(code, errors, is_memory=code == -getattr(signal, "SIGKILL", 9))


def _last_words(errors: int) -> bytes:
    """The error output of a worker that has ended; something else may still hold the pipe open."""
    with contextlib.suppress(OSError):
        os.set_blocking(errors, False)
        return os.read(errors, 65_536)
    return b""


def _loss(code: int, errors: bytes, *, is_memory: bool) -> WorkerLost:
    text = errors.decode(errors="replace").strip()[-_MOST_SAID:]
    if is_memory or _OUT_OF_MEMORY in errors or b"MemoryError" in errors:
        return WorkerLost(137, "memory", "it ran out of memory", text)
    return WorkerLost(128 - code if code < 0 else 139, "crash", "it crashed", text)


def _started(command: tuple[str, ...], theirs: socket.socket) -> subprocess.Popen[bytes]:
    if sys.platform == "win32":
        needed = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        process = subprocess.Popen(
            command, env=needed, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with process.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(theirs.share(process.pid))
        return process
    return subprocess.Popen(
        command,
        env={},
        cwd="/",
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        close_fds=True,
        start_new_session=True,
    )
