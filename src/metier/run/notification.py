"""A program of a person's own that tells somebody something: no skill and no model has a say in it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def start_notification(
    command: Sequence[str], data: bytes, *, limit: float, environment: Mapping[str, str] | None = None
) -> str:
    """Start a program without a shell, give it data on its input, and wait for it; returns what went wrong, or "".

    After `limit` seconds the program is ended, and all that it started. What it prints is not read.

    >>> import sys
    >>> start_notification([sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"], b"abc", limit=60)
    'It ended with 3.'
    """
    try:
        started = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=None if environment is None else dict(environment),
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


def _end(started: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(started.pid, signal.SIGKILL)
        started.kill()
    started.communicate()
