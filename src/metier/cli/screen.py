"""What a script writes, shown as it comes; to a person at a terminal it is harmless, and says how long it takes."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from metier.cli.output import Style

if TYPE_CHECKING:
    from metier.run import Outcome
    from metier.run.job import OutputLine

_CLEAR = "\r\x1b[K"


class Screen:
    """The two streams of this program, written to by a job from any thread.

    `is_silent` shows nothing of what is written, for a program that gets it in one piece at the end.
    """

    def __init__(self, what: str, *, is_silent: bool = False) -> None:
        self._what = what
        self._is_silent = is_silent
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._styles = {name: Style(stream) for name, stream in self._streams.items()}
        self._told: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._is_line_open = self._is_shown = False
        self._second = 0
        self.failure: OSError | None = None
        """Why nothing more can be written: whoever read it is gone, or the disk is full."""

    def take(self, line: OutputLine) -> None:
        """Show a line that a job wrote."""
        with self._lock:
            self._told[line.stream].append(line.text)
            self._write(line.stream, line.text)

    def tick(self) -> None:
        """Say how long it has taken, once a second, if somebody looks."""
        second = int(time.monotonic() - self._started)
        with self._lock:
            if second == self._second or self._is_line_open or not self._styles["stderr"].is_terminal:
                return
            self._second = second
            said = f"{Style.text(self._what, 60)}: {second:,} s, Ctrl-C ends it"
            print(f"{_CLEAR}{self._styles['stderr'].dim(said)}", end="", file=sys.stderr, flush=True)
            self._is_shown = True

    def end(self, outcome: Outcome | None = None) -> None:
        """Take away what was said about time, and show what of an outcome was not told as a line."""
        with self._lock:
            if outcome is not None:
                self._write("stdout", self._untold("stdout", outcome.stdout))
                # A runner's own words, which need not end their line.
                said = self._untold("stderr", outcome.stderr)
                self._write("stderr", f"{said}\n" if said and not said.endswith("\n") else said)
            self._clear()
            if self._is_line_open and all(style.is_terminal for style in self._styles.values()):
                # What is said next must not look like a part of what the script said last.
                print(file=sys.stderr, flush=True)
                self._is_line_open = False

    def _untold(self, name: str, text: str) -> str:
        told = "".join(self._told[name])
        return text[len(told) :] if text.startswith(told) else ""

    def _write(self, name: str, text: str) -> None:
        if not text or self._is_silent or self.failure is not None:
            return
        self._clear()
        stream: Any = self._streams[name]
        try:
            stream.write(harmless(text) if self._styles[name].is_terminal else text)
            stream.flush()
        except OSError as error:
            self.failure = error
        if self._styles[name].is_terminal:
            self._is_line_open = not text.endswith("\n")

    def _clear(self) -> None:
        if self._is_shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._is_shown = False


def harmless(text: str) -> str:
    """Text of a stranger without what acts on a terminal; lines and tabs stay.

    >>> harmless("a\\tb\\x1b[2J\\r\\n")
    'a\\tb\\\\x1b[2J\\n'
    """
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return "\n".join("\t".join(Style.text(part, len(part) + 1) for part in line.split("\t")) for line in lines)
