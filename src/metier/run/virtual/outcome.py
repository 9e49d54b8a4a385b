"""The outcome of a command, from the replies of its worker or from its loss."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from metier.run.job import TIMED_OUT, Usage
from metier.run.output import outcome_of, streams
from metier.run.virtual.native_bridge import checked_request, run_natively
from metier.run.virtual.validation import checked_milliseconds, checked_number, checked_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.run.job import KilledBy, Outcome, OutputLine, Runner
    from metier.run.virtual.channel import Head
    from metier.run.virtual.native_bridge import LoadedSkillFiles
    from metier.run.virtual.validation import ShellLimits
    from metier.run.virtual.worker_process import WorkerLost

RUNNER = "virtual"
_SYNTAX_ERROR = 2
_FAILURES = (
    (re.compile(r"execution timeout"), "It exceeds its limit of {seconds:g} seconds."),
    (re.compile(r"maximum command count exceeded \((\d+)\)"), "It exceeds the limit of {0} commands."),
    (
        re.compile(r"maximum (?:total )?loop iterations exceeded \((\d+)\)"),
        "It exceeds the limit of {0} turns of loops.",
    ),
    (
        re.compile(r"maximum function depth exceeded \((\d+)\)"),
        "It exceeds the limit of {0} functions inside one another.",
    ),
    (re.compile(r"memory limit exceeded: (.{1,100})"), "It exceeds a limit of the interpreter: {0}."),
)
"""Failures of the interpreter, and their sentences."""


class RunningCommand:
    """A running command: its output so far, the native programs that it asks for, and its outcome.

    `skills` returns those that native programs see, by their paths, when one is run.
    """

    def __init__(
        self,
        limits: ShellLimits,
        on_output: Callable[[OutputLine], None] | None,
        *,
        native: Runner | None,
        skills: Callable[[], Mapping[str, LoadedSkillFiles]],
        should_stop: Callable[[], bool] | None,
        seconds: float | None = None,
    ) -> None:
        self._limits, self._seconds = limits, limits.seconds if seconds is None else seconds
        self._native, self._skills, self._should_stop = native, skills, should_stop
        self._streams = streams(limits.output_bytes, on_output)
        self._started = time.monotonic()
        self._late: tuple[bytes, bytes] | None = None

    def take(self, blobs: Sequence[bytes]) -> None:
        """Add output."""
        out, err = blobs
        for stream, blob in zip(self._streams, (out, err), strict=True):
            if blob:
                stream.feed(blob)

    def hear(self, event: Head, blobs: Sequence[bytes]) -> tuple[Head, Sequence[bytes]] | None:
        """Handle an event of the worker: output, or a native program, whose result is the answer."""
        if event["event"] == "output":
            self.take(blobs)
            return None
        if event["event"] != "native" or self._native is None:
            raise ValueError("an event that is none")
        reply, out, err = run_natively(
            checked_request(event, blobs),
            self._native,
            skills=self._skills(),
            limits=self._limits,
            seconds=self._started + self._seconds - time.monotonic(),
            should_stop=self._should_stop,
        )
        if reply["is_late"]:
            # The command line ends there, and with it all that this output was for: it is kept here.
            self._late, out, err = (out, err), b"", b""
        return reply, [out, err]

    def ended(self, reply: Head, blobs: Sequence[bytes]) -> Outcome:
        """The outcome by the worker's reply; raises `ValueError` if that is invalid."""
        self.take(blobs)
        code = checked_number(reply["code"], -(2**31), 2**32) & 0xFF
        failure = checked_text(reply["failure"], 10_000)
        used = checked_milliseconds(reply["cpu_ms"])
        if reply["is_flooded"] is True:
            return self._outcome(137, "output", "It writes far more than is kept.", used)
        if not failure and self._late is None:
            return self._outcome(code, None, "", used)
        failure = failure if self._late is None else "execution timeout"
        is_late = "execution timeout" in failure
        is_wrong = failure.startswith("parse error")
        text = f"bash: syntax error: {failure}" if is_wrong and "syntax error" not in failure else failure
        for pattern, sentence in _FAILURES:
            if found := pattern.search(failure):
                text = f"The command is ended. {sentence.format(*found.groups(), seconds=self._seconds)}"
        if is_late:
            return self._outcome(TIMED_OUT, "timeout", text, used)
        return self._outcome(_SYNTAX_ERROR if is_wrong else code or 1, None, text, used)

    def lost(self, lost: WorkerLost, state: str) -> Outcome:
        """The outcome of a command whose worker died with it."""
        if lost.killed_by == "timeout":
            text = f"The command is ended. It exceeds its limit of {self._seconds:g} seconds. {state}"
        elif lost.killed_by == "cancel":
            text = f"The command was stopped. {state}"
        else:
            text = f"The command ended the shell's interpreter: {lost.why}. {state}"
        return self._outcome(lost.exit_code, lost.killed_by, text, 0.0)

    def over(self, outcome: Outcome, why: str, state: str) -> Outcome:
        """The outcome of a command that exceeded a limit, and was undone."""
        return self._outcome(outcome.exit_code or 1, outcome.killed_by, f"{why} {state}", outcome.usage.cpu_ms)

    def _outcome(self, code: int, killed_by: KilledBy | None, said: str, cpu_ms: float) -> Outcome:
        if self._late is not None:
            self.take(self._late)
        out, err = self._streams
        if said:
            err.feed(f"{said}\n".encode("utf-8", "replace"))
        out.finish()
        err.finish()
        text = err.text()
        if said and said not in text:
            text = f"{text}\n{said}\n"  # what happened is worth more than the cap
        usage = Usage(cpu_ms=cpu_ms)
        return outcome_of(
            self._streams, code, killed_by, started=self._started, stderr=text, runner=RUNNER, usage=usage
        )
