"""Output of commands: colour, tables that fit the terminal, JSON, errors, progress, and escaped text of strangers."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Self, TextIO

from metier._lazy import asdict
from metier._paths import is_inside
from metier.cli.layout import columns_of, pad, row_lines, width_of, wrap_line
from metier.hints import for_person
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from metier.skill import Diagnostic

_WIDE = 10_000
_OUTCOMES = {
    "good": "activated active added allow applied approved automatic called counts granted isolates listed made ok "
    "pinned read ready released run trusted",
    "warn": "ask asked expired hidden manual medium name-only open pending quarantined requested shadowed stale "
    "untrusted warning",
    "bad": "broken critical denied deny error failed high missing off refused rejected revoked",
}
"""The words of outcomes, by the colour that they have; of a type of event the part behind the dot."""
_PAINT_OF = {word: paint for paint, words in _OUTCOMES.items() for word in words.split()}
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))
_LONG_AGO = 30 * 86_400


class Style:
    """Colour for a stream that a person looks at, none for any other."""

    def __init__(self, stream: TextIO) -> None:
        self.is_terminal = stream.isatty()
        self.colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
            self.colour = True
        self.width = _columns(stream) if self.is_terminal else _WIDE

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def strong(self, text: str) -> str:
        return self._paint(text, "1")

    def dim(self, text: str) -> str:
        return self._paint(text, "2")

    def good(self, text: str) -> str:
        return self._paint(text, "32")

    def warn(self, text: str) -> str:
        return self._paint(text, "33")

    def bad(self, text: str) -> str:
        return self._paint(text, "31")

    def severity(self, severity: str) -> str:
        paint = {"error": self.bad, "warning": self.warn}.get(severity, self.dim)
        return paint(severity)

    def outcome(self, text: str) -> str:
        """A status or a decision in the colour of what it means for whoever reads it."""
        word = text.strip().partition(" ")[0].rstrip(",").rpartition(".")[2]
        return getattr(self, _PAINT_OF[word])(text) if word in _PAINT_OF else text

    def when(self, moment: str) -> str:
        """A moment: for a person how long ago it was, or how long it is until then; for a program as it is."""
        if not self.is_terminal:
            return moment
        from datetime import UTC, datetime

        try:
            then = datetime.fromisoformat(moment)
            away = ((then if then.tzinfo else then.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):
            return moment
        if abs(away) >= _LONG_AGO:
            return then.date().isoformat()
        size, unit = next(((size, unit) for size, unit in _UNITS if abs(away) >= size), (1, "s"))
        count = int(abs(away) / size)
        if unit == "s" and away <= 0:
            return "just now"
        span = plural(count, unit) if unit == "day" else f"{count} {unit}"
        return f"in {span}" if away > 0 else f"{span} ago"

    def at(self, moment: str) -> str:
        """The same at the end of a sentence: `at 2026-01-31T12:00:00+00:00`, or `3 min ago`."""
        shown_moment = self.when(moment)
        return f"at {moment}" if shown_moment == moment else shown_moment

    @staticmethod
    def text(text: str, limit: int = 500) -> str:
        """Words of a stranger, on one line, without anything that acts on a terminal."""
        return shown(text, limit)


def _columns(stream: TextIO) -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or 100
    except ValueError:
        pass
    try:
        return os.get_terminal_size(stream.fileno()).columns or 100
    except (OSError, ValueError):
        return 100


def table(
    style: Style,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    paint: Mapping[int, Callable[[str], str]] | None = None,
    most_lines: int | None = None,
) -> str:
    """Rows in columns: at a terminal as many lines as its width asks for, for a program one line of all there is.

    `most_lines` bounds the last column at a terminal, for texts that another command shows as a whole.
    """
    cells = [[Style.text(cell, limit=100_000) for cell in row] for row in rows]
    if style.is_terminal:
        columns = columns_of([head, *cells], style.width)
        lines = [style.dim(line) for line in row_lines(head, columns, style.width)]
        for row in cells:
            lines += row_lines(row, columns, style.width, paint=paint, most_lines=most_lines)
        return "\n".join(lines)
    # The last column is as wide as each of its texts.
    widths = [max(map(width_of, column)) for column in zip(*(row[:-1] for row in (head, *cells)), strict=True)]
    lines = [style.dim(_joined(head, widths, {}))]
    lines.extend(_joined(row, widths, paint or {}) for row in cells)
    return "\n".join(lines)


def _joined(row: Sequence[str], widths: Sequence[int], paints: Mapping[int, Callable[[str], str]]) -> str:
    padded = [pad(cell, width) for cell, width in zip(row[:-1], widths, strict=False)] + [row[-1]]
    return "  ".join(paints[i](cell) if i in paints else cell for i, cell in enumerate(padded)).rstrip()


def shortened(text: str, limit: int) -> str:
    """A text that ends with a whole word and an ellipsis where it has more characters than that."""
    if len(text) <= limit:
        return text
    start, space, _ = text[:limit].rpartition(" ")
    return f"{start if space and start.strip() else text[:limit]} …"


def short_path(path: str) -> str:
    """A path as one would type it from here: below this folder `./x`, below the home folder `~/x`."""
    home = os.path.expanduser("~")
    for start, sign in ((os.getcwd(), "."), (home, "~")):
        if start != os.sep and path != start and is_inside(path, start):
            return f"{sign}{path[len(start.rstrip(os.sep)) :]}"
    return path


def print_json(value: object) -> None:
    """One JSON document on standard output; a dataclass in it becomes an object of its fields."""
    # ASCII only: valid in every encoding of a pipe, and nothing in it acts on a terminal.
    print(json.dumps(value, indent=2, default=asdict))


def print_done(text: str) -> None:
    """Say that something is done, behind a check mark."""
    print(f"{Style(sys.stdout).good('✓')} {text}")


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    print(f"{Style(sys.stderr).warn('warning')}: {Style.text(text, 1_000)}", file=sys.stderr)


def print_result(options: Namespace, shape: object, text: str) -> None:
    """Print what a command has done: as JSON where that was asked for, else in words."""
    if options.json:
        print_json(shape)
    else:
        print_done(text)


def print_error(code: str, message: str, hint: str) -> None:
    """Say beside the output what went wrong, and what to do."""
    style = Style(sys.stderr)
    print(f"{style.bad('error')} [{code}]: {Style.text(message, 2_000)}", file=sys.stderr)
    if hint:
        print(f"{style.dim('hint')}: {Style.text(for_person(hint), 2_000)}", file=sys.stderr)


def print_diagnostics(style: Style, diagnostics: Iterable[Diagnostic], *, indent: str = "  ") -> None:
    """Each finding with its line, its sentence and what to do."""
    for found in diagnostics:
        line = f"line {found.line}: " if found.line else ""
        print(
            f"{indent}{style.severity(found.severity)} {style.dim(found.code)} {line}{Style.text(found.message, 1_000)}"
        )
        print(f"{indent}  {style.dim('→ ' + Style.text(found.hint, 1_000))}")


def plural(count: int, noun: str) -> str:
    """A number with its noun: `1 skill`, `1,204 skills`, `2 searches`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("ch") else "s")


def marked_capabilities(names: Iterable[str], undeclared: Collection[str], declared: Collection[str]) -> str:
    """Capabilities, each that the skill does not declare marked so; all at once where it declares none.

    >>> marked_capabilities(["network-tools", "scripts"], ["scripts"], ["network-tools"])
    'network-tools, scripts (not declared)'
    >>> marked_capabilities(["network-tools", "scripts"], ["network-tools", "scripts"], [])
    'network-tools, scripts (none declared)'
    """
    if len(undeclared) > 1 and not declared:
        return f"{', '.join(names)} (none declared)"
    return ", ".join(f"{name} (not declared)" if name in undeclared else name for name in names)


class Progress:
    """A line on standard error that says how far a long job is; nothing when nobody looks or it is quick."""

    def __init__(self, what: str = "", total: int = 0) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._shown = False
        self._next = time.monotonic() + 0.7
        self._active = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def step(self) -> None:
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        self._done = done
        self._show(f"{self._what} {self._done:,} of {self._total:,}")

    def transfer(self, what: str, done: int, total: int | None) -> None:
        """Say how many bytes of something are here, and how many there are where that is known."""
        of = f" of {total / 1e6:,.1f}" if total else ""
        self._show(f"{Style.text(what, 60)} {done / 1e6:,.1f}{of} MB")

    def say(self, step: str) -> None:
        """Name the step that is under way, of which nobody knows how far it is; without one, take the line away."""
        self.end()
        if self._active and step:
            self._shown = True
            print(f"{Style.text(step, 60)} ...", end="", file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        if self._active and time.monotonic() >= self._next:
            self._next, self._shown = time.monotonic() + 0.1, True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away; another job may begin one."""
        if self._shown:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class WrappingStream:
    """A terminal to which whole lines are written so that no word is broken.

    A line that is flushed before it ends, such as a question or a model's words as they come, stays as it is.
    """

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width
        self._pending = ""
        self._is_open = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Any:
        self.flush()
        return self._stream.buffer

    def write(self, text: str) -> int:
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._stream.write("\n".join([line] if self._is_open else wrap_line(line, self._width)) + "\n")
            self._is_open = False
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._pending:
            self._stream.write(self._pending)
            # What takes a line back, as the end of a progress report does, leaves none that is begun.
            self._is_open = not self._pending.endswith(("\r", "\x1b[K"))
            self._pending = ""
        self._stream.flush()


def unwrapped(stream: TextIO) -> TextIO:
    """Return the terminal behind a wrapping stream, for text that is printed as it is."""
    if not isinstance(stream, WrappingStream):
        return stream
    stream.flush()
    return stream._stream
