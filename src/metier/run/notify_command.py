"""Runs the notify command of a policy or of `metier waiting`: no skill and no model has a say in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOKEN = "METIER_API_TOKEN"
_AT_ONCE = 8
_slots = threading.BoundedSemaphore(_AT_ONCE)


def run_notify_command(command: Sequence[str], data: bytes, *, limit: float, folder: str | None = None) -> str:
    """Run a program without a shell, with data on its input, and wait for it; returns the problem, or "".

    After `limit` seconds the program is ended, and all that it started. Its output is not read. It runs in `folder`, by
    default in the working folder, and without the token of the user: it need not decide.

    >>> import sys
    >>> run_notify_command([sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"], b"abc", limit=60)
    'It ended with 3.'
    """
    try:
        started = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != _TOKEN},
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"It cannot be started: {error}."
    try:
        started.communicate(data, timeout=limit)
    except subprocess.TimeoutExpired:
        _end(started)
        return f"It did not end within {limit:g} s."
    return f"It ended with {started.returncode}." if started.returncode else ""


def start_notify_command(
    command: Sequence[str], data: bytes, *, limit: float, failed: Callable[[str], None]
) -> threading.Thread:
    """Start the program of a policy, and wait for it in a thread, which calls `failed` with a problem.

    No project has a say in it: its working folder is the root, and a name is looked up in the absolute folders of the
    PATH. The end of this process waits for the thread, and so for at most twice the limit.
    """

    def run() -> None:
        if not _slots.acquire(timeout=limit):
            failed(f"{_AT_ONCE} others have been running for {limit:g} s.")
            return
        try:
            folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
            program = shutil.which(command[0], path=os.pathsep.join(folders))
            root = os.path.abspath(os.sep)
            problem = (
                run_notify_command([program, *command[1:]], data, limit=limit, folder=root)
                if program is not None and os.path.isabs(program)  # Windows looks in the working folder first
                else "It is no program, or not on the PATH."
            )
        finally:
            _slots.release()
        if problem:
            failed(problem)

    thread = threading.Thread(target=run, name="metier-notification")
    thread.start()
    return thread


def _end(started: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(started.pid, signal.SIGKILL)
        started.kill()
    # The rest of the input is not written: an escaped child may still hold the pipe, and never read.
    with contextlib.suppress(OSError):
        if started.stdin is not None:
            started.stdin.close()
    started.wait()
