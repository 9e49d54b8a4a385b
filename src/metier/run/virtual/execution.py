"""Execution and analysis of a command line. This runs in the worker."""

from __future__ import annotations

import time

from bashkit import Bash, BashError, ExecutionProfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metier.run.virtual.channel import Channel, Head

_INPUT = "/dev/.stdin"
_FLOOD, _LEAST_FLOOD = 32, 1024 * 1024
"""A command that writes this many times what is kept has no use for it."""
_BATCH_BYTES, _BATCH_SECONDS = 8_192, 0.02


def execute(bash: Bash, channel: Channel, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
    """Run a command line; its result, and the output that was not passed on yet."""
    command = head["command"]
    if head["stdin"]:
        bash.fs().write_file(_INPUT, blobs[0])
        # A line of its own for each end: the command may begin or end with a comment or a heredoc.
        command = f"{{\n{command}\n}} < {_INPUT}"
    before = bash.shell_state().env if head["env"] else {}
    for name, value in head["env"].items():
        bash.set_env(name, value)
    sender = _OutputSender(bash, channel, head["keep"], is_told_at_once=head["is_streamed"])
    started = time.process_time()
    result = bash.execute_sync(command, on_output=sender.take)
    used = time.process_time() - started
    # Cancelled by what it writes too much, or by a program outside that took all the time.
    bash.clear_cancel()
    if head["stdin"]:
        bash.fs().remove(_INPUT)
    for name in head["env"]:
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


def analysis(script: str) -> Head:
    """The commands that a script names, and whether it hides some."""
    bash = _analyst()
    try:
        found = bash.analyze(script)
    except BashError as error:
        return {"is_opaque": True, "names": [], "known": [], "why": str(error)[:200]}
    names = sorted({command.name for command in found.commands if command.name is not None})
    dynamic = found.is_opaque or any(
        command.name is None and not command.is_assignment_only for command in found.commands
    )
    known = [name for name in names if name in found.functions or _is_builtin(bash, name)]
    return {"is_opaque": dynamic, "names": names, "known": known, "why": ""}


_analysts: list[Bash] = []
_builtins: dict[str, bool] = {}


def _analyst() -> Bash:
    if not _analysts:
        # The profile without a cap on the number of calls.
        _analysts.append(Bash(profile=ExecutionProfile.Interactive, timeout_seconds=5))
    return _analysts[0]


def _is_builtin(bash: Bash, name: str) -> bool:
    if not _is_word(name):
        return False
    if name not in _builtins:
        _builtins[name] = bash.execute_sync(f"type -t {name}").stdout.strip() in ("builtin", "keyword", "file")
    return _builtins[name]


def _is_word(name: str) -> bool:
    return name in (".", ":", "[", "[[") or (name.replace("-", "").replace("_", "").isalnum() and name.isascii())
