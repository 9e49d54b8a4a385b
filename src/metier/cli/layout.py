"""Text laid out for a terminal: lines that break between words, and columns that never cut what identifies a row."""

from __future__ import annotations

import functools
import re
import unicodedata
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_COLOUR = pattern(r"\x1b\[[0-9;]*m")
_WORD = pattern(r" *(?:[^ `]*`[^`]{1,100}`[^ ]*|[^ ]+)")
"""A word with the spaces before it; a command between backticks is one word, so that it can be copied."""
_HANG = 2
"""Cells by which the lines that follow are indented: no text of a stranger begins a line of its own."""
_GAP = 2
_SHORT = 16
"""Cells of a column that is not made narrower."""
_LEAST_TEXT = 24
"""Cells that the last column of a table needs beside the others; with less it stands below them."""
_EMOJI = "\ufe0f"


@functools.lru_cache(maxsize=4_096)
def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width_of(text: str) -> int:
    """The cells that a text takes in a terminal; colours take none.

    >>> width_of("café"), width_of("技能"), width_of("\\x1b[31mdeny\\x1b[0m")
    (4, 4, 4)
    """
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.isascii():
        return len(text)
    # A character that is asked to look like a picture takes two cells in most terminals.
    pictures = sum(_cells_of(before) == 1 for before, c in pairwise(text) if c == _EMOJI)
    return sum(map(_cells_of, text)) + pictures


def pad(text: str, width: int) -> str:
    """A text with spaces behind it, up to a number of cells."""
    return text + " " * (width - width_of(text))


def wrap(text: str, width: int, *, first: int = 0, hang: int = 0) -> Iterator[str]:
    """The lines of a text, each at most `width` cells wide and broken between words only.

    `first` cells of the first line are taken already; the other lines are indented by `hang` cells. A word that is
    longer than a line stays whole, on a line of its own, so that it can be copied.

    >>> list(wrap("one two three", 8)), list(wrap("one two three", 9, hang=2))
    (['one two', 'three'], ['one two', '  three'])
    """
    line, used, is_begun = "", first, False
    for word in _words(text, width - hang):
        size = width_of(word)
        if is_begun and used + size > width:
            yield line.rstrip(" ")
            word = word.lstrip(" ")
            size = width_of(word)
            # What fits the line but not the indentation gets a smaller one, and begins no line all the same.
            indent = hang if hang + size <= width else max(min(hang, _HANG), width - size)
            line, used = " " * indent, indent
        line += word
        used += size
        is_begun = True
    yield line.rstrip(" ")


def _words(text: str, width: int) -> Iterator[str]:
    for found in _WORD.finditer(text):
        word = found[0]
        if " " in word.lstrip(" ") and width_of(word.lstrip(" ")) > width:
            yield from re.findall(r" *[^ ]+", word)
        elif word.isascii():
            yield word
        else:
            yield from _pieces(word)


def _pieces(word: str) -> Iterator[str]:
    """The parts of a word between which a line may end: scripts that write no spaces have many."""
    piece = ""
    for character in word:
        is_wide = _cells_of(character) == 2 or (piece and _cells_of(piece[-1]) == 2)
        if is_wide and piece.strip() and _may_end(piece[-1], character):
            yield piece
            piece = ""
        piece += character
    yield piece


def _may_end(last: str, following: str) -> bool:
    # As books are set: no line begins with what closes or ends something, and none ends with what opens it.
    opens, closes = unicodedata.category(last) in ("Ps", "Pi"), unicodedata.category(following) in ("Pe", "Pf", "Po")
    return not opens and not closes and _cells_of(following) > 0


def wrap_line(line: str, width: int) -> list[str]:
    """A line of output in as many as a terminal needs; those that follow are indented.

    >>> wrap_line("  → Name a file that is there.", 20)
    ['  → Name a file that', '    is there.']
    """
    if 2 * len(line) <= width or width_of(line) <= width:
        return [line]
    line = line.expandtabs()
    plain = _COLOUR.sub("", line)
    indent = len(plain) - len(plain.lstrip(" "))
    return list(wrap(line, width, hang=min(indent + _HANG, max(_HANG, width // 2))))


class Column(NamedTuple):
    """The place of a column: the cells before it, and those that it may take."""

    start: int
    width: int


def row_lines(
    row: Sequence[str],
    columns: Sequence[Column],
    width: int,
    *,
    paint: Mapping[int, Callable[[str], str]] | None = None,
    most_lines: int | None = None,
) -> list[str]:
    """The lines of a row of a table, within a number of cells.

    The text of a cell goes on in the next line, that of the last column for at most `most_lines`. What is wider than
    its column stays whole, and the row goes on below it.

    >>> row = ("csv", "Reads tables and draws them as charts.")
    >>> row_lines(row, columns_of([("NAME", "WHAT IT DOES"), row], 40), 40)
    ['csv   Reads tables and draws them as', '      charts.']
    """
    lines: list[str] = [""]
    used: list[int] = [0]
    base = 0
    for index, (cell, column) in enumerate(zip(row, columns, strict=True)):
        if index and column.start <= columns[index - 1].start:
            base = len(lines)
        taken = used[base] if base < len(used) else 0
        texts = _cell_lines(cell, column, width, taken, most_lines if index == len(columns) - 1 else None)
        while any(taken > start for taken, (start, _) in zip(used[base:], texts, strict=False)):
            base += 1
        for number, (start, text) in enumerate(texts, base):
            while number >= len(lines):
                lines.append("")
                used.append(0)
            painted = paint[index](text) if paint and index in paint else text
            lines[number] = pad(lines[number], start) + painted
            used[number] = start + width_of(text) + _GAP
    return lines


def _cell_lines(cell: str, column: Column, width: int, taken: int, most: int | None) -> list[tuple[int, str]]:
    """The lines of a cell, each with the place where it begins; of the first line `taken` cells are."""
    lines = list(islice(wrap(cell, column.width), None if most is None else most + 1)) if cell else []
    if most is not None and len(lines) > most:
        *_, last = lines = lines[:most]
        words = list(_words(last, column.width))
        while len(words) > 1 and width_of("".join(words)) >= column.width:
            words.pop()
        lines[-1] = "".join(words) + "…"
    return [
        (_start_of(width_of(line), column, width, width if number else taken), line)
        for number, line in enumerate(lines)
    ]


def _start_of(size: int, column: Column, width: int, taken: int) -> int:
    """The place of a line: that of its column, and further left where it would not end within the terminal."""
    latest = width - size
    if latest >= column.start or column.start <= _HANG:
        return column.start
    # On the same line if that is free, else below, where no text of a stranger begins a line of its own.
    return latest if latest >= taken else max(_HANG, min(latest, 2 * _HANG))


def columns_of(rows: Sequence[Sequence[str]], width: int) -> list[Column]:
    """The places of columns: what is short has all the room that it needs, and what is long shares the rest."""
    most = max(_LEAST_TEXT, width * 3 // 8)
    *cells_before, texts = zip(*rows, strict=True)
    widths = [max(_needed(cell, most) for cell in cells) for cells in cells_before]
    text = max(map(width_of, texts))
    free = width - sum(widths) - _GAP * len(widths)
    if free < min(text, width * 2 // 5):
        # A column of several words can be narrower; one of a single word cannot, and would only push its row apart.
        least = [
            max([min(one, _SHORT), *(size for cell in cells for size in _word_sizes(cell) if size <= most)])
            for one, cells in zip(widths, cells_before, strict=True)
        ]
        spare = sum(widths) - sum(least)
        if free + spare >= min(text, _LEAST_TEXT):
            for _ in range(min(spare, min(text, width * 2 // 5) - free)):
                widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
                widths[widest] -= 1
    columns, start = [], 0
    for one in widths:
        if start and start + one > width:
            start = 2 * _HANG
        columns.append(Column(start, one))
        start += one + _GAP
    if start and start + min(text, _LEAST_TEXT) > width:
        start = 2 * _HANG
    return [*columns, Column(start, max(1, width - start))]


def _needed(cell: str, most: int) -> int:
    """The cells that a column should have for a text: none for a word that has to have a line of its own anyway."""
    size = width_of(cell)
    return size if size <= most else most if max(_word_sizes(cell)) <= most else 0


def _word_sizes(cell: str) -> list[int]:
    return [width_of(word.lstrip(" ")) for word in _words(cell, 0)]
