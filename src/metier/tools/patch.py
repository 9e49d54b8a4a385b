"""Unified diffs applied to a text.

A hunk goes where its header says. If its lines are not there, they may stand elsewhere, but only as they are and in one
place only: a patch is never made to fit.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    """The end of a line: LF, CRLF, CR, or nothing.

    >>> line_end("one\\r\\n"), line_end("one")
    ('\\r\\n', '')
    """
    return next((end for end in _ENDS if line.endswith(end)), "")


def usual_line_end(lines: list[str]) -> str:
    """The most frequent line end of a text; LF where there is none.

    >>> usual_line_end(["a\\r\\n", "b\\r\\n", "c\\n", "d"])
    '\\r\\n'
    """
    counts = Counter(map(line_end, lines))
    return max(("\n", "\r\n", "\r"), key=counts.__getitem__)


MAX_PATCH_LENGTH = 1024 * 1024

_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_RETRY = "Read the file again and make the patch of what it says now."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hunk:
    header: str
    start: int
    """The first old line, from 1; for a hunk without old lines, the line that it goes behind."""
    body: tuple[tuple[str, str], ...]
    """Each line with its mark: ` `, `-` or `+`."""
    ends_open: bool
    """Whether the new text ends without a line end."""

    @property
    def old(self) -> list[str]:
        return [text for mark, text in self.body if mark != "+"]


def apply_patch(text: str, patch: str) -> str:
    """The text after a unified diff of one file; raises `InvalidArgument` when the diff is broken or does not fit.

    Added lines end as the other lines of the text do.

    >>> apply_patch("one\\r\\ntwo\\r\\n", "@@ -1,2 +1,2 @@\\n one\\n-two\\n+deux\\n")
    'one\\r\\ndeux\\r\\n'
    """
    if len(patch) > MAX_PATCH_LENGTH:
        raise InvalidArgument(
            f"The patch has more than {MAX_PATCH_LENGTH:,} characters.", hint="Write the file as a whole."
        )
    lines = split_lines(text)
    bare = [line[: len(line) - len(line_end(line))] for line in lines]
    usual = usual_line_end(lines)
    done: list[str] = []
    position = shift = 0
    for hunk in _hunks(patch):
        at = _place(hunk, bare, position, shift)
        shift = at - _declared(hunk)
        done += lines[position:at]
        position = at
        for mark, content in hunk.body:
            if mark == " ":
                done.append(lines[position])
            elif mark == "+":
                done.append(content + usual)
            position += mark != "+"
        if hunk.ends_open and position == len(lines) and done:
            done[-1] = done[-1][: len(done[-1]) - len(line_end(done[-1]))]
    done += lines[position:]
    # A line that was the last and is not any more needs a line end.
    return "".join([line if line_end(line) else line + usual for line in done[:-1]] + done[-1:])


def _declared(hunk: _Hunk) -> int:
    return hunk.start - 1 if hunk.old else hunk.start


def _place(hunk: _Hunk, bare: list[str], position: int, shift: int) -> int:
    """The index of the line where a hunk begins; never before `position`."""
    old = hunk.old
    wanted = _declared(hunk) + shift
    if not old:
        if not position <= wanted <= len(bare):
            raise InvalidArgument(
                f"The hunk {hunk.header} is outside the file, which has {len(bare):,} lines.", hint=_RETRY
            )
        return wanted
    if wanted >= position and bare[wanted : wanted + len(old)] == old:
        return wanted
    # Searching one long text takes time in proportion to it, comparing line by line does not.
    whole, block = ("\n" + "".join(f"{line}\n" for line in lines) for lines in (bare[position:], old))
    first = whole.find(block)
    if first < 0:
        raise InvalidArgument(_mismatch(hunk, bare, max(wanted, 0)), hint=_RETRY)
    if whole.find(block, first + 1) >= 0:
        raise InvalidArgument(
            f"The lines of the hunk {hunk.header} are not where it says, and stand in more than one other place.",
            hint="Give more lines of context, or the right line number.",
        )
    return position + whole.count("\n", 0, first)


def _mismatch(hunk: _Hunk, bare: list[str], at: int) -> str:
    for number, line in enumerate(hunk.old, at):
        found = bare[number] if number < len(bare) else None
        if found != line:
            there = f"is {shown(found, 80)!r}" if found is not None else "is beyond the end of the file"
            return f"The hunk {hunk.header} does not fit: line {number + 1} {there}, not {shown(line, 80)!r}."
    return f"The hunk {hunk.header} overlaps the one before it."


def _hunks(patch: str) -> Iterator[_Hunk]:
    lines = patch.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    at = 0
    while at < len(lines) and not lines[at].startswith("@@"):
        at += 1
    if at == len(lines):
        raise InvalidArgument(
            "The patch has no hunk.", hint="Give a unified diff: hunks that begin with a line like @@ -1,3 +1,4 @@."
        )
    while at < len(lines):
        hunk, at = _hunk(lines, at)
        yield hunk


def _hunk(lines: list[str], at: int) -> tuple[_Hunk, int]:
    """The hunk whose header stands in a line, and the line after it."""
    header = shown(lines[at], 80)
    match = _HEADER.match(lines[at])
    if match is None:
        other = lines[at].startswith(("--- ", "diff ", "Index: "))
        raise InvalidArgument(
            "The patch is for more than one file."
            if other
            else f"Line {at + 1} of the patch is no header: {header!r}.",
            hint="Make one call for each file."
            if other
            else "A hunk begins with @@ -LINE,COUNT +LINE,COUNT @@, and the counts must be those of its lines.",
        )
    start, old_left, new_left = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    body: list[tuple[str, str]] = []
    ends_open = False
    at += 1
    while at < len(lines) and (old_left or new_left or lines[at].startswith("\\")):
        line = lines[at] or " "  # editors strip the blank that an empty line of context has
        mark = line[0]
        if mark == "\\":
            ends_open = ends_open or (bool(body) and body[-1][0] != "-")
        elif mark in " -+":
            old_left -= mark != "+"
            new_left -= mark != "-"
            body.append((mark, line[1:]))
        if mark not in " -+\\" or old_left < 0 or new_left < 0:
            break
        at += 1
    if old_left or new_left or not body:
        raise InvalidArgument(
            f"The hunk {header} does not have the lines that its header counts.",
            hint="Every line of a hunk begins with a blank, - or +, and the counts in the header are theirs.",
        )
    return _Hunk(header=header, start=start, body=tuple(body), ends_open=ends_open), at
