"""The terminal of a person: live output of scripts, events of agents, questions, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

import metier.guard
from metier.cli.identity import is_at_terminal
from metier.cli.output import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    import anyio

    from metier.guard import Action, Decision, Question
    from metier.run import Outcome
    from metier.run.job import OutputLine
    from metier.session import Event


_CLEAR = "\r\x1b[K"


class LiveOutput:
    """The two streams of this program, written to by a job from any thread.

    `is_silent` shows nothing of what is written, for a program that gets it in one piece at the end.
    """

    def __init__(self, what: str, *, is_silent: bool = False) -> None:
        self._what = what
        self._is_silent = is_silent
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._styles = {name: Style(stream) for name, stream in self._streams.items()}
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._is_line_open = self._is_shown = False
        self._second = 0
        self.failure: OSError | None = None
        """The error of the last write: the reader is gone, or the disk is full."""

    def take(self, line: OutputLine) -> None:
        """Show a line that a job wrote."""
        with self._lock:
            self._printed[line.stream].append(line.text)
            self._write(line.stream, line.text)

    def tick(self) -> None:
        """Print how long it has taken, once a second, if a person looks."""
        second = int(time.monotonic() - self._started)
        with self._lock:
            if second == self._second or self._is_line_open or not self._styles["stderr"].is_terminal:
                return
            self._second = second
            said = f"{Style.text(self._what, 60)}: {second:,} s, Ctrl-C ends it"
            print(f"{_CLEAR}{self._styles['stderr'].dim(said)}", end="", file=sys.stderr, flush=True)
            self._is_shown = True

    def should_stop(self) -> bool:
        """Tell whether nobody reads any more, for a runner that asks while a job runs; print the time meanwhile."""
        self.tick()
        return self.failure is not None

    def end(self, outcome: Outcome | None = None) -> None:
        """Remove the line about time, and print output that did not come as a line."""
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

    def show(self, run: Callable[[], Outcome]) -> Outcome:
        """Run a job while somebody looks; raises where its output could not be written."""
        outcome = None
        try:
            outcome = run()
        finally:
            self.end(outcome)
        if self.failure is not None:
            raise self.failure
        return outcome

    def _untold(self, name: str, text: str) -> str:
        told = "".join(self._printed[name])
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


_LOOK_EVERY = 0.2
"""Seconds between two looks at whether the question still stands."""


class TerminalPrompt:
    """Asks at the terminal, one question at a time; where there is no terminal, the answer is no."""

    def __init__(self) -> None:
        self._asking = threading.Lock()

    @property
    def source(self) -> str:
        """A terminal where this command reads from one, as for commands that decide; else no more than a program.

        Whatever a model starts can open the terminal of its user, and whoever answers there did not start this.
        """
        from metier.guard.question import PROGRAM, TERMINAL

        return TERMINAL if is_at_terminal() else PROGRAM

    def __call__(self, action: Action, decision: Decision) -> bool:
        """Whether it may happen. Called from a worker thread."""
        style = Style(sys.stderr)
        asked = metier.guard.Question.about(action, decision, source=self.source)
        question = harmless(asked.text)
        with self._asking, _terminal() as terminal:
            if terminal is None:
                print(f"{style.warn('not asked')}: {question} Nobody is at a terminal here.", file=sys.stderr)
                return False
            lasts = "Approve of this content, until it changes?" if asked.lasts else "Allow it this time?"
            return _answer(terminal, f"{style.warn('?')} {question}\n  {lasts} [y/N] ").lower() in ("y", "yes")


def ask_line(question: str) -> str:
    """Ask a question at the terminal and return the line that is typed there; empty where there is none."""
    with _terminal() as terminal:
        return _answer(terminal, question) if terminal is not None else ""


def ask_yes(question: str) -> bool:
    """Ask a question at the terminal that only `y` or `yes` agrees to."""
    return ask_line(f"{Style(sys.stderr).warn('?')} {question} [y/N] ").lower() in ("y", "yes")


def at_terminal() -> TerminalPrompt | None:
    """Return a prompt at the terminal; None where there is none, so that questions wait."""
    with _terminal() as terminal:
        return None if terminal is None else TerminalPrompt()


@contextlib.contextmanager
def _terminal() -> Iterator[TextIO | None]:
    """Open the terminal at which a person types, also when the input of this command comes from elsewhere."""
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


def _answer(terminal: TextIO, question: str) -> str:
    _forget_what_was_typed(terminal)
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return _line(terminal).strip()
    except BaseException:
        print(file=sys.stderr)
        raise


def _forget_what_was_typed(terminal: TextIO) -> None:
    """Discard lines that were typed or pasted before the question: they are no answer to it."""
    if os.name != "nt":
        import termios

        termios.tcflush(terminal.fileno(), termios.TCIFLUSH)


def _line(terminal: TextIO) -> str:
    """Read a typed line, unless the run ends first."""
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


_MARKS = {"loaded": "↳", "unloaded": "↰", "read": "·", "ran": "▸", "refused": "✗", "stale": "!", "noted": "!"}


class EventPrinter:
    """Prints the events of one run as they come."""

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._out, self._beside = Style(sys.stdout), Style(sys.stderr)
        self._is_line_open = False
        self._turn: object = None

    def take(self, event: Event) -> None:
        """Show an event."""
        # What waits for an answer is told at the end, with how to go on.
        if self._is_silent or event.code == "approval-pending":
            return
        if event.kind == "text":
            self._text(event)
        elif event.kind in _MARKS:
            self._beside_it(f"{_MARKS[event.kind]} {event.message}", is_bad=event.kind == "refused")
        elif event.kind == "action" and not event.tool.startswith("skills_"):
            self._beside_it(f"→ {event.tool}")

    def end(self) -> None:
        """End the line that is open, whatever became of the run."""
        if self._is_line_open:
            print(flush=True)
            self._is_line_open = False

    def suspended(self, questions: Iterable[Question], way_on: str, tenant: str = "") -> None:
        """Print the questions that a run waits for, and the command that resumes it."""
        style, requests = self._beside, []
        self.end()
        for question in questions:
            print(f"{style.warn('waits')}: {harmless(question.text)}", file=sys.stderr)
            requests += [question.request] if question.request else []
        for request in dict.fromkeys(requests):
            command = f"metier approve show {request}{tenant}"
            print(f"  Request {request}: `{command}` shows what it is about.", file=sys.stderr)
        after = "Once it is granted" if requests else "At a terminal, where you are asked"
        print(f"{style.dim('hint')}: {after}, `{way_on}` goes on.", file=sys.stderr, flush=True)

    def _text(self, event: Event) -> None:
        turn = event.data.get("turn")
        if turn != self._turn:
            # What was said before a tool was called and what is said after it are two things.
            self.end()
            self._turn = turn
        text = harmless(event.message) if self._out.is_terminal else event.message
        print(text, end="", flush=True)
        self._is_line_open = not event.message.endswith("\n")

    def _beside_it(self, text: str, *, is_bad: bool = False) -> None:
        if self._out.is_terminal:
            self.end()
        paint = self._beside.bad if is_bad else self._beside.dim
        print(paint(Style.text(text, 300)), file=sys.stderr, flush=True)


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[anyio.CancelScope]:
    """Let Ctrl-C cancel the work of this block, and nothing else; the scope says whether it was pressed.

    Threads that work for it are told as well, also one that waits for a person to answer.
    """
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:

        def stop(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(scope.cancel)

        try:
            before = signal.signal(signal.SIGINT, stop)
        except ValueError:  # which only the first thread can be told
            yield scope
            return
        try:
            yield scope
        finally:
            signal.signal(signal.SIGINT, before)


def typed_lines(prompt: Callable[[], str], *, is_interactive: bool) -> Iterator[str | None]:
    """Read lines until the input ends; None stands for a line that somebody gave up with Ctrl-C."""
    while True:
        try:
            line = input(prompt() if is_interactive else "")
        except EOFError:
            return
        except KeyboardInterrupt:
            if not is_interactive:
                raise
            print()
            yield None
            continue
        yield line


def complete_lines(matches: Callable[[str], Iterable[str]], delimiters: str) -> None:
    """Let the Tab key complete the words of a typed line, where there is `readline`."""
    with contextlib.suppress(ImportError):
        import readline

        readline.set_completer_delims(delimiters)
        readline.set_completer(lambda text, state: next(islice(matches(text), state, None), None))
        readline.parse_and_bind("tab: complete")
