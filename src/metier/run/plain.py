"""PlainRunner: a process without isolation and without the host's environment, with bounded time and output.

The job gets a session and process group of its own, a bounded time and bounded output, and on Linux the limits that
the kernel keeps for each process. It can still read what this user can read, and reach the network.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.run.environment import base_environment
from metier.run.job import CANNOT_START, TIMED_OUT, Outcome, Runner, RunnerCapabilities
from metier.run.output import OutputReader, input_of, outcome_of, streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import Job, Limits, OutputLine

_GRACE = 0.2
"""Seconds between the request to end and the end, for a job that took too long."""
_DRAIN = 0.5
"""Seconds to read what is left in the pipes when the job has ended but somebody holds them open."""
_MARK = "METIER_JOB"
"""A variable by which processes of a job are known that have left its process group."""
_MOST_ENVIRONMENT = 8 * 1024 * 1024
"""More than Linux lets a process begin with."""
_ROUNDS, _PAUSE = 10, 0.002
"""Rounds of looking for processes that left a job's group, and the seconds between when one is not known yet."""

_Cause: TypeAlias = Literal["timeout", "output", "cancel"]


class PlainRunner(Runner):
    """Runs jobs as plain processes of this user. Use it only for scripts that you would run by hand.

    >>> from metier.run import Job
    >>> PlainRunner().run_blocking(Job(argv=("echo", "hello"), folder="/")).stdout
    'hello\\n'
    """

    name = "plain"

    def capabilities(self) -> RunnerCapabilities:
        """Nothing is promised: memory is bounded by process only, and a process that hides well can outlive its job."""
        return RunnerCapabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked some twenty times a second, and ends it."""
        started = time.monotonic()
        mark = secrets.token_hex(16)
        try:
            process = _start(job, mark)
        except (OSError, ValueError, TypeError) as error:
            return Outcome(exit_code=CANNOT_START, stderr=_why(job, error), runner=self.name)
        written = streams(job.limits.output_bytes, on_output)
        reader = None
        try:
            # Twice the time on each processor: no job within its time reaches it, and one that got away stops burning.
            seconds = math.ceil(2 * job.limits.bounded_seconds * (os.cpu_count() or 1)) + 1
            limit_process(
                process.pid,
                # Not the address space: interpreters reserve far more of it than they use.
                DATA=job.limits.memory_bytes,
                FSIZE=job.limits.file_bytes,
                NOFILE=job.limits.open_files,
                CPU=seconds,
                CORE=0,
            )
            reader = OutputReader((process.stdout, process.stderr), written)
            cause = _watch(process, job.limits, reader, should_stop, started)
        except BaseException:
            _end(process, reader, mark, "cancel")
            raise
        code = _end(process, reader, mark, cause)
        exit_code = TIMED_OUT if cause == "timeout" else 128 - code if code < 0 else code
        killed_by = cause or ("signal" if code < 0 else None)
        return outcome_of(written, exit_code, killed_by, started=started, runner=self.name)


def _start(job: Job, mark: str) -> subprocess.Popen[bytes]:
    if not job.argv or not all(isinstance(part, str) for part in job.argv) or not job.argv[0]:
        raise ValueError("a job needs a program, and arguments that are text")
    if not all(isinstance(name, str) for name in job.env):
        # As bytes, a name could stand there twice, and whose value counts would be up to the program.
        raise TypeError("the names of environment variables are text")
    env = {**base_environment(job.folder), **job.env, _MARK: mark}
    program = job.argv[0]
    flags = 0
    if sys.platform == "win32":
        import shutil

        # Windows would look in this process's folder and path, not in the job's.
        program = shutil.which(program, path=env["PATH"]) or program
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
    with input_of(job.stdin) as stdin:
        return subprocess.Popen(
            (program, *job.argv[1:]),
            cwd=job.folder,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            creationflags=flags,
        )


def _why(job: Job, error: Exception) -> str:
    program = str(job.argv[0])[:200] if job.argv else ""
    if not isinstance(error, OSError):
        return f"Cannot start {program!r}: {error}."
    if not os.path.isdir(job.folder):
        return f"Cannot start {program!r}: the working folder {job.folder!r} does not exist."
    return f"Cannot start {program!r}: {error.strerror or error}."


def limit_process(pid: int, **limits: int) -> None:
    """Set the limits of the kernel for a process and its children, by their names; only Linux has a safe way to.

    It happens right after the start, not between fork and exec, where code of a program with threads may not run.
    """
    if sys.platform != "linux":
        return
    import resource

    for name, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.prlimit(pid, kind)[1]
            bound = max(0, most) if hard == resource.RLIM_INFINITY else min(max(0, most), hard)
            resource.prlimit(pid, kind, (bound, bound))


def _watch(
    process: subprocess.Popen[bytes],
    limits: Limits,
    reader: OutputReader,
    should_stop: Callable[[], bool] | None,
    started: float,
) -> _Cause | None:
    """Wait until the job ends by itself (None), or say why it must be ended."""
    deadline = started + limits.bounded_seconds
    pause = 0.001
    while not _has_ended(process):
        if should_stop is not None and should_stop():
            return "cancel"
        if reader.is_flooded:
            return "output"
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        # A job closes its output when it ends, which wakes this; the pause is for one that somebody outlives.
        if reader.woken.wait(min(pause, left)):
            reader.woken.clear()
            pause = 0.001
        pause = min(pause * 2, 0.05)
    return None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the job's first process has ended, leaving it unburied: its id must not pass to a stranger yet."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _end(process: subprocess.Popen[bytes], reader: OutputReader | None, mark: str, cause: _Cause | None) -> int:
    """Leave no process of the job behind, and read what it wrote, in bounded time; the code that the first left."""
    if cause in ("timeout", "cancel"):
        _signal_group(process, "SIGTERM")
        deadline = time.monotonic() + _GRACE
        while not _has_ended(process) and time.monotonic() < deadline:
            time.sleep(0.005)
    _signal_group(process, "SIGKILL")
    _kill_marked(process, mark)
    # A process can be stuck in the kernel, where no signal reaches it.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_DRAIN)
    if reader is not None and not reader.wait(_DRAIN):
        reader.give_up()
    return -9 if process.returncode is None else process.returncode


def _signal_group(process: subprocess.Popen[bytes], name: Literal["SIGTERM", "SIGKILL"]) -> None:
    if sys.platform == "win32":
        if name == "SIGKILL":
            subprocess.run(
                ["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False, timeout=10
            )
            process.kill()
        return
    # A group whose members are all dead is gone, or on macOS forbidden.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.Signals[name])


def _kill_marked(process: subprocess.Popen[bytes], mark: str) -> None:
    """End what has left the job's process group; on Linux it is known by the environment that it was born with."""
    if sys.platform != "linux":
        return
    wanted = f"\0{_MARK}={mark}\0".encode()
    _, begun = _life(str(process.pid))
    for _ in range(_ROUNDS):
        found = in_between = False
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            environment = _environment(entry)
            if environment == b"\0":
                # While it turns into another program, a process shows none.
                is_alive, started = _life(entry)
                in_between = in_between or (is_alive and started >= begun)
            if wanted not in environment:
                continue
            # The descriptor keeps meaning the same process, however fast ids are used again.
            with contextlib.suppress(OSError):
                held = os.pidfd_open(int(entry))
                try:
                    if wanted in _environment(entry):
                        signal.pidfd_send_signal(held, signal.SIGKILL)
                finally:
                    os.close(held)
            found = True
        if not found and not in_between:
            return
        if not found:
            time.sleep(_PAUSE)


def _environment(pid: str) -> bytes:
    """The variables that a process was born with, between zeros; none if it has ended or is somebody else's."""
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    data = bytearray(b"\0")
    try:
        # To its end: a shell writes its variables in any order, and a job may have been given large ones.
        while len(data) < _MOST_ENVIRONMENT and (chunk := os.read(descriptor, 65_536)):
            data += chunk
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return bytes(data)


def _life(pid: str) -> tuple[bool, int]:
    """The life of a process: if it is alive, and its start in ticks since the machine's."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4_096).rpartition(b")")[2].split()
        return fields[0] not in (b"Z", b"X"), int(fields[19])
    except (OSError, ValueError, IndexError):
        return False, 0
