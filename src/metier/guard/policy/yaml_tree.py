"""Parses the YAML of a policy file into a tree with line numbers, and a broken file as far as possible.

The tree has text, lists and maps alone. There are no aliases, so that every line means what it says where it stands and
a few lines cannot expand to a billion.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NodeKind: TypeAlias = Literal["text", "list", "map", "alias"]

MAX_NODES = 50_000
MAX_DEPTH = 16
_MAX_LINES = 20_000
"""The limit of lines that are parsed, each as often as it is, to read a broken file."""
_MAX_FLAWS = 20
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_OTHER_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""Line ends of YAML that no editor shows as such."""


@dataclass(slots=True)
class Node:
    """A value in a policy file, and its line."""

    kind: NodeKind
    line: int
    text: str = ""
    is_plain: bool = True
    """Whether the text has no quotes."""
    items: list[Node] = field(default_factory=list)
    """The items of a list; of a map each key, and its value behind it."""

    @property
    def pairs(self) -> list[tuple[Node, Node]]:
        """The pairs of a map, in order and with keys that are given twice."""
        return list(zip(self.items[::2], self.items[1::2], strict=False))  # a broken text may end behind a key

    @property
    def is_null(self) -> bool:
        """Whether the value is `null`, `~`, or missing."""
        return self.kind == "text" and self.is_plain and self.text in _NULLS

    @property
    def noun(self) -> str:
        """The noun for it in a sentence."""
        return {"text": "text", "list": "a list", "map": "a map", "alias": "an alias"}[self.kind]


class YamlFlaw(NamedTuple):
    """A YAML error, and its line."""

    line: int
    message: str


class YamlTree(NamedTuple):
    """The documents of a file, one in a sound file, and its errors."""

    roots: list[Node]
    flaws: list[YamlFlaw]


def read_tree(text: str) -> YamlTree:
    """Parse a policy file; of a broken one the parts that can be parsed by themselves.

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
    pieces = list(_PartParser().of(written))
    flaws = [flaw for piece in pieces for flaw in piece.flaws]
    return YamlTree([root for piece in pieces for root in piece.roots], flaws[:_MAX_FLAWS] or whole.flaws)


Lines: TypeAlias = "Sequence[tuple[int, str]]"
"""Lines with their numbers."""


class _PartParser:
    """Parses the parts of a broken text, each below the keys that it belongs to."""

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
    """Lines of the outermost indentation, each with those that are indented below it."""
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
    """Parse a text up to its first error; `numbers` are those of its lines."""
    import yaml

    loader_type: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    def line_of(mark: Any) -> int:
        line: int = mark.line
        return numbers[min(line, len(numbers) - 1)]

    builder = _TreeBuilder()
    try:
        for event in yaml.parse(text, Loader=loader_type):
            flaw = builder.add(event, line_of(event.start_mark))
            if flaw is not None:
                return YamlTree(builder.roots, [flaw])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        builder.flaws.append(YamlFlaw(line_of(mark) if mark else numbers[0], error.problem or "unreadable"))
    except yaml.YAMLError as error:
        # The reader refuses a character and gives its position instead of a mark.
        line = text.count("\n", 0, getattr(error, "position", 0))
        reason = str(getattr(error, "reason", "unreadable"))
        builder.flaws.append(YamlFlaw(numbers[min(line, len(numbers) - 1)], reason))
    return YamlTree(builder.roots, builder.flaws)


class _TreeBuilder:
    """Builds a tree from the events of the YAML parser, without recursion."""

    def __init__(self) -> None:
        self.roots: list[Node] = []
        self.flaws: list[YamlFlaw] = []
        self._open: list[Node] = []
        self._nodes = 0

    def add(self, event: Any, line: int) -> YamlFlaw | None:
        """Add an event; a flaw means that no more can be added."""
        name = type(event).__name__
        if name in ("SequenceEndEvent", "MappingEndEvent"):
            self._open.pop()
        elif name == "ScalarEvent":
            self._place(Node("text", line, str(event.value), bool(event.implicit[0])))
        elif name == "AliasEvent":
            self._place(Node("alias", line))
        elif name in ("SequenceStartEvent", "MappingStartEvent"):
            node = Node("list" if name[0] == "S" else "map", line)
            self._place(node)
            self._open.append(node)
            if len(self._open) > MAX_DEPTH:
                return YamlFlaw(line, "it is nested too deeply")
        elif name == "DocumentStartEvent" and self.roots:
            self.flaws.append(YamlFlaw(line, "a second document begins"))
        if self._nodes > MAX_NODES:
            return YamlFlaw(line, f"it has more than {MAX_NODES:,} values")
        return None

    def _place(self, node: Node) -> None:
        self._nodes += 1
        holder = self._open[-1] if self._open else None
        if holder is not None and holder.kind == "map" and len(holder.items) % 2 and node.kind != "text":
            node.line = holder.items[-1].line  # a list or map has the line of its key
        (self.roots if holder is None else holder.items).append(node)
