"""Changes to somebody's configuration file that leave all other text in it as it was, comments too.

The text is changed by hand, so to speak, and then read again: only where exactly the wanted entry is different is the
change good. Whatever is too unusual for that is refused, and never written over.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import yaml

from metier._yaml_edit import remove_entry, set_entry
from metier.cli.json_text import json_data, newline_of, rewritten
from metier.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Format: TypeAlias = Literal["json", "toml", "yaml"]
_BARE = re.compile(r"[A-Za-z0-9_-]+").fullmatch


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


def _json_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: Any) -> str:
    return rewritten(text, _with(data, keys, name, entry))


def _json_without(text: str, keys: tuple[str, ...], name: str) -> str:
    return _json_changed(text, json_data(text), keys, name, None)


def _toml_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    (section,) = keys
    lines, newline = _lines_of(text), newline_of(text)
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


_READERS: Mapping[Format, Callable[[str], Any]] = {"json": json_data, "toml": tomllib.loads, "yaml": _yaml_data}
