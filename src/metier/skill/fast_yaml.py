"""The fast path: the YAML that most authors write, read without a YAML parser.

PyYAML's C loader needs some seventy microseconds for a typical block, most of it for making Python objects of parser
events. This reader knows a strict subset (plain, quoted and block scalars, lists of scalars, nested maps, JSON in one
line) and gives up with None at the first thing it is not sure of. What it returns is what PyYAML's `BaseLoader`
returns; the tests hold the two side by side on generated and on real blocks.

One kind of broken block is read here too: a plain scalar on one line with `: ` in it. That is an error in every YAML
parser, it is by far the most common one, and the repair for it (take the value as text) needs no second parse.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from metier.skill.diagnostic import Diagnostic


class YamlFields(NamedTuple):
    """A frontmatter block as a mapping of strings, lists and mappings."""

    mapping: dict[str, Any]
    lines: list[int]
    """For each key of the mapping, its line in the file."""
    notes: tuple[Diagnostic, ...]


_NOT_PLAIN = frozenset("-?:,[]{}#&*!|>'\"%@` ")
_FLOW_PUNCTUATION = dict.fromkeys(map(ord, " _./+*():-"))
_GOES_ON = frozenset(("", " ", "-"))
"""Beginnings of a line that may go on with the value before it."""
_BLOCK_HEADERS = frozenset(("|", "|-", ">", ">-"))
_MAX_DEPTH = 12
_MAX_NOTES = 50

MAX_BLOCK_BYTES = 64 * 1024
"""A frontmatter larger than this is not read as YAML at all."""

# Keys that were checked once are known to be good; real files share a few dozen.
_good_keys: set[str] = {"name", "description", "license", "metadata", "version", "tags", "allowed-tools"}
_GOOD_KEYS_KEPT = 512


class _Unsure(Exception):
    """This block is for the real parser."""


def read_block(block: str, first_line: int) -> YamlFields:
    """The fields of a frontmatter block, whatever state it is in.

    >>> read_block("name: pdf\\ndescription: Use when: filling forms\\n", 2).mapping["description"]
    'Use when: filling forms'
    """
    fields = read_fast_yaml(block, first_line)
    if fields is not None:
        return fields
    from metier.skill.yaml_block import parse_block

    return parse_block(block, first_line)


def read_fast_yaml(block: str, first_line: int) -> YamlFields | None:
    """The mapping of a simple block, or None when only a YAML parser can tell.

    >>> read_fast_yaml("name: pdf\\ndescription: Fill forms\\n", 2).mapping
    {'name': 'pdf', 'description': 'Fill forms'}
    >>> read_fast_yaml("name: &anchor pdf\\n", 2) is None
    True
    """
    if len(block) > MAX_BLOCK_BYTES:
        return None
    # Tabs, line separators of other kinds, zero-width and control characters all mean something to YAML.
    if not block.replace("\n", "").isprintable():
        return None
    lines = block.split("\n")
    lines.pop()  # the block ends in a line feed
    keys_at: list[int] = []
    unquoted: list[tuple[int, str]] = []
    try:
        mapping, _ = _map(lines, 0, 0, keys_at, unquoted)
    except _Unsure:
        return None
    notes = [Diagnostic("yaml-unquoted-colon", at + first_line, (key,)) for at, key in unquoted]
    return YamlFields(mapping, [at + first_line for at in keys_at], tuple(notes))


def _map(
    lines: list[str],
    i: int,
    depth: int,
    keys_at: list[int] | None = None,
    unquoted: list[tuple[int, str]] | None = None,
) -> tuple[dict[str, Any], int]:
    """The map whose keys stand at `depth` from `lines[i]` on, and the line after it.

    Of the outermost map, `keys_at` gets the line of each key, and `unquoted` the values with `: ` in them; elsewhere
    such a value is an error.
    """
    if depth > _MAX_DEPTH * 2:
        raise _Unsure
    mapping: dict[str, Any] = {}
    count = len(lines)
    while i < count:
        line = lines[i]
        text = line.lstrip(" ")
        if not text or text[0] == "#":
            i += 1
            continue
        at = len(line) - len(text)
        if at < depth:
            break
        key, colon, value = text.partition(":")
        if at > depth or not colon or (value and value[0] != " ") or key in mapping:
            raise _Unsure
        if key not in _good_keys and not _good_key(key):
            raise _Unsure
        if keys_at is not None:
            keys_at.append(i)
        i += 1
        value = value.strip(" ")
        if value and value[0] not in _NOT_PLAIN and " #" not in value and (i == count or lines[i][:1] not in _GOES_ON):
            if ": " in value or value[-1] == ":":
                if unquoted is None or len(unquoted) == _MAX_NOTES:
                    raise _Unsure
                unquoted.append((i - 1, key))
            mapping[key] = value
        else:
            mapping[key], i = _value(value, lines, i, depth)
    return mapping, i


def _good_key(key: str) -> bool:
    if not key.isascii() or not key[:1].isalpha() or len(key) > 120:
        return False
    if not key.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return False
    if len(_good_keys) < _GOOD_KEYS_KEPT:
        _good_keys.add(key)
    return True


def _value(value: str, lines: list[str], i: int, indent: int) -> tuple[Any, int]:
    """The value that begins with `value`, for a key at `indent` whose next line is `lines[i]`; and the line after."""
    if not value or value[0] == "#":
        return _nested(lines, i, indent)
    first = value[0]
    if first in "|>":
        if value not in _BLOCK_HEADERS:
            raise _Unsure
        return _block_scalar(value, lines, i, indent)
    if first not in _NOT_PLAIN:
        return _plain_scalar(value, lines, i, indent)
    if first in "\"'" and not (len(value) > 1 and value[-1] == first):
        comment = value.find(first + " #", 1)
        if comment < 0:
            raise _Unsure
        value = value[: comment + 1]
    elif first in "[{" and " #" in value:
        value = value[: value.index(" #")].rstrip(" ")
    _end_of_entry(lines, i, indent)
    return _one_line(value), i


def _fold(parts: list[str]) -> str:
    """Lines joined as YAML folds them: a line end is a blank, an empty line is a line end."""
    text = parts[0]
    blank = 0
    last = len(parts) - 1
    for number, part in enumerate(parts[1:], 1):
        if not part and number != last:
            blank += 1
            continue
        text += ("\n" * blank if blank else " ") + part
        blank = 0
    return text


def _one_line(value: str) -> Any:
    """A scalar, or a list or map in flow style, that is complete on its line."""
    first = value[0]
    if first == '"':
        inner = value[1:-1]
        bare = inner.replace('\\"', "")
        if len(value) < 2 or value[-1] != '"' or '"' in bare or "\\" in bare:
            raise _Unsure
        return inner.replace('\\"', '"')
    if first == "'":
        inner = value[1:-1]
        if len(value) < 2 or value[-1] != "'" or "'" in inner.replace("''", ""):
            raise _Unsure
        return inner.replace("''", "'")
    if first == "[":
        return _flow_list(value)
    if first == "{":
        return _json(value)
    if first in _NOT_PLAIN or ": " in value or " #" in value or value[-1] == ":":
        raise _Unsure
    return value


def _plain_scalar(value: str, lines: list[str], i: int, indent: int) -> tuple[str, int]:
    """A plain scalar with the lines that continue it, folded into one."""
    if " #" in value:
        value = value[: value.index(" #")].rstrip(" ")
        _end_of_entry(lines, i, indent)
        if ": " in value or value[-1] == ":":
            raise _Unsure
        return value, i
    parts = [value]
    while i < len(lines):
        line = lines[i]
        text = line.strip(" ")
        if not text:
            _end_of_entry(lines, i, indent)
            break
        if len(line) - len(line.lstrip(" ")) <= indent:
            _end_of_entry(lines, i, indent)
            break
        if text[0] in "#-":
            raise _Unsure
        parts.append(text)
        i += 1
    for part in parts:
        if ": " in part or " #" in part or part[-1] == ":":
            raise _Unsure
    return " ".join(parts), i


def _end_of_entry(lines: list[str], i: int, indent: int) -> None:
    """Make sure that what follows belongs to a next entry, not to the value just read."""
    while i < len(lines):
        line = lines[i]
        text = line.lstrip(" ")
        if text:
            if len(line) - len(text) > indent or text.startswith("- ") or text == "-":
                raise _Unsure
            return
        i += 1


def _nested(lines: list[str], i: int, indent: int) -> tuple[Any, int]:
    """The value below a key without one on its line: a list, a map, or nothing (an empty string to `BaseLoader`)."""
    while i < len(lines) and not lines[i].strip(" "):
        i += 1
    if i == len(lines):
        return "", i
    line = lines[i]
    text = line.lstrip(" ")
    depth = len(line) - len(text)
    if text[0] == "#":
        raise _Unsure
    if text[0] == "-" and depth >= indent:
        return _list(lines, i, depth)
    if depth <= indent:
        return "", i
    if text[0] not in _NOT_PLAIN and ": " not in text and text.rstrip(" ")[-1] != ":":
        return _plain_scalar(text.rstrip(" "), lines, i + 1, indent)
    return _map(lines, i, depth)


def _list(lines: list[str], i: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while i < len(lines):
        line = lines[i]
        text = line.lstrip(" ")
        if not text:
            i += 1
            continue
        at = len(line) - len(text)
        if at < depth or (at == depth and text[0] != "-"):
            break
        if at > depth or not text.startswith("- "):
            raise _Unsure
        item = text[2:].lstrip(" ")
        if not item or item[0] == "#":
            raise _Unsure
        _key, colon, rest = item.partition(":")
        if colon and rest[:1] in ("", " ") and item[0] not in _NOT_PLAIN:
            inner = len(line) - len(item)
            lines[i] = " " * inner + item
            entry, i = _map(lines, i, inner)
            items.append(entry)
            continue
        if item[0] not in _NOT_PLAIN and " #" in item:
            item = item[: item.index(" #")]
        items.append(_one_line(item.rstrip(" ")))
        i += 1
    return items, i


def _block_scalar(header: str, lines: list[str], i: int, indent: int) -> tuple[str, int]:
    """A `|` or `>` scalar whose lines are all indented alike."""
    if i == len(lines):
        raise _Unsure
    depth = len(lines[i]) - len(lines[i].lstrip(" "))
    if depth <= indent or depth == len(lines[i]):
        raise _Unsure
    content: list[str] = []
    while i < len(lines):
        line = lines[i]
        text = line.lstrip(" ")
        if not text:
            if len(line) > depth:
                raise _Unsure
            content.append("")
        else:
            at = len(line) - len(text)
            if at < depth:
                if at > indent:
                    raise _Unsure
                break
            content.append(line[depth:])
        i += 1
    while not content[-1]:
        content.pop()
    if header[0] == "|":
        text = "\n".join(content)
    else:
        if any(line[:1] == " " for line in content):
            raise _Unsure  # deeper lines are not folded
        text = _fold(content)
    return (text if header[1:] == "-" else text + "\n"), i


def _flow_list(value: str) -> list[str]:
    inner = value[1:-1].strip(" ")
    if value[-1] != "]":
        raise _Unsure
    if not inner:
        return []
    items: list[str] = []
    for part in inner.split(","):
        item = part.strip(" ")
        if not item:
            raise _Unsure
        if item[0] in "\"'":
            if len(item) < 2 or item[-1] != item[0] or item[0] in item[1:-1] or "\\" in item:
                raise _Unsure
            item = item[1:-1]
        elif not _is_plain_in_flow(item):
            raise _Unsure
        items.append(item)
    return items


def _is_plain_in_flow(item: str) -> bool:
    """Whether an item between commas is plainly a plain scalar: a word or words, perhaps `Bash(git:*)`."""
    if not item.isascii() or not (item[0].isalnum() or item[0] == "_") or item[-1] == ":" or ": " in item:
        return False
    return item.translate(_FLOW_PUNCTUATION).isalnum()


def _json(value: str) -> dict[str, Any]:
    """A map in JSON on one line, with every scalar as the text it was written as."""
    if value[-1] != "}" or "\\" in value or value.count("{") + value.count("[") > _MAX_DEPTH * 4:
        raise _Unsure
    try:
        parsed = json.loads(
            value, parse_float=str, parse_int=str, parse_constant=_refuse, object_pairs_hook=_unique_pairs
        )
    except (ValueError, RecursionError):
        raise _Unsure from None
    return {key: _as_text(item) for key, item in parsed.items()}


def _refuse(name: str) -> Any:
    raise _Unsure


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs) or any(len(key) > 120 for key in mapping):
        raise _Unsure
    return mapping


def _as_text(item: Any) -> Any:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        return {key: _as_text(inner) for key, inner in item.items()}
    if isinstance(item, list):
        return [_as_text(inner) for inner in item]
    return {True: "true", False: "false", None: "null"}[item]
