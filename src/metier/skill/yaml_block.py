"""From a frontmatter block to a mapping: the fast path, then PyYAML within bounds, then the repairs.

Scalars stay strings (`version: 1.10`, `name: on`); only known fields are coerced, later. Aliases are followed but
every visit counts against one limit, so that a few lines cannot stand for a billion nodes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from metier.skill.compound_fields import combined, restricted_field
from metier.skill.diagnostic import Diagnostic, as_text
from metier.skill.fast_yaml import MAX_BLOCK_BYTES, YamlFields, read_fast_yaml
from metier.skill.frontmatter import drop_control

_MAX_NODES = 20_000
_MAX_DEPTH = 64
_SMALL = 8 * 1024
_TOP = "top"


class BlockError(Exception):
    """A block that YAML cannot read, with the place (counted from 0 in the block) where it says so."""

    def __init__(self, problem: str, line: int, context_line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.context_line = context_line


class BlockTooComplex(BlockError):
    """A block that is valid YAML but stands for more than a frontmatter ever needs."""


class Parsed(NamedTuple):
    """The value that YAML itself gives a block, without any repair."""

    value: Any
    lines: list[int]
    duplicates: list[tuple[str, int]]


def parse_block(block: str, first_line: int) -> YamlFields:
    """The fields of a block that only a YAML parser can read, repaired where they are broken."""
    try:
        parsed = parse_yaml(block)
    except BlockError as error:
        return repair_block(block, first_line, error)
    return reading_of(parsed, first_line)


def reading_of(parsed: Parsed, first_line: int) -> YamlFields:
    """A parsed block as a reading; anything but a mapping is text that happens to stand between delimiters."""
    if parsed.value is None:
        return YamlFields({}, [], ())
    if not isinstance(parsed.value, dict):
        return YamlFields({}, [], (Diagnostic("frontmatter-not-a-mapping", first_line),))
    notes = tuple(duplicate_note(key, line + first_line) for key, line in parsed.duplicates)
    return YamlFields(parsed.value, [line + first_line for line in parsed.lines], notes)


def duplicate_note(key: str, line: int) -> Diagnostic:
    """The diagnostic for a key that is given again."""
    restricted = restricted_field(key)
    return (
        Diagnostic("yaml-duplicate-key", line, (key,))
        if restricted is None
        else Diagnostic("field-restricts-twice", line, (restricted,))
    )


def parse_yaml(block: str) -> Parsed:
    """Exactly what PyYAML reads in a block, every scalar a string; raises `BlockError` where it cannot."""
    import yaml

    size = len(block.encode())
    if size > MAX_BLOCK_BYTES:
        raise BlockTooComplex(f"larger than {MAX_BLOCK_BYTES:,} bytes", 0)
    loader_type: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _refuse_deep_nesting(block, loader_type)
        loader = loader_type(block)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark, context = error.problem_mark, error.context_mark
        line = _line_of(mark, block) if mark else 0
        raise BlockError(error.problem or "unreadable", line, _line_of(context, block) if context else None) from None
    except yaml.YAMLError as error:
        # The reader refuses a character and gives its position instead of a mark.
        position = getattr(error, "position", 0)
        raise BlockError(str(getattr(error, "reason", "unreadable")), block.count("\n", 0, position)) from None
    except RecursionError:
        raise BlockTooComplex("nested too deeply", 0) from None
    if node is None:
        return Parsed(None, [], [])
    return _Construction(block).parsed(node)


def _line_of(mark: Any, block: str) -> int:
    """The line of a mark; YAML also ends lines at three characters that files do not."""
    return int(mark.line) if block.isascii() else block.count("\n", 0, mark.index)


def _refuse_deep_nesting(block: str, loader_type: Any) -> None:
    """Count nesting by events, which takes no stack, before composing, which takes C stack for every level."""
    if len(block) <= _SMALL and sum(map(block.count, "[{-?:")) <= _MAX_DEPTH:
        return
    loader = loader_type(block)
    depth = events = 0
    try:
        while loader.check_event():
            events += 1
            if events > _MAX_NODES:
                raise BlockTooComplex("too large", 0)
            name = type(loader.get_event()).__name__
            if name.endswith("StartEvent") and name[0] in "SM" and name != "StreamStartEvent":
                depth += 1
                if depth > _MAX_DEPTH:
                    raise BlockTooComplex("nested too deeply", 0)
            elif name in ("SequenceEndEvent", "MappingEndEvent"):
                depth -= 1
    finally:
        loader.dispose()


class _Construction:
    """Makes strings, lists and dicts of nodes, counting every visit."""

    def __init__(self, block: str) -> None:
        self.block = block
        self.visits = 0
        self.open: set[int] = set()
        self.duplicates: list[tuple[str, int]] = []

    def parsed(self, node: Any) -> Parsed:
        value = self.value(node, _TOP)
        lines: dict[str, int] = {}
        if isinstance(value, dict):
            for key_node, _ in node.value:
                lines[self.key(key_node)] = _line_of(key_node.start_mark, self.block)
        return Parsed(value, [lines[key] for key in value] if isinstance(value, dict) else [], self.duplicates)

    def value(self, node: Any, within: str = "") -> Any:
        """The value of a node; `within` is the restricting field that it is of, or the top where fields are."""
        # Long text counts for more than one node: an alias to it costs as much wherever it is written out.
        self.visits += 1 + (len(node.value) >> 6 if node.id == "scalar" else 0)
        if self.visits > _MAX_NODES:
            line = _line_of(node.start_mark, self.block)
            raise BlockTooComplex("too large once its aliases are followed", line)
        if node.id == "scalar":
            return node.value
        if id(node) in self.open:
            raise BlockTooComplex("defined by an alias to itself", _line_of(node.start_mark, self.block))
        self.open.add(id(node))
        try:
            if node.id == "sequence":
                return [self.value(item) for item in node.value]
            mapping: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self.key(key_node)
                value = self.value(value_node, _inner(within, key) if value_node.id == "mapping" else "")
                if key not in mapping:
                    mapping[key] = value
                    continue
                self.duplicates.append((key, _line_of(key_node.start_mark, self.block)))
                mapping = _with_duplicate(mapping, key, value, within)
            return mapping
        finally:
            self.open.discard(id(node))

    def key(self, node: Any) -> str:
        """A key as text; a list or map as a key (`{{ template }}` makes one) by the words in it."""
        if node.id == "scalar":
            return str(node.value)
        return as_text(self.value(node))[:200]


def _inner(within: str, key: str) -> str:
    """The kind of the map below a key: one of fields, a restricting field, or "" for any other."""
    if within == "metadata":
        return _TOP if key == "metier" else ""
    if within != _TOP:
        return ""
    return "metadata" if key == "metadata" else restricted_field(key) or ""


def _with_duplicate(mapping: dict[str, Any], key: str, value: Any, within: str) -> dict[str, Any]:
    """A map with a key that it has already: the last counts, but nothing takes back what a field restricts."""
    if within in ("scope", "execution"):
        found: dict[str, Any] = combined(within, mapping, {key: value})
        return found
    restricted = restricted_field(key) if within == _TOP else None
    mapping[key] = value if restricted is None else combined(restricted, mapping[key], value)
    return mapping


_ENTRY = re.compile(
    r"(?P<lead>[ ]*(?:- +)*)"
    r"(?P<key>[\w.$@/-][^:#\n\"']{0,120}?|\"[^\"\n]*\"|'[^'\n]*')"
    r"[ ]*:(?P<gap>[ ]+|$)(?P<value>.*)"
)
_ITEM = re.compile(r"(?P<lead>[ ]*- +)(?P<value>.*)")
_TOP_KEY = re.compile(r"(?:[A-Za-z_][\w. -]{0,60}|\"[^\"\n]{1,60}\"|'[^'\n]{1,60}')[ ]*:(?=[ \t]|$)")
_TAB_INDENT = re.compile(r"^[ ]*\t[ \t]*", re.MULTILINE)
_MAX_ROUNDS = 24
_MOST_PARSED = 192 * 1024
_LONGEST_LINE = 4_096
_MOST_BY_YAML = 200  # a block with more fields than this is an attack, and raw text will do


def repair_block(block: str, first_line: int, error: BlockError) -> YamlFields:
    """Read a block that YAML refused, mending what can be mended."""
    notes: list[Diagnostic] = []
    if isinstance(error, BlockTooComplex):
        return _line_by_line(block, first_line, error, notes)
    clean, found = drop_control(block.replace("\x85", " ").replace("\u2028", " ").replace("\u2029", " "))
    notes.extend(Diagnostic(note.code, (note.line or 1) + first_line - 1, note.values) for note in found)
    if tab := _TAB_INDENT.search(clean):
        notes.append(Diagnostic("yaml-tab", clean.count("\n", 0, tab.start()) + first_line))
        clean = _TAB_INDENT.sub(lambda tab: tab[0].replace("\t", "  "), clean)
    lines = clean.split("\n")
    before = list(notes)
    mended: set[int] = set()
    # Every round parses the whole block, so a large one gets few.
    for _ in range(max(2, min(_MAX_ROUNDS, _MOST_PARSED // (len(clean) + 1)))):
        try:
            reading = _read("\n".join(lines), first_line)
        except BlockTooComplex as complex_error:
            return _line_by_line(clean, first_line, complex_error, notes)
        except BlockError as next_error:
            error = next_error
        else:
            return YamlFields(reading.mapping, reading.lines, (*notes, *reading.notes))
        note = _mend(lines, error, mended)
        if note is None:
            break
        notes.append(Diagnostic(note.code, (note.line or 0) + first_line, note.values))
    return _line_by_line(clean, first_line, error, before)


def _read(block: str, first_line: int) -> YamlFields:
    return read_fast_yaml(block, first_line) or reading_of(parse_yaml(block), first_line)


def _mend(lines: list[str], error: BlockError, mended: set[int]) -> Diagnostic | None:
    """Quote the value of the entry in which YAML stopped, or of the one in which it began to go wrong."""
    places = [error.line] if error.context_line is None else [error.line, error.context_line]
    for place in places:
        start = _entry_start(lines, min(place, len(lines) - 1))
        if start is None or start in mended:
            continue
        entry = _entry(lines[start])
        if entry is None:
            continue
        mended.add(start)
        note = _quote(lines, start, entry)
        if note is not None:
            return note
    return None


def _entry_start(lines: list[str], place: int) -> int | None:
    """The line of the entry that a line belongs to: a deeper line below a value only continues that value."""
    start = None
    indent = len(lines[place])
    for i in range(place, -1, -1):
        if not lines[i].strip():
            continue
        entry = _entry(lines[i])
        at = len(lines[i]) - len(lines[i].lstrip(" "))
        if entry is not None and (start is None or (at < indent and entry["value"].strip())):
            start = i
        indent = min(indent, at)
        if indent == 0 and start is not None:
            break
    return start


def _entry(line: str) -> re.Match[str] | None:
    """A line as `key: value` or `- value`; a very long one is not worth the search."""
    return None if len(line) > _LONGEST_LINE else _ENTRY.fullmatch(line) or _ITEM.fullmatch(line)


def _quote(lines: list[str], start: int, entry: re.Match[str]) -> Diagnostic | None:
    """Put a value and its continuation lines in single quotes; says what was wrong with it."""
    value = entry["value"].strip()
    groups = entry.groupdict()
    key = (groups.get("key") or "item").strip()
    if not value or re.fullmatch(r"[|>][-+0-9]*", value):
        return None
    end = start + 1
    lead = len(entry["lead"]) if "key" in groups else len(entry["lead"].rstrip(" -"))
    while end < len(lines) and _continues(lines[end], lead):
        end += 1
    last = end - 1
    while last > start and not lines[last].strip():
        last -= 1
    first = value[0]
    code: str
    values: tuple[str, ...] = (key,)
    whole = "\n".join([value, *lines[start + 1 : last + 1]])
    if first in "\"'":
        code = "yaml-broken-quotes"
        whole = _unquoted(whole)
    elif first in "[{":
        code = "yaml-invalid-flow"
    elif first in "@`%*&!,|>-?:#]}":
        code, values = "yaml-reserved-start", (key, first)
    else:
        code = "yaml-unquoted-colon"
    quoted = "'" + whole.replace("'", "''") + "'"
    lines[start : last + 1] = (lines[start][: entry.start("value")].rstrip(" ") + " " + quoted).split("\n")
    return Diagnostic(code, start, values)


def _continues(line: str, indent: int) -> bool:
    text = line.lstrip(" ")
    return not text or len(line) - len(text) > indent


def _unquoted(text: str) -> str:
    """Raw text between mismatched quotes: the opening one goes, and the closing one when it stands at the end."""
    mark = text[0]
    text = text[1:]
    if text.endswith(mark):
        text = text[:-1]
    return text.replace('\\"', '"') if mark == '"' else text.replace("''", "'")


def _line_by_line(block: str, first_line: int, error: BlockError, notes: list[Diagnostic]) -> YamlFields:
    """The last resort: each top-level entry on its own, by YAML where it can be read and as raw text where not."""
    if len(block.encode()) > MAX_BLOCK_BYTES:
        notes = [
            *notes,
            Diagnostic("frontmatter-too-large", first_line, (f"{len(block.encode()):,}", f"{MAX_BLOCK_BYTES:,}")),
        ]
        block = block.encode()[:MAX_BLOCK_BYTES].decode(errors="ignore")
    else:
        code = "yaml-too-complex" if isinstance(error, BlockTooComplex) else "yaml-unreadable"
        notes = [*notes, Diagnostic(code, error.line + first_line, (error.problem,))]
    mapping: dict[str, Any] = {}
    at: dict[str, int] = {}
    lines = block.split("\n")
    i = 0
    while i < len(lines):
        match = _TOP_KEY.match(lines[i])
        if match is None:
            i += 1
            continue
        end = i + 1
        while end < len(lines) and not _TOP_KEY.match(lines[end]):
            end += 1
        key = match[0].rstrip(" :").strip("\"'")
        before = mapping.pop(key, None)
        # Text that goes on at the margin belongs to a description; a name never goes on there.
        own = [line for number, line in enumerate(lines[i:end]) if not number or key != "name" or line[:1] == " "]
        mapping[key] = _entry_value(key, own, match.end(), by_yaml=len(mapping) < _MOST_BY_YAML)
        if before is not None:
            notes.append(duplicate_note(key, i + first_line))
            if (restricted := restricted_field(key)) is not None:
                mapping[key] = combined(restricted, before, mapping[key])
        at[key] = i + first_line
        i = end
    return YamlFields(mapping, [at[key] for key in mapping], tuple(notes))


def _entry_value(key: str, lines: list[str], start: int, *, by_yaml: bool) -> Any:
    if by_yaml:
        try:
            reading = _read("\n".join(lines) + "\n", 1)
        except BlockError:
            pass
        else:
            if list(reading.mapping) == [key]:
                return reading.mapping[key]
    head = lines[0][start:].strip()
    rest = [line.strip() for line in lines[1:] if line.strip() and not line.startswith("#")]
    if re.fullmatch(r"[|>][-+0-9]*", head):
        return "\n".join(line.strip() for line in lines[1:]).strip() if head[0] == "|" else " ".join(rest)
    if not head and rest and all(line.startswith("- ") for line in rest):
        return [line[2:].strip().strip("\"'") for line in rest]
    text = " ".join([head, *rest]).strip()
    return _unquoted(text) if text[:1] in ("'", '"') and len(text) > 1 else text
