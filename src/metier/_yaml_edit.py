"""Edits YAML text: sets or removes one entry of a mapping, and leaves every other line as it is, comments too.

The caller parses the result and compares: text that is too unusual gives `LookupError`, or a result that is refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch
_WORDS = frozenset({"on", "off", "yes", "no", "y", "n", "true", "false", "null"})


class _Found(NamedTuple):
    """The deepest existing key of a path."""

    depth: int
    """The number of keys that exist."""
    key: Any
    """Its node; None for the whole text."""
    value: Any
    in_braces: bool
    """Whether the entry stands in a flow mapping: `{a: b}`."""


def set_entry(text: str, path: tuple[str, ...], value: str | Mapping[str, str]) -> str:
    """Set the entry of a path to a value, written in YAML, or to a mapping of such values.

    >>> print(set_entry("skills:\\n  deny: [miner]  # all\\nmode: audit\\n", ("skills", "listing", "pdf"), "'off'"))
    skills:
      deny: [miner]  # all
      listing:
        pdf: 'off'
    mode: audit
    <BLANKLINE>
    """
    found = _find(text, path)
    missing = path[found.depth :]
    if not missing:
        if not isinstance(value, str):
            raise LookupError(path[-1])
        is_inline = found.value.start_mark.line == found.key.end_mark.line
        start = found.value.start_mark.index if is_inline else found.key.end_mark.index
        return text[:start] + ("" if is_inline else ": ") + value + text[_end(found.value) :]
    is_empty = _is_null(found.value)
    if not is_empty and not isinstance(found.value, yaml.MappingNode):
        raise LookupError(missing[0])
    is_empty = is_empty or not found.value.value
    if found.in_braces or (not is_empty and found.value.flow_style):
        return _insert_in_braces(text, found.value, missing, value)
    if found.key is None and found.value is None:
        return _with_lines(text, 0, missing, value)
    if not is_empty:
        # Behind the last value: comments above a key stay above it.
        end = text.find("\n", _end(found.value)) + 1 or len(text)
        return _with_lines(text[:end], found.value.value[0][0].start_mark.column, missing, value) + text[end:]
    if found.key is None:
        raise LookupError(path[0])
    column, start = found.key.start_mark.column, found.key.end_mark.index
    end = text.find("\n", found.value.end_mark.index) + 1 or len(text)
    comment = text[max(found.value.end_mark.index, start + 1) : end].strip()
    head = f"{text[:start]}:{f'  {comment}' if comment else ''}\n"
    return _with_lines(head, column + 2, missing, value) + text[end:]


def remove_entry(text: str, path: tuple[str, ...]) -> str:
    """Remove the entry of a path from a block mapping; a mapping without entries becomes `{}`."""
    above, found = _find(text, path[:-1]), _find(text, path)
    if found.depth < len(path) or found.in_braces or above.key is None:
        raise LookupError(path[-1])
    start = found.key.start_mark.index - found.key.start_mark.column
    end = text.find("\n", _end(found.value)) + 1 or len(text)
    if len(above.value.value) == 1:
        after_key = above.key.end_mark.index
        line_end = text.find("\n", after_key)
        return f"{text[:after_key]}: {{}}{text[line_end:start]}{text[end:]}"
    return text[:start] + text[end:]


def _find(text: str, path: tuple[str, ...]) -> _Found:
    """The deepest existing key of a path."""
    key, value, in_braces = None, yaml.compose(text, Loader=yaml.SafeLoader), False
    for depth, name in enumerate(path):
        pairs = value.value if isinstance(value, yaml.MappingNode) else ()
        inner = next(((key, value) for key, value in pairs if key.value == name), None)
        if inner is None:
            return _Found(depth, key, value, in_braces)
        in_braces = in_braces or value.flow_style
        key, value = inner
    return _Found(len(path), key, value, in_braces)


def _is_null(node: Any) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"))


def _end(node: Any) -> int:
    """The position behind the last value of a node, before comments that may follow."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _with_lines(before: str, column: int, names: tuple[str, ...], value: str | Mapping[str, str]) -> str:
    """Text with the lines of nested entries behind it, the first of them from a column on."""
    before += "" if not before or before.endswith("\n") else "\n"
    lines = [f"{'  ' * depth}{_written(name)}:" for depth, name in enumerate(names)]
    if isinstance(value, str):
        lines[-1] += f" {value}"
    else:
        lines += [f"{'  ' * len(names)}{_written(name)}: {one}" for name, one in value.items()]
    return before + "".join(f"{' ' * column}{line}\n" for line in lines)


def _insert_in_braces(text: str, node: Any, names: tuple[str, ...], value: str | Mapping[str, str]) -> str:
    if not isinstance(value, str):
        raise LookupError(names[-1])
    flow = f"{_written(names[-1])}: {value}"
    for name in reversed(names[:-1]):
        flow = f"{_written(name)}: {{{flow}}}"
    start = node.start_mark.index
    if not isinstance(node, yaml.MappingNode):
        return f"{text[:start]} {{{flow}}}{text[node.end_mark.index :]}"
    return text[: start + 1] + flow + (", " if node.value else "") + text[start + 1 :]


def _written(name: str) -> str:
    return name if _PLAIN(name) and name.lower() not in _WORDS else json.dumps(name, ensure_ascii=False)
