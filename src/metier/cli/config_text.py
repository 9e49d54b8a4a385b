"""Changes to somebody's configuration file that leave all other text in it as it was, comments too.

The text is changed by hand, so to speak, and then read again: only where exactly the wanted entry is different is the
change good. Whatever is too unusual for that is refused, and never written over.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\],:]|\s+|[^\s{}\[\],:"/]+', re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_MAX_DEPTH = 200


def _any(entry: dict[str, Any]) -> bool:
    return True


def with_entry_in_json(
    text: str, section: str, name: str, entry: Mapping[str, Any], *, is_ours: Callable[[dict[str, Any]], bool] = _any
) -> str:
    """JSON, with or without comments, in which an object has an entry of a name; fields that it has besides stay.

    An entry of that name that is not `is_ours` is never changed; raises `FileRefused`.

    >>> print(with_entry_in_json('{\\n  "a": 1 // one\\n}', "servers", "x", {"command": "y"}))
    {
      "a": 1, // one
      "servers": {
        "x": {
          "command": "y"
        }
      }
    }
    """
    return _checked(text, section, name, entry, is_ours, _json_data, _json_changed)


def with_entry_in_toml(
    text: str, section: str, name: str, entry: Mapping[str, Any], *, is_ours: Callable[[dict[str, Any]], bool] = _any
) -> str:
    """TOML in which there is a table `[section.name]` with an entry; keys that it has besides stay.

    >>> print(with_entry_in_toml("# mine", "servers", "x", {"command": "y", "args": ["a"]}))
    # mine
    <BLANKLINE>
    [servers.x]
    command = "y"
    args = ["a"]
    <BLANKLINE>
    """
    return _checked(text, section, name, entry, is_ours, tomllib.loads, _toml_changed)


def _checked(
    text: str,
    section: str,
    name: str,
    entry: Mapping[str, Any],
    is_ours: Callable[[dict[str, Any]], bool],
    read: Callable[[str], Any],
    change: Callable[[str, dict[str, Any], str, str, dict[str, Any]], str],
) -> str:
    try:
        data = read(text)
    except (ValueError, RecursionError) as error:
        raise FileRefused(f"It cannot be read: {error}.", hint="Mend it, and try again.") from None
    if not isinstance(data, dict) or not isinstance(data.get(section, {}), dict):
        raise FileRefused(f"It has no object for {section}.", hint="Mend it, and try again.")
    there = data.get(section, {}).get(name, {})
    if name in data.get(section, {}) and not (isinstance(there, dict) and is_ours(there)):
        raise FileRefused(
            f"It has another server {name!r} already.", hint="Choose another name with --name, or remove that one."
        )
    wanted = {**there, **entry}
    if there == wanted:
        return text
    try:
        changed = change(text, data, section, name, wanted)
        is_good = read(changed) == {**data, section: {**data.get(section, {}), name: wanted}}
    except (ValueError, LookupError, RecursionError):
        is_good = False
    if not is_good:
        raise FileRefused(
            f"It is written in a way in which {section}.{name} cannot be changed safely.",
            hint="Add it by hand; `docs/how-to/mcp.md` shows what to write.",
        )
    return changed


# --- JSON ---------------------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_gap(self) -> bool:
        """Whether it says nothing: blanks, or a comment."""
        return self.text.isspace() or self.text.startswith(("//", "/*"))


class _Object(NamedTuple):
    """An object in a text: where its members' values are, and where it ends."""

    values: dict[str, tuple[int, int]]
    last: _Token
    """The last token in it that says anything; its brace if it is empty."""
    filled: int
    """Where what is in it ends, comments included."""


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1} is no JSON")
        found.append(_Token(match[0], at))
        at = match.end()
    return found


def _json_data(text: str) -> Any:
    said = [token.text for token in _tokens(text.removeprefix("\ufeff")) if not token.is_gap]
    if not said:
        return {}
    # A comma before the end of an object or array is common where comments are allowed.
    kept = [word for word, after in itertools.pairwise([*said, ""]) if not (word == "," and after in ("}", "]"))]
    return json.loads("\n".join(kept))


def _json_changed(text: str, data: dict[str, Any], section: str, name: str, entry: dict[str, Any]) -> str:
    newline, tokens = _newline_of(text), _tokens(text)
    opening = next((index for index, token in enumerate(tokens) if token.text == "{"), None)
    if opening is None:
        # Whatever there is are comments, or a mark of the encoding.
        gap = "" if not text.strip() or text.endswith("\n") else newline
        return text + gap + _dumped({section: {name: entry}}, "  ", 0, newline) + newline
    unit = _indent_of(text)
    whole = _object_at(tokens, opening)
    if section not in data:
        return _added(text, whole, section, {name: entry}, unit, 1, newline)
    inner = _inner(tokens, whole, section)
    if name not in inner.values:
        return _added(text, inner, name, entry, unit, 2, newline)
    for word, value in entry.items():
        # One after the other, so that comments between them stay.
        tokens = _tokens(text)
        ours = _inner(tokens, _inner(tokens, _object_at(tokens, opening), section), name)
        if word not in ours.values:
            text = _added(text, ours, word, value, unit, 3, newline)
        elif data[section][name].get(word) != value:
            begin, end = ours.values[word]
            text = text[:begin] + _dumped(value, unit, 3, newline) + text[end:]
    return text


def _inner(tokens: list[_Token], whole: _Object, key: str) -> _Object:
    """The object that is the value of a key."""
    start, _ = whole.values[key]
    return _object_at(tokens, next(index for index, token in enumerate(tokens) if token.start == start))


def _object_at(tokens: list[_Token], opening: int) -> _Object:
    values: dict[str, tuple[int, int]] = {}
    last, filled, depth = tokens[opening], tokens[opening].end, 0
    key, start = "", -1
    for before, token in itertools.pairwise(tokens[opening:]):
        if token.is_gap:
            filled = filled if token.text.isspace() else token.end
            continue
        if depth == 0 and token.text in (",", "}"):
            if start >= 0:
                values[key] = (start, last.end)
            if token.text == "}":
                return _Object(values, last, filled)
            key, start = "", -1
        elif depth == 0 and not key and token.text.startswith('"'):
            key = json.loads(token.text)
        elif depth == 0 and key and start < 0 and token.text != ":":
            start = token.start
        depth += (token.text in "{[") - (token.text in "}]")
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is too deep at {before.start}")
        last, filled = token, token.end
    raise ValueError("an object is not closed")


def _added(text: str, into: _Object, name: str, value: Any, unit: str, depth: int, newline: str) -> str:
    comma = "" if into.last.text in ("{", ",") else ","
    member = f"{newline}{unit * depth}{json.dumps(name)}: {_dumped(value, unit, depth, newline)}"
    rest = text[into.filled :]
    # An object that was written in one line ends in a line of its own from now on.
    end = "" if rest[: len(rest) - len(rest.lstrip())].count("\n") else f"{newline}{unit * (depth - 1)}"
    return text[: into.last.end] + comma + text[into.last.end : into.filled] + member + end + rest.lstrip(" \t")


def _dumped(value: Any, unit: str, depth: int, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{unit * depth}")


def _newline_of(text: str) -> str:
    """How most lines end."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def _indent_of(text: str) -> str:
    found = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return found[1] if found else "  "


# --- TOML ---------------------------------------------------------------------------------------------------------


def _toml_changed(text: str, data: dict[str, Any], section: str, name: str, entry: dict[str, Any]) -> str:
    lines, newline = re.findall(r"[^\n]*\n|[^\n]+", text), _newline_of(text)
    there = data.get(section, {}).get(name)
    key = name if _BARE(name) else json.dumps(name)
    header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\.\s*(?:{re.escape(name)}|\"{re.escape(name)}\")\s*\]")
    at = next((index for index, line in enumerate(lines) if header.match(line)), None)
    if at is None:
        gap = "" if not text else newline if text.endswith("\n") else 2 * newline
        return text + gap + f"[{section}.{key}]{newline}" + "".join(_assignments(entry, newline))
    for word, value in entry.items():
        if there is None or there.get(word) != value:
            start, end = _assigned(lines, at, word)
            (line,) = _assignments({word: value}, _comment_of(lines[start:end]) + newline)
            lines[start:end] = [line]
    return "".join(lines)


def _assigned(lines: list[str], header: int, key: str) -> tuple[int, int]:
    """The lines of a table that give a key its value; none, right below its header, where it has no such key."""
    for start in range(header + 1, len(lines)):
        if lines[start].lstrip().startswith("["):
            break
        if re.match(rf"\s*(?:{re.escape(key)}|\"{re.escape(key)}\")\s*=", lines[start]):
            for end in range(start + 1, len(lines) + 1):
                if _is_toml("".join(lines[start:end])):
                    return start, end
    return header + 1, header + 1


def _comment_of(lines: list[str]) -> str:
    """The comment behind a value that stands in one line."""
    if len(lines) != 1:
        return ""
    line = lines[0].rstrip("\r\n")
    marks = (at for at, character in enumerate(line) if character == "#")
    at = next((at for at in marks if _is_toml(line[:at])), len(line))
    return line[len(line[:at].rstrip()) :]


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except ValueError:
        return False
    return True


def _assignments(entry: Mapping[str, Any], end: str) -> Iterator[str]:
    for word, value in entry.items():
        yield f"{word} = {_toml_value(value)}{end}"


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
