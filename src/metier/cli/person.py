"""The person at the terminal, asked before something happens that policy says to ask about."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from metier.cli.identity import is_at_terminal
from metier.cli.output import Style
from metier.cli.screen import harmless
from metier.guard import Question
from metier.guard.question import PROGRAM, TERMINAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard import Action, Decision

_LOOK_EVERY = 0.2
"""Seconds between two looks at whether the question still stands."""


class Person:
    """Asks at the terminal, one question at a time; where there is no terminal, the answer is no."""

    def __init__(self) -> None:
        self._asking = threading.Lock()

    @property
    def source(self) -> str:
        """A terminal where this command reads from one, as for commands that decide; else no more than a program.

        Whatever a model starts can open the terminal of its user, and whoever answers there did not start this.
        """
        return TERMINAL if is_at_terminal() else PROGRAM

    def __call__(self, action: Action, decision: Decision) -> bool:
        """Whether it may happen. Called from a worker thread."""
        style = Style(sys.stderr)
        asked = Question.about(action, decision, source=self.source)
        question = harmless(asked.text)
        with self._asking, _terminal() as terminal:
            if terminal is None:
                print(f"{style.warn('not asked')}: {question} Nobody is at a terminal here.", file=sys.stderr)
                return False
            _forget_what_was_typed(terminal)
            lasts = "Approve of this content, until it changes?" if asked.lasts else "Allow it this time?"
            print(f"{style.warn('?')} {question}\n  {lasts} [y/N] ", end="", file=sys.stderr, flush=True)
            try:
                return _line(terminal).strip().lower() in ("y", "yes")
            except BaseException:
                print(file=sys.stderr)
                raise


def at_terminal() -> Person | None:
    """The person at the terminal; None where there is no terminal, so that what has to be asked waits."""
    with _terminal() as terminal:
        return None if terminal is None else Person()


@contextlib.contextmanager
def _terminal() -> Iterator[TextIO | None]:
    """Where a person types, also when what this command reads comes from elsewhere."""
    if sys.stdin.isatty():
        yield sys.stdin
        return
    try:
        terminal = open("CONIN$" if os.name == "nt" else "/dev/tty", encoding=sys.stdin.encoding)  # noqa: SIM115
    except OSError:
        yield None
        return
    with terminal:
        yield terminal


def _forget_what_was_typed(terminal: TextIO) -> None:
    """What was typed or pasted before a question stood there is no answer to it."""
    if os.name != "nt":
        import termios

        termios.tcflush(terminal.fileno(), termios.TCIFLUSH)


def _line(terminal: TextIO) -> str:
    """What is typed, until the line or the run ends."""
    if os.name == "nt":
        return terminal.readline()
    import select

    from anyio import NoEventLoopError
    from anyio.from_thread import check_cancelled

    typed = terminal.fileno()
    while not select.select([typed], [], [], _LOOK_EVERY)[0]:
        with contextlib.suppress(NoEventLoopError):  # then there is no run that could have ended meanwhile
            check_cancelled()
    # Not by the stream, which may hold lines that were pasted.
    return os.read(typed, 4_096).decode(errors="replace").partition("\n")[0]
