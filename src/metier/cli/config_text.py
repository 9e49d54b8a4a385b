"""Changes to somebody's configuration file that leave all other text in it as it was, comments too.

The text is changed by hand, so to speak, and then read again: only where exactly the wanted entry is different is the
change good. Whatever is too unusual for that is refused, and never written over.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import yaml

from metier._yaml_edit import remove_entry, set_entry
from metier.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Format: TypeAlias = Literal["json", "toml", "yaml"]
_BARE = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_MAX_DEPTH = 200
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|[^\S \t\r\n]|\A\ufeff", re.DOTALL)
"""A string, or what JSON does not know: a comment, an unusual blank, a mark of the encoding."""
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
"""A string, or a comma before the end of an object or array, which is common where comments are allowed."""
_BLANKS = re.compile(r"\s*")


def with_entry(
    text: str,
    format: Format,  # noqa: A002
    keys: tuple[str, ...],
    name: str,
    entry: Mapping[str, Any],
    *,
    is_ours: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> str:
    """The text of a file in which the section of some keys has an entry of a name; other fields of the entry stay.

    An entry of that name that is not `is_ours` is never changed; raises `FileRefused`.

    >>> print(with_entry('{\\n  "a": 1 // one\\n}', "json", ("servers",), "x", {"command": "y"}))
    {
      "a": 1, // one
      "servers": {
        "x": {
          "command": "y"
        }
      }
    }
    """
    data, servers = _read(text, format, keys)
    there = _own_entry(servers, name, is_ours)
    wanted = {**there, **entry}
    if name in servers and there == wanted:
        return text
    change = {"json": _json_changed, "toml": _toml_changed, "yaml": _yaml_changed}[format]
    return _checked(format, keys, name, lambda: change(text, data, keys, name, wanted), _with(data, keys, name, wanted))


def without_entry(
    text: str,
    format: Format,  # noqa: A002
    keys: tuple[str, ...],
    name: str,
    *,
    is_ours: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> str:
    """The text of a file without the entry of a name; one that is not `is_ours` stays, and `FileRefused` is raised.

    >>> print(without_entry('{"servers": {"x": {"command": "y"}, "z": {}}}', "json", ("servers",), "x"))
    {"servers": {"z": {}}}
    """
    data, servers = _read(text, format, keys)
    if name not in servers:
        return text
    _own_entry(servers, name, is_ours)
    cut = {"json": _json_without, "toml": _toml_without, "yaml": _yaml_without}[format]
    wanted = _with(data, keys, name, None)
    if format == "toml" and len(servers) == 1:
        del wanted[keys[0]]  # it was there by this table alone
    return _checked(format, keys, name, lambda: cut(text, keys, name), wanted)


def entries_in(text: str, format: Format, keys: tuple[str, ...]) -> dict[str, Any]:  # noqa: A002
    """The entries of a section; raises `FileRefused` for what cannot be read."""
    return _read(text, format, keys)[1]


def _read(text: str, format: Format, keys: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: A002
    """The data of a file, and those of the section that some keys lead to."""
    try:
        data = _READERS[format](text)
    except (ValueError, RecursionError) as error:
        raise FileRefused(f"It cannot be read: {error}.", hint="Mend it, and try again.") from None
    found: Any = data
    for key in keys:
        found = found.get(key, {}) if isinstance(found, dict) else None
        found = {} if found is None and format == "yaml" else found
    if not isinstance(data, dict) or not isinstance(found, dict):
        raise FileRefused(f"It has no object for {'.'.join(keys)}.", hint="Mend it, and try again.")
    return data, found


def _own_entry(servers: dict[str, Any], name: str, is_ours: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    there = servers.get(name, {})
    if name in servers and not (isinstance(there, dict) and is_ours(there)):
        raise FileRefused(
            f"It has another server {name!r} already.", hint="Choose another name with --name, or remove that one."
        )
    return there if isinstance(there, dict) else {}


def _with(data: dict[str, Any], keys: tuple[str, ...], name: str, entry: Any) -> dict[str, Any]:
    """The data as they are to be: with an entry, or without it."""
    if keys:
        below = data.get(keys[0]) or {}
        return {**data, keys[0]: _with(below, keys[1:], name, entry)}
    rest = {word: value for word, value in data.items() if word != name}
    return rest if entry is None else {**data, name: entry}


def _checked(
    format: Format,  # noqa: A002
    keys: tuple[str, ...],
    name: str,
    change: Callable[[], str],
    wanted: dict[str, Any],
) -> str:
    try:
        changed = change()
        is_good = _READERS[format](changed) == wanted
    except (ValueError, LookupError, RecursionError):
        is_good = False
    if not is_good:
        raise FileRefused(
            f"It is written in a way in which {'.'.join((*keys, name))} cannot be changed safely.",
            hint="Change it by hand; `docs/how-to/mcp.md` shows what to write.",
        )
    return changed


class _Member(NamedTuple):
    """The places of a member of an object: where its key begins, and where its value begins and ends."""

    key: int
    start: int
    end: int


class _Object(NamedTuple):
    """An object in a text: its members, and the place of its closing brace."""

    members: dict[str, _Member]
    end: int


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """A text with blanks in place of all that a pattern finds but strings, so that the rest stays in its place."""
    return pattern.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)


def _json_data(text: str) -> Any:
    plain = _blanked(_LAST_COMMA, _blanked(_COMMENT, text))
    return json.loads(plain) if plain.strip() else {}


def _object_of(bare: str, keys: tuple[str, ...]) -> _Object:
    """The object that keys lead to, in a text without comments."""
    plain = _blanked(_LAST_COMMA, bare)
    brackets = re.sub(_STRING, "", plain)
    if max(itertools.accumulate((c in "{[") - (c in "}]") for c in brackets)) > _MAX_DEPTH:
        raise ValueError("it is too deep")
    found = _object_at(plain, plain.index("{"))
    for key in keys:
        found = _object_at(plain, found.members[key].start)
    return found


def _object_at(plain: str, brace: int) -> _Object:
    decode = json.JSONDecoder().raw_decode
    members: dict[str, _Member] = {}
    at = _next(plain, brace + 1)
    while plain[at] != "}":
        key, colon = decode(plain, at)
        start = _next(plain, _next(plain, colon) + 1)
        _, end = decode(plain, start)
        members[key] = _Member(at, start, end)
        at = _next(plain, end)
        at = _next(plain, at + 1) if plain[at] == "," else at
    return _Object(members, at)


def _next(text: str, at: int) -> int:
    """The place of the next character that is no blank."""
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _json_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    newline, unit = _newline_of(text), _indent_of(text)
    if "{" not in _blanked(_COMMENT, text):
        # Whatever there is are comments, or a mark of the encoding.
        gap = "" if not text.strip() or text.endswith("\n") else newline
        return text + gap + _dumped(_nested((*keys, name), entry), "  ", 0, newline) + newline
    there: Any = data
    for depth, key in enumerate((*keys, name)):
        if key not in there:
            missing = _nested((*keys, name)[depth + 1 :], entry)
            return _added(text, keys[:depth], key, missing, unit, newline)
        there = there[key]
    for word, value in entry.items():
        # One after the other, so that comments between them stay.
        if word not in there:
            text = _added(text, (*keys, name), word, value, unit, newline)
        elif there[word] != value:
            _, start, end = _object_of(_blanked(_COMMENT, text), (*keys, name)).members[word]
            text = text[:start] + _dumped(value, unit, len(keys) + 2, newline) + text[end:]
    return text


def _nested(keys: tuple[str, ...], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _json_without(text: str, keys: tuple[str, ...], name: str) -> str:
    bare = _blanked(_COMMENT, text)
    start, _, end = _object_of(bare, keys).members[name]
    after = _next(bare, end)
    is_last = bare[after] == "}"
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
    return head + ("" if head.endswith("{") or is_last else " ") + blank


def _added(text: str, keys: tuple[str, ...], name: str, value: Any, unit: str, newline: str) -> str:
    """The text with a new last member of the object that keys lead to."""
    depth, bare = len(keys) + 1, _blanked(_COMMENT, text)
    end = _object_of(bare, keys).end
    # Comments behind the last member stay before the new one.
    last, filled = bare[:end].rstrip(), len(text[:end].rstrip())
    comma = "" if last.endswith(("{", ",")) else ","
    member = f"{newline}{unit * depth}{json.dumps(name)}: {_dumped(value, unit, depth, newline)}"
    rest = text[filled:]
    # An object that was written in one line ends in a line of its own from now on.
    close = "" if "\n" in text[filled:end] else f"{newline}{unit * (depth - 1)}"
    return text[: len(last)] + comma + text[len(last) : filled] + member + close + rest.lstrip(" \t")


def _dumped(value: Any, unit: str, depth: int, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{unit * depth}")


def _newline_of(text: str) -> str:
    """Return the line ending that most lines have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def _indent_of(text: str) -> str:
    found = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return found[1] if found else "  "


def _toml_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    (section,) = keys
    lines, newline = _lines_of(text), _newline_of(text)
    there = data.get(section, {}).get(name)
    key = name if _BARE(name) else json.dumps(name)
    header = _header(section, name, r"\s*\]")
    at = next((index for index, line in enumerate(lines) if header.match(line)), None)
    if at is None:
        gap = "" if not text else newline if text.endswith("\n") else 2 * newline
        assignments = (f"{word} = {_toml_value(value)}" for word, value in entry.items())
        return text + gap + "".join(f"{line}{newline}" for line in (f"[{section}.{key}]", *assignments))
    for word, value in entry.items():
        if there is None or there.get(word) != value:
            start, end = _assigned(lines, at, word)
            lines[start:end] = [f"{word} = {_toml_value(value)}{_comment_of(lines[start:end])}{newline}"]
    return "".join(lines)


def _toml_without(text: str, keys: tuple[str, ...], name: str) -> str:
    (section,) = keys
    lines, header = _lines_of(text), _header(section, name, r"\s*[\].]")
    kept: list[str] = []
    is_cut = False
    for line in lines:
        if line.lstrip().startswith("["):
            is_cut = header.match(line) is not None
            while is_cut and kept and not kept[-1].strip():
                kept.pop()
        # What stands alone may well be about the next table.
        if not is_cut or not line.strip() or line.lstrip().startswith("#"):
            kept.append(line)
    return "".join(kept)


def _header(section: str, name: str, end: str) -> re.Pattern[str]:
    return re.compile(rf"\s*\[\s*{re.escape(section)}\s*\.\s*(?:{re.escape(name)}|\"{re.escape(name)}\"){end}")


def _lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


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


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _yaml_data(text: str) -> Any:
    """The data of a text; raises ValueError for what is no YAML, or has an alias."""
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("it has an alias")
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _yaml_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    there = (data.get(keys[0]) or {}).get(name)
    if there is None:
        return set_entry(text, (*keys, name), {word: json.dumps(value) for word, value in entry.items()})
    for word, value in entry.items():
        if word not in there or there[word] != value:
            text = set_entry(text, (*keys, name, word), json.dumps(value))
    return text


def _yaml_without(text: str, keys: tuple[str, ...], name: str) -> str:
    return remove_entry(text, (*keys, name))


_READERS: Mapping[Format, Callable[[str], Any]] = {"json": _json_data, "toml": tomllib.loads, "yaml": _yaml_data}
