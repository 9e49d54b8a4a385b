"""Text for people: tables that fit the terminal, colour where there is one, and a stranger's words made harmless."""

from __future__ import annotations

import json
import os
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any, TextIO

from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.skill import Diagnostic

_WIDE = 10_000
_LEAST = 10
"""Columns that every cell may have."""


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


def width_of(text: str) -> int:
    """How many columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, width: int) -> str:
    """Text cut to a number of columns, with an ellipsis when something is missing."""
    if 2 * len(text) <= width or width_of(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += width_of(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def table(
    style: Style,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    paint: dict[int, Any] | None = None,
    cut: bool = True,
) -> str:
    """Rows in columns; the last column takes what is left of the terminal's width."""
    count = len(head)
    cells = [[Style.text(cell, limit=100_000) for cell in row] for row in rows]
    widths = [max([width_of(head[i]), *(width_of(row[i]) for row in cells)]) for i in range(count - 1)]
    if style.is_terminal:
        # No column may push the others off the screen; a program that reads gets all of each.
        widths = [min(width, max(_LEAST, style.width // 2)) for width in widths]
        last = max(_LEAST, width_of(head[-1]))
        while sum(widths) + 2 * (count - 1) + last > style.width and max(widths, default=0) > _LEAST:
            widths[widths.index(max(widths))] -= 1
    widths.append(max(_LEAST, style.width - sum(widths) - 2 * (count - 1)) if cut else _WIDE)
    titles = [*(_pad(title, widths[i]) for i, title in enumerate(head[:-1])), head[-1]]
    lines = [style.dim("  ".join(titles))]
    for row in cells:
        parts = []
        for i, cell in enumerate(row):
            text = fit(cell, widths[i])
            padded = text if i == count - 1 else _pad(text, widths[i])
            parts.append(paint[i](padded) if paint and i in paint else padded)
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def short_path(path: str) -> str:
    """A path as one would type it from here: below this folder `./x`, below the home folder `~/x`."""
    home = os.path.expanduser("~")
    for start, sign in ((os.getcwd(), "."), (home, "~")):
        if start != os.sep and path.startswith(start.rstrip(os.sep) + os.sep):
            return f"{sign}{path[len(start.rstrip(os.sep)) :]}"
    return path


def print_json(value: object) -> None:
    """One JSON document on standard output."""
    # ASCII only: valid in every encoding of a pipe, and nothing in it acts on a terminal.
    print(json.dumps(value, indent=2))


def print_diagnostics(style: Style, diagnostics: Iterable[Diagnostic], *, indent: str = "  ") -> None:
    """Each finding with its line, its sentence and what to do."""
    for found in diagnostics:
        line = f"line {found.line}: " if found.line else ""
        print(
            f"{indent}{style.severity(found.severity)} {style.dim(found.code)} {line}{Style.text(found.message, 1_000)}"
        )
        print(f"{indent}  {style.dim('→ ' + Style.text(found.hint, 1_000))}")


def plural(count: int, noun: str) -> str:
    """A number with its noun: `1 skill`, `1,204 skills`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


class Progress:
    """A line on standard error that says how far a long job is; nothing when nobody looks or it is quick."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._shown = False
        self._next = time.monotonic() + 0.7
        self._active = sys.stderr.isatty()

    def step(self) -> None:
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        self._done = done
        if self._active and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.1
            self._shown = True
            print(f"\r{self._what} {self._done:,} of {self._total:,}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
