"""Changes to JSON text that leave all other text as it was, comments, layout and last commas too.

A place in the text is a path of keys and, in arrays, positions. `rewritten` makes one change after the other, reads the
text anew each time, and gives nothing back that does not hold exactly the wanted data.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

_Path: TypeAlias = "tuple[str | int, ...]"
_MAX_DEPTH = 200
_MOST_CHANGES = 5_000
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|[^\S \t\r\n]|\A\ufeff", re.DOTALL)
"""A string, or what JSON does not know: a comment, an unusual blank, a mark of the encoding."""
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
"""A string, or a comma before the end of an object or array, which is common where comments are allowed."""
_NO_BRACKETS = re.compile(rf"{_STRING}|[^{{}}\[\]\"]+")
_BLANKS = re.compile(r"\s*")
_DECODE = json.JSONDecoder().raw_decode


class _Member(NamedTuple):
    """The places of a member of an object or array: where its key begins, and where its value begins and ends."""

    key: int
    start: int
    end: int


class _Container(NamedTuple):
    """An object or array in a text: its members, and the places of its brackets."""

    members: dict[str | int, _Member]
    start: int
    end: int
    is_array: bool


def json_data(text: str) -> Any:
    """The data of a text with comments; raises ValueError for what is no JSON."""
    plain = _blanked(_LAST_COMMA, _without_comments(text))
    return json.loads(plain) if plain.strip() else {}


def _without_comments(text: str) -> str:
    """The text with blanks in place of comments, so that the rest stays in its place."""
    return _blanked(_COMMENT, text)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)


def rewritten(text: str, wanted: dict[str, Any]) -> str:
    """The text with the wanted data; raises ValueError or LookupError where it is too unusual to be changed.

    >>> print(rewritten('{"a": [1, 2], // why\\n "b": 0}', {"a": [2, 3], "b": 0}))
    {"a": [2,
      3
     ], // why
     "b": 0}
    """
    if "{" not in _without_comments(text):
        return text if json_data(text) == wanted else _with_first_object(text, wanted)
    for _ in range(_MOST_CHANGES):
        there = json_data(text)
        if there == wanted:
            return text
        text = _with_one_change(text, there, wanted, ())
    raise ValueError("it takes too many changes")


def _with_one_change(text: str, there: Any, wanted: Any, path: _Path) -> str:
    """The text without the first difference between two values of the same kind that a path leads to."""
    if isinstance(there, dict):
        for key, value in there.items():
            if key not in wanted:
                return _without_member(text, path, key)
            if value != wanted[key]:
                return _with_value(text, value, wanted[key], path, key)
        return _with_members(text, path, {key: value for key, value in wanted.items() if key not in there})
    for at, value in enumerate(there):
        if at >= len(wanted) or value != wanted[at]:
            if at < len(wanted) and value not in wanted[at:] and wanted[at] not in there[at:]:
                return _with_value(text, value, wanted[at], path, at)
            return _without_member(text, path, at)
    return _with_members(text, path, dict(enumerate(wanted[len(there) :])))


def _with_value(text: str, there: Any, wanted: Any, path: _Path, key: str | int) -> str:
    """The text with another value of a member, or with one change inside of it."""
    if isinstance(there, dict | list) and type(there) is type(wanted):
        return _with_one_change(text, there, wanted, (*path, key))
    _, start, end = _container_at(_without_comments(text), path).members[key]
    return text[:start] + _dumped(wanted, _indent_of(text), len(path) + 1, newline_of(text)) + text[end:]


def _container_at(bare: str, path: _Path) -> _Container:
    """The object or array that a path leads to, in a text without comments."""
    plain = _blanked(_LAST_COMMA, bare)
    brackets = _NO_BRACKETS.sub("", plain)
    if max(itertools.accumulate((c in "{[") - (c in "}]") for c in brackets)) > _MAX_DEPTH:
        raise ValueError("it is too deep")
    found = _read_container(plain, plain.index("{"))
    for key in path:
        found = _read_container(plain, found.members[key].start)
    return found


def _read_container(plain: str, bracket: int) -> _Container:
    is_array = plain[bracket] == "["
    if not is_array and plain[bracket] != "{":
        raise ValueError("it is no object or array")
    members: dict[str | int, _Member] = {}
    at = _next(plain, bracket + 1)
    while plain[at] not in "}]":
        key: str | int = len(members)
        start = at
        if not is_array:
            key, colon = _DECODE(plain, at)
            start = _next(plain, _next(plain, colon) + 1)
        _, end = _DECODE(plain, start)
        members[key] = _Member(at, start, end)
        at = _next(plain, end)
        at = _next(plain, at + 1) if plain[at] == "," else at
    return _Container(members, bracket, at, is_array)


def _next(text: str, at: int) -> int:
    """The place of the next character that is no blank."""
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _with_first_object(text: str, value: dict[str, Any]) -> str:
    """A text that has at most comments, or a mark of the encoding, with an object behind them."""
    newline = newline_of(text)
    gap = "" if not text.strip() or text.endswith("\n") else newline
    return text + gap + _dumped(value, "  ", 0, newline) + newline


def _with_members(text: str, path: _Path, members: Mapping[str | int, Any]) -> str:
    unit, newline = _indent_of(text), newline_of(text)
    depth, bare = len(path) + 1, _without_comments(text)
    _, _, end, is_array = _container_at(bare, path)
    # Comments behind the last member stay before the new one.
    last, filled = bare[:end].rstrip(), len(text[:end].rstrip())
    comma = "" if last.endswith(("{", "[", ",")) else ","
    lines = []
    for key, value in members.items():
        name = "" if is_array else f"{json.dumps(key, ensure_ascii=False)}: "
        lines.append(f"{newline}{unit * depth}{name}{_dumped(value, unit, depth, newline)}")
    member, rest = ",".join(lines), text[filled:]
    # An object that was written in one line ends in a line of its own from now on.
    close = "" if "\n" in text[filled:end] else f"{newline}{unit * (depth - 1)}"
    return text[: len(last)] + comma + text[len(last) : filled] + member + close + rest.lstrip(" \t")


def _without_member(text: str, path: _Path, key: str | int) -> str:
    """The text without a member of the object or array that a path leads to."""
    bare = _without_comments(text)
    container = _container_at(bare, path)
    start, _, end = container.members[key]
    after = _next(bare, end)
    is_last = bare[after] in "}]"
    before = bare[:start].rstrip()
    inside, gap = text[container.start : start].rstrip(), text[end:after]
    if is_last and gap.isspace() and "\n" in gap and "\n" not in inside and before.endswith(inside):
        # What is left stands in one line, so the closing bracket does, too.
        return text[: len(before)].removesuffix(",") + text[after:]
    if not is_last:
        end = after + 1
    elif before.endswith(","):
        # The one before becomes the last.
        text = text[: len(before) - 1] + text[len(before) :]
        start, end = start - 1, end - 1
    head, rest = text[:start].rstrip(" \t"), text[end:]
    blank = rest.lstrip(" \t")
    if head.endswith("\n") and blank[:2].lstrip("\r")[:1] == "\n":
        return head + blank.removeprefix("\r").removeprefix("\n")
    return head + ("" if head.endswith(("{", "[")) or is_last else " ") + blank


def _dumped(value: Any, unit: str, depth: int, newline: str) -> str:
    """A value as text at a depth, indented by a unit."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{unit * depth}")


def newline_of(text: str) -> str:
    """Return the line ending that most lines have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def _indent_of(text: str) -> str:
    """Return the indentation of the first key that has one."""
    found = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return found[1] if found else "  "
