"""Execution and analysis of a command line. This runs in the worker."""

from __future__ import annotations

import functools
import time

from bashkit import Bash, BashError, ExecutionProfile

from metier.run.virtual.extra_commands import extra_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from bashkit import FileSystem

    from metier.run.virtual.channel import Channel, Head

    Reply: TypeAlias = tuple[Head, list[bytes]]

_INPUT = "/dev/.stdin"
_FLOOD, _LEAST_FLOOD = 32, 1024 * 1024
"""A command that writes this many times what is kept has no use for it."""
_BATCH_BYTES, _BATCH_SECONDS = 8_192, 0.02


def new_interpreter(
    settings: Head,
    channel: Channel,
    mounts: Mapping[str, FileSystem],
    cancel: Callable[[], None],
    *,
    folder: str,
    env: Mapping[str, str],
    seconds: float | None = None,
) -> Bash:
    """A bash interpreter with the commands that it lacks; `cancel` ends the command line that is run by it."""
    return Bash(
        username="user",
        hostname="sandbox",
        cwd=folder,
        env=dict(env),
        # This profile has no cap on the number of calls; what else it lifts is set here.
        profile=ExecutionProfile.Interactive,
        max_commands=settings["commands"],
        max_loop_iterations=settings["loop_turns"],
        timeout_seconds=settings["seconds"] if seconds is None else seconds,
        custom_builtins=extra_commands(settings, channel, mounts, cancel),
    )


def execute(
    bash: Bash,
    channel: Channel,
    stdin: bytes,
    *,
    command: str,
    env: Mapping[str, str],
    keep: int,
    is_streamed: bool,
) -> Reply:
    """Run a command line; its result, and the output that was not passed on yet."""
    if stdin:
        bash.fs().write_file(_INPUT, stdin)
        # A line of its own for each end: the command may begin or end with a comment or a heredoc.
        command = f"{{\n{command}\n}} < {_INPUT}"
    before = bash.shell_state().env if env else {}
    for name, value in env.items():
        bash.set_env(name, value)
    sender = _OutputSender(bash, channel, keep, is_told_at_once=is_streamed)
    started = time.process_time()
    result = bash.execute_sync(command, on_output=sender.take)
    used = time.process_time() - started
    # Cancelled by what it writes too much, or by a program outside that took all the time.
    bash.clear_cancel()
    if stdin:
        bash.fs().remove(_INPUT)
    for name in env:
        if name in before:
            bash.set_env(name, before[name])
        else:
            bash.execute_sync(f"unset {name}")
    reply = {
        "code": result.exit_code,
        "failure": result.error or "",
        "is_flooded": sender.is_flooded,
        "cpu_ms": used * 1000,
    }
    return reply, sender.rest()


class _OutputSender:
    """Passes on the output of a command, a bit at a time, so that it is not lost when the process is."""

    def __init__(self, bash: Bash, channel: Channel, keep: int, *, is_told_at_once: bool) -> None:
        self._bash, self._channel, self._keep = bash, channel, keep
        self._batch = (0, 0.0) if is_told_at_once else (_BATCH_BYTES, _BATCH_SECONDS)
        self._parts: tuple[list[str], list[str]] = ([], [])
        self._waiting, self._written = 0, [0, 0]
        self._told = time.monotonic()
        self.is_flooded = False

    def take(self, out: str, err: str) -> None:
        """Add output of the two streams."""
        for stream, text in enumerate((out, err)):
            if not text:
                continue
            # One byte more than is kept says that there was more.
            left = self._keep + 1 - self._written[stream]
            self._written[stream] += len(text)
            if left > 0:
                self._parts[stream].append(text[:left])
                self._waiting += min(len(text), left)
        if max(self._written) > max(self._keep * _FLOOD, _LEAST_FLOOD) and not self.is_flooded:
            self.is_flooded = True
            self._bash.cancel()
        size, seconds = self._batch
        if self._waiting and (self._waiting >= size or time.monotonic() - self._told >= seconds):
            self._channel.send({"event": "output"}, self.rest())
            self._told = time.monotonic()

    def rest(self) -> list[bytes]:
        """The output that was not passed on yet."""
        rest = ["".join(part).encode("utf-8", "replace") for part in self._parts]
        for part in self._parts:
            part.clear()
        self._waiting = 0
        return rest


def analysis(script: bytes) -> Reply:
    """The commands that a script names, and whether it hides some."""
    try:
        found = _analyst().analyze(script.decode())
    except BashError:
        return {"is_opaque": True, "names": [], "known": []}, []
    names = sorted({command.name for command in found.commands if command.name is not None})
    dynamic = found.is_opaque or any(
        command.name is None and not command.is_assignment_only for command in found.commands
    )
    known = [name for name in names if name in found.functions or _is_builtin(name)]
    return {"is_opaque": dynamic, "names": names, "known": known}, []


@functools.cache
def _analyst() -> Bash:
    # The profile without a cap on the number of calls.
    return Bash(profile=ExecutionProfile.Interactive, timeout_seconds=5)


@functools.cache
def _is_builtin(name: str) -> bool:
    is_word = name in (".", ":", "[", "[[") or (name.replace("-", "").replace("_", "").isalnum() and name.isascii())
    kinds = ("builtin", "keyword", "file")
    return is_word and _analyst().execute_sync(f"type -t {name}").stdout.strip() in kinds
