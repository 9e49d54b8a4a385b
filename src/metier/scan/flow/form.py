"""The one form that scripts of all languages are brought into: expressions, and functions made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from typing import TypeAlias

ExprKind: TypeAlias = Literal[
    "text", "name", "field", "pick", "call", "named", "joined", "group", "either", "block",
    "set", "add", "return", "function",
]  # fmt: skip


class Unreadable(Exception):
    """A script that is too large, too deep, or not in the language that it says."""


class Expr(NamedTuple):
    """An expression or a statement: what its value is made of, and what is given names."""

    kind: ExprKind
    line: int
    name: str = ""
    """The text, the name of a variable, of a field or an argument, or the function that is called, with dots."""
    parts: tuple[Expr, ...] = ()
    """Arguments, what is joined, grouped or gone through, or the value."""
    on: Expr | None = None
    """Of what this is a field or a method."""
    names: tuple[str, ...] = ()
    """What is given the value."""
    function: FlowFunction | None = None


@dataclass(eq=False)
class FlowFunction:
    """A function, or the whole of a script."""

    name: str
    script: FlowScript
    given: tuple[str, ...] = ()
    """What each argument is called; several names where it is taken apart."""
    body: tuple[Expr, ...] = ()
    around: FlowFunction | None = None


@dataclass(eq=False)
class FlowScript:
    """A script: what it does, its functions, and what it calls by other names."""

    path: str
    language: str
    text: str
    before: int = 0
    """Lines of the file that stand before it."""
    functions: list[FlowFunction] = field(default_factory=list)
    """The whole of it, and the functions in it."""
    aliases: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    """Files that it imports, by their names without an ending."""
    inner: list[tuple[str, int, str]] = field(default_factory=list)
    """Programs that its commands hold: language, line, and text."""

    def meant(self, name: str) -> str:
        """A name with dots by what its first part was imported as."""
        first, dot, rest = name.partition(".")
        return self.aliases.get(first, first) + dot + rest


def dotted(expr: Expr | None) -> str:
    """An expression as a name; `.read` for a field of what something else gives."""
    if expr is None or expr.kind not in ("name", "field"):
        return ""
    return expr.name if expr.kind == "name" else f"{dotted(expr.on)}.{expr.name}"
