"""The YAML of a policy file as a tree with line numbers, and what can still be read of one that is broken.

Nothing is built but text, lists and maps. There are no aliases, so that every line says what it means where it stands
and a few lines cannot stand for a billion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind: TypeAlias = Literal["text", "list", "map", "alias"]

MAX_NODES = 50_000
MAX_DEPTH = 16
_MAX_LINES = 20_000
"""Lines that are looked at, each as often as it is, to find what can be read of a broken file."""
_MAX_FLAWS = 20
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_OTHER_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""What ends a line for YAML, and for nobody who looks at the file."""


@dataclass(slots=True)
class Node:
    """A value in a policy file, and its line."""

    kind: Kind
    line: int
    text: str = ""
    is_plain: bool = True
    """Whether text stands there without quotes."""
    items: list[Node] = field(default_factory=list)
    """What a list has in it."""
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    """What a map has in it, in order and with keys that are given twice."""

    @property
    def is_null(self) -> bool:
        """Whether it says nothing: `null`, `~`, or no value at all."""
        return self.kind == "text" and self.is_plain and self.text in _NULLS

    @property
    def noun(self) -> str:
        """What it is, in a sentence."""
        return {"text": "text", "list": "a list", "map": "a map", "alias": "an alias"}[self.kind]


class YamlFlaw(NamedTuple):
    """Something that YAML cannot read, and where."""

    line: int
    message: str


class YamlTree(NamedTuple):
    """What was read of a file: its documents, one in a sound file, and what is wrong with it."""

    roots: list[Node]
    flaws: list[YamlFlaw]


def read_tree(text: str) -> YamlTree:
    """The values of a policy file; of one that is broken those that can be read by themselves.

    >>> tree = read_tree("mode: audit\\nrules: [\\ntools: {deny: [Bash]}\\n")
    >>> [root.pairs[0][0].text for root in tree.roots], tree.flaws[0].line
    (['mode', 'rules', 'tools'], 2)
    """
    odd = _OTHER_LINE_ENDS.search(text)
    text = _OTHER_LINE_ENDS.sub(" ", text)
    lines = text.split("\n")
    whole = _parse(text, range(1, len(lines) + 1))
    if odd is not None:
        whole.flaws.append(YamlFlaw(text.count("\n", 0, odd.start()) + 1, "a character ends a line for YAML alone"))
    if not whole.flaws:
        return whole
    written = [(n, line) for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    pieces = list(_Pieces().of(written))
    flaws = [flaw for piece in pieces for flaw in piece.flaws]
    return YamlTree([root for piece in pieces for root in piece.roots], flaws[:_MAX_FLAWS] or whole.flaws)


Lines: TypeAlias = "Sequence[tuple[int, str]]"
"""Lines with their numbers."""


class _Pieces:
    """The parts of a broken text that stand for themselves, each below the keys that it belongs to."""

    def __init__(self) -> None:
        self._lines_left = _MAX_LINES

    def of(self, lines: Lines, above: Lines = ()) -> Iterator[YamlTree]:
        self._lines_left -= len(lines)
        if self._lines_left < 0:
            return
        for block in _blocks(lines):
            part = (*above, *block)
            tree = _parse("\n".join(line for _, line in part), [number for number, _ in part])
            if tree.flaws and len(block) > 1 and len(above) < MAX_DEPTH:
                yield from self.of(block[1:], (*above, block[0]))
            else:
                yield tree


def _blocks(lines: Lines) -> list[list[tuple[int, str]]]:
    """Lines that begin something, each with those that are indented below it."""
    outer = min((_indent(line) for _, line in lines), default=0)
    is_items = all(line.lstrip().startswith("-") for _, line in lines if _indent(line) == outer)
    blocks: list[list[tuple[int, str]]] = []
    for number, line in lines:
        rest = line.lstrip()
        begins = _indent(line) == outer and not rest.startswith(("]", "}")) and (is_items or rest[0] != "-")
        if begins or not blocks:
            blocks.append([])
        blocks[-1].append((number, line))
    return blocks


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _parse(text: str, numbers: Sequence[int]) -> YamlTree:
    """What YAML reads in a text up to its first flaw; `numbers` are those of its lines."""
    import yaml

    loader_type: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    def line_of(mark: Any) -> int:
        line: int = mark.line
        return numbers[min(line, len(numbers) - 1)]

    growing = _Growing()
    try:
        for event in yaml.parse(text, Loader=loader_type):
            flaw = growing.add(event, line_of(event.start_mark))
            if flaw is not None:
                return YamlTree(growing.roots, [flaw])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        growing.flaws.append(YamlFlaw(line_of(mark) if mark else numbers[0], error.problem or "unreadable"))
    except yaml.YAMLError as error:
        # The reader refuses a character and gives its position instead of a mark.
        line = text.count("\n", 0, getattr(error, "position", 0))
        reason = str(getattr(error, "reason", "unreadable"))
        growing.flaws.append(YamlFlaw(numbers[min(line, len(numbers) - 1)], reason))
    return YamlTree(growing.roots, growing.flaws)


class _Growing:
    """A tree that grows by one event of YAML after the other, without recursion."""

    def __init__(self) -> None:
        self.roots: list[Node] = []
        self.flaws: list[YamlFlaw] = []
        self._open: list[Node] = []
        self._keys: list[Node | None] = []
        """For each container that is open, the key that waits for its value."""
        self._nodes = 0

    def add(self, event: Any, line: int) -> YamlFlaw | None:
        """Take an event; a flaw means that no more can be taken."""
        name = type(event).__name__
        if name in ("SequenceEndEvent", "MappingEndEvent"):
            self._open.pop()
            self._keys.pop()
        elif name == "ScalarEvent":
            self._place(Node("text", line, str(event.value), bool(event.implicit[0])))
        elif name == "AliasEvent":
            self._place(Node("alias", line))
        elif name in ("SequenceStartEvent", "MappingStartEvent"):
            node = Node("list" if name[0] == "S" else "map", line)
            self._place(node)
            self._open.append(node)
            self._keys.append(None)
            if len(self._open) > MAX_DEPTH:
                return YamlFlaw(line, "it is nested too deeply")
        elif name == "DocumentStartEvent" and self.roots:
            self.flaws.append(YamlFlaw(line, "a second document begins"))
        if self._nodes > MAX_NODES:
            return YamlFlaw(line, f"it has more than {MAX_NODES:,} values")
        return None

    def _place(self, node: Node) -> None:
        self._nodes += 1
        if not self._open:
            self.roots.append(node)
            return
        holder = self._open[-1]
        if holder.kind == "list":
            holder.items.append(node)
        elif (key := self._keys[-1]) is None:
            self._keys[-1] = node
        else:
            if node.kind != "text":
                # What has a line of its own for each item is found by the line of its key.
                node.line = key.line
            holder.pairs.append((key, node))
            self._keys[-1] = None
