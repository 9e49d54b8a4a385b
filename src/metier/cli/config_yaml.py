"""Changes to a configuration file in YAML that leave all other lines as they were, comments too.

Only block mappings with one entry a line are changed, as programs write them; `config_text` checks what came of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml


def yaml_data(text: str) -> Any:
    """The data of a text; raises ValueError for what is no YAML, or stands for more than it says."""
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("it has an alias")
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def yaml_changed(text: str, data: dict[str, Any], keys: tuple[str, ...], name: str, entry: dict[str, Any]) -> str:
    """The text with an entry below a key of the outermost mapping."""
    (section,) = keys
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if not data.get(section):
        lines = [line for line in lines if not re.match(rf"{re.escape(section)}\s*:", line)]
        return "".join([*lines, f"{section}:\n", *_written(name, entry, "  ", "  ")])
    top = _line_of(lines, 0, len(lines), "", section)
    end = _end_of(lines, top)
    unit = _indent_in(lines[top + 1 : end])
    if name not in data[section]:
        return "".join([*lines[: top + 1], *_written(name, entry, unit, unit or "  "), *lines[top + 1 :]])
    own = _line_of(lines, top + 1, end, unit, name)
    below = _indent_in(lines[own + 1 : _end_of(lines, own)])
    for word, value in entry.items():
        if word not in data[section][name]:
            lines.insert(own + 1, f"{below}{word}: {json.dumps(value)}\n")
        elif data[section][name][word] != value:
            at = _line_of(lines, own + 1, _end_of(lines, own), below, word)
            lines[at : _end_of(lines, at)] = [f"{below}{word}: {json.dumps(value)}\n"]
    return "".join(lines)


def yaml_without(text: str, keys: tuple[str, ...], name: str) -> str:
    """The text without an entry below a key of the outermost mapping."""
    (section,) = keys
    lines = text.splitlines(keepends=True)
    top = _line_of(lines, 0, len(lines), "", section)
    end = _end_of(lines, top)
    unit = _indent_in(lines[top + 1 : end])
    own = _line_of(lines, top + 1, end, unit, name)
    rest = [*lines[top + 1 : own], *lines[_end_of(lines, own) : end]]
    if not any(re.match(r" *[^\s#]", line) for line in rest):
        lines[top] = f"{section}: {{}}\n"
    return "".join([*lines[: top + 1], *rest, *lines[end:]])


def _written(name: str, entry: dict[str, Any], indent: str, unit: str) -> list[str]:
    return [f"{indent}{name}:\n", *(f"{indent}{unit}{word}: {json.dumps(value)}\n" for word, value in entry.items())]


def _indent_in(lines: list[str]) -> str:
    """The indentation of the first line that says anything; raises LookupError."""
    for line in lines:
        if found := re.match(r"( *)[^\s#]", line):
            return found[1]
    raise LookupError("nothing is below it")


def _line_of(lines: list[str], start: int, end: int, indent: str, key: str) -> int:
    """The line on which a mapping of an indentation has a key; raises LookupError."""
    pattern = re.compile(rf"{indent}(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')\s*:(?:\s|$)")
    for index in range(start, end):
        if pattern.match(lines[index]):
            return index
    raise LookupError(key)


def _end_of(lines: list[str], start: int) -> int:
    """The end of what a key's line begins: lines that are further in, and items of a list at the same place."""
    own = len(lines[start]) - len(lines[start].lstrip(" "))
    end = start + 1
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent < own or (indent == own and not line.lstrip().startswith("- ")):
            break
        end = index + 1
    return end
