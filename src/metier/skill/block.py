"""From a frontmatter block to a mapping: the fast path, then PyYAML within bounds, then the repairs.

Scalars stay strings (`version: 1.10`, `name: on`); only known fields are coerced, later. Aliases are followed but
every visit counts against one limit, so that a few lines cannot stand for a billion nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from metier.skill._fast import MAX_BLOCK_BYTES, Reading, read_fast
from metier.skill.diagnostic import Diagnostic, as_text

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
    """What YAML itself says of a block, without any repair."""

    value: Any
    lines: list[int]
    duplicates: list[tuple[str, int]]


def read_block(block: str, first_line: int) -> Reading:
    """The mapping of a frontmatter block, whatever state it is in.

    >>> read_block("name: pdf\\ndescription: Use when: filling forms\\n", 2).mapping["description"]
    'Use when: filling forms'
    """
    reading = read_fast(block, first_line)
    if reading is not None:
        return reading
    try:
        parsed = parse_yaml(block)
    except BlockError as error:
        from metier.skill.repair import repair_block

        return repair_block(block, first_line, error)
    return reading_of(parsed, first_line)


def reading_of(parsed: Parsed, first_line: int) -> Reading:
    """A parsed block as a reading; anything but a mapping is text that happens to stand between delimiters."""
    if parsed.value is None:
        return Reading({}, [], ())
    if not isinstance(parsed.value, dict):
        return Reading({}, [], (Diagnostic("frontmatter-not-a-mapping", first_line),))
    notes = tuple(duplicate_note(key, line + first_line) for key, line in parsed.duplicates)
    return Reading(parsed.value, [line + first_line for line in parsed.lines], notes)


def duplicate_note(key: str, line: int) -> Diagnostic:
    """The diagnostic for a key that is given again."""
    from metier.skill.restrictions import restricted_field

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
    from metier.skill.restrictions import restricted_field

    return "metadata" if key == "metadata" else restricted_field(key) or ""


def _with_duplicate(mapping: dict[str, Any], key: str, value: Any, within: str) -> dict[str, Any]:
    """A map with a key that it has already: the last counts, but nothing takes back what a field restricts."""
    from metier.skill.restrictions import combined, restricted_field

    if within in ("scope", "execution"):
        found: dict[str, Any] = combined(within, mapping, {key: value})
        return found
    restricted = restricted_field(key) if within == _TOP else None
    mapping[key] = value if restricted is None else combined(restricted, mapping[key], value)
    return mapping
