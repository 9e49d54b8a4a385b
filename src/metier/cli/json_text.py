"""Changes to JSON text that leave all other text as it was, comments, layout and last commas too.

A place in the text is a path of keys and, in arrays, positions. Each function makes one change and reads the text anew;
`rewritten` makes as many as it takes, and gives nothing back that does not hold exactly the wanted data.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MemberPath: TypeAlias = "Sequence[str | int]"
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


class Member(NamedTuple):
    """The places of a member of an object or array: where its key begins, and where its value begins and ends."""

    key: int
    start: int
    end: int


class Container(NamedTuple):
    """An object or array in a text: its members, and the place of its closing bracket."""

    members: dict[str | int, Member]
    end: int
    is_array: bool


class _Change(NamedTuple):
    """One difference between two values: the path of a container, and the key or position, or all members to add."""

    path: tuple[str | int, ...]
    key: str | int
    value: Any
    is_removal: bool = False
    is_addition: bool = False


def json_data(text: str) -> Any:
    """The data of a text with comments; raises ValueError for what is no JSON."""
    plain = _blanked(_LAST_COMMA, without_comments(text))
    return json.loads(plain) if plain.strip() else {}


def without_comments(text: str) -> str:
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
    if "{" not in without_comments(text):
        return text if json_data(text) == wanted else with_first_object(text, wanted)
    for _ in range(_MOST_CHANGES):
        there = json_data(text)
        change = _first_change(there, wanted, ())
        if change is None:
            return text
        if change.is_removal:
            text = without_member(text, change.path, change.key)
        elif change.is_addition:
            text = _with_members(text, change.path, change.value)
        else:
            text = with_value(text, change.path, change.key, change.value)
    raise ValueError("it takes too many changes")


def _first_change(there: Any, wanted: Any, path: tuple[str | int, ...]) -> _Change | None:
    """The first difference between two objects or arrays of the same kind."""
    if isinstance(there, dict):
        for key, value in there.items():
            if key not in wanted:
                return _Change(path, key, None, is_removal=True)
            if value != wanted[key]:
                return _inner_change(value, wanted[key], path, key)
        new = {key: value for key, value in wanted.items() if key not in there}
        return _Change(path, "", new, is_addition=True) if new else None
    for at, value in enumerate(there):
        if at >= len(wanted) or value != wanted[at]:
            if at < len(wanted) and value not in wanted[at:] and wanted[at] not in there[at:]:
                return _inner_change(value, wanted[at], path, at)
            return _Change(path, at, None, is_removal=True)
    more = dict(enumerate(wanted[len(there) :]))
    return _Change(path, "", more, is_addition=True) if more else None


def _inner_change(value: Any, wanted: Any, path: tuple[str | int, ...], key: str | int) -> _Change | None:
    if isinstance(value, dict | list) and type(value) is type(wanted):
        return _first_change(value, wanted, (*path, key))
    return _Change(path, key, wanted)


def container_at(bare: str, path: MemberPath) -> Container:
    """The object or array that a path leads to, in a text without comments."""
    plain = _blanked(_LAST_COMMA, bare)
    brackets = _NO_BRACKETS.sub("", plain)
    if max(itertools.accumulate((c in "{[") - (c in "}]") for c in brackets)) > _MAX_DEPTH:
        raise ValueError("it is too deep")
    found = _read_container(plain, plain.index("{"))
    for key in path:
        found = _read_container(plain, found.members[key].start)
    return found


def _read_container(plain: str, bracket: int) -> Container:
    is_array = plain[bracket] == "["
    if not is_array and plain[bracket] != "{":
        raise ValueError("it is no object or array")
    members: dict[str | int, Member] = {}
    at = _next(plain, bracket + 1)
    while plain[at] not in "}]":
        key: str | int = len(members)
        start = at
        if not is_array:
            key, colon = _DECODE(plain, at)
            start = _next(plain, _next(plain, colon) + 1)
        _, end = _DECODE(plain, start)
        members[key] = Member(at, start, end)
        at = _next(plain, end)
        at = _next(plain, at + 1) if plain[at] == "," else at
    return Container(members, at, is_array)


def _next(text: str, at: int) -> int:
    """The place of the next character that is no blank."""
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def with_first_object(text: str, value: dict[str, Any]) -> str:
    """A text that has at most comments, or a mark of the encoding, with an object behind them."""
    newline = newline_of(text)
    gap = "" if not text.strip() or text.endswith("\n") else newline
    return text + gap + dumped(value, "  ", 0, newline) + newline


def with_value(text: str, path: MemberPath, key: str | int, value: Any) -> str:
    """The text with another value of a member."""
    _, start, end = container_at(without_comments(text), path).members[key]
    return text[:start] + dumped(value, indent_of(text), len(path) + 1, newline_of(text)) + text[end:]


def with_member(text: str, path: MemberPath, key: str | int, value: Any) -> str:
    """The text with a new last member of the object or array that a path leads to."""
    return _with_members(text, path, {key: value})


def _with_members(text: str, path: MemberPath, members: Mapping[str | int, Any]) -> str:
    unit, newline = indent_of(text), newline_of(text)
    depth, bare = len(path) + 1, without_comments(text)
    end, is_array = container_at(bare, path)[1:]
    # Comments behind the last member stay before the new one.
    last, filled = bare[:end].rstrip(), len(text[:end].rstrip())
    comma = "" if last.endswith(("{", "[", ",")) else ","
    lines = []
    for key, value in members.items():
        name = "" if is_array else f"{json.dumps(key, ensure_ascii=False)}: "
        lines.append(f"{newline}{unit * depth}{name}{dumped(value, unit, depth, newline)}")
    member, rest = ",".join(lines), text[filled:]
    # An object that was written in one line ends in a line of its own from now on.
    close = "" if "\n" in text[filled:end] else f"{newline}{unit * (depth - 1)}"
    return text[: len(last)] + comma + text[len(last) : filled] + member + close + rest.lstrip(" \t")


def without_member(text: str, path: MemberPath, key: str | int) -> str:
    """The text without a member of the object or array that a path leads to."""
    bare = without_comments(text)
    start, _, end = container_at(bare, path).members[key]
    after = _next(bare, end)
    is_last = bare[after] in "}]"
    before = bare[:start].rstrip()
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


def dumped(value: Any, unit: str, depth: int, newline: str) -> str:
    """A value as text at a depth, indented by a unit."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{unit * depth}")


def newline_of(text: str) -> str:
    """Return the line ending that most lines have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def indent_of(text: str) -> str:
    """Return the indentation of the first key that has one."""
    found = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return found[1] if found else "  "
