"""Lines of a text, counted from 1, with the line ends they were written with."""

from __future__ import annotations

import re

# Form feeds and the separators of Unicode end no line in an editor, so they end none here.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ENDS = ("\r\n", "\n", "\r")


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its own line end; put together again they are the text.

    >>> split_lines("one\\r\\ntwo\\rthree\\nfour")
    ['one\\r\\n', 'two\\r', 'three\\n', 'four']
    """
    return _LINE.findall(text)


def line_range(text: str, start: int = 1, end: int | None = None) -> str:
    """The lines from `start` up to but without `end`; what lies beyond the text is left out.

    >>> line_range("one\\ntwo\\nthree\\n", 2, 3)
    'two\\n'
    """
    lines = split_lines(text)
    stop = len(lines) + 1 if end is None else end
    return "".join(lines[max(start, 1) - 1 : max(stop, 1) - 1])


def line_end(line: str) -> str:
    """How a line ends: LF, CRLF, CR, or not at all.

    >>> line_end("one\\r\\n"), line_end("one")
    ('\\r\\n', '')
    """
    return next((end for end in _ENDS if line.endswith(end)), "")


def usual_line_end(lines: list[str]) -> str:
    """How most lines of a text end; LF where none does.

    >>> usual_line_end(["a\\r\\n", "b\\r\\n", "c\\n", "d"])
    '\\r\\n'
    """
    counts = dict.fromkeys(("\n", "\r\n", "\r"), 0)
    for line in lines:
        if end := line_end(line):
            counts[end] += 1
    return max(counts, key=lambda end: counts[end])
