"""The prompt of an agent: a template that is filled in, and that can do nothing else.

A template may write out variables, choose (`if`), repeat (`for`) and name things (`set`), with the filters below. It
cannot call, compute, include or join without bounds: what it cannot say cannot take for ever or fill the memory, and
whatever it does say is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._extras import optional
from metier.errors import AgentInvalid
from metier.skill import shown
from metier.skill.untrusted_text import escape_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jinja2 import nodes

MAX_TEMPLATE = 64 * 1024
MAX_OUTPUT = 256 * 1024
"""The limit of characters in a prompt that is filled in."""
_MAX_WORK = 200_000
_MAX_DEPTH = 40
_MAX_INNER_LOOPS = 4
_COUNTED = "counted"
_PAID = "paid"

_ALLOWED = frozenset(
    (
        *("Template", "Output", "TemplateData", "If", "For", "Assign"),
        *("Name", "Const", "Getattr", "Getitem", "CondExpr", "Filter", "Test", "Compare", "Operand", "List", "Tuple"),
        *("Not", "And", "Or"),
    )
)
_SPOKEN = {
    "Call": "a call",
    "Include": "`include`",
    "Import": "`import`",
    "FromImport": "`import`",
    "Extends": "`extends`",
    "Macro": "`macro`",
    "CallBlock": "`call`",
    "Concat": "`~`",
    "AssignBlock": "`set` with a block",
    "FilterBlock": "`filter` with a block",
    "Block": "`block`",
    "With": "`with`",
    "Dict": "a map",
    "Slice": "a slice",
}
_TESTS = ("defined", "undefined", "none", "in", "eq", "ne", "true", "false", "string", "number", "odd", "even")


def render_prompt(template: str, variables: Mapping[str, Any], *, file: str = "prompt.jinja2") -> str:
    """A template with its variables filled in; raises `AgentInvalid` with file and line.

    Text in a variable cannot pass for a part of the prompt around it: tags that hosts and models know are escaped.

    >>> render_prompt("You work for {{ user }}.{% for name in skills %} Use {{ name }}.{% endfor %}",
    ...               {"user": "Ada", "skills": ["pdf"]})
    'You work for Ada. Use pdf.'
    """
    with optional("Files prompt.jinja2", "jinja2", extra="agent"):
        import jinja2

    def refused(line: int | None, what: str, hint: str) -> AgentInvalid:
        where = f"{shown(file, 300)}, line {line}" if line else shown(file, 300)
        return AgentInvalid(f"{where}: {what}.", hint=hint, path=file, line=line)

    if len(template) > MAX_TEMPLATE:
        raise refused(None, f"it has more than {MAX_TEMPLATE:,} characters", "Move detail into skills.")
    try:
        return _Rendering(template).text(variables)
    except _Unusable as error:
        raise refused(error.line, error.what, error.hint) from None
    except jinja2.TemplateSyntaxError as error:
        raise refused(error.lineno, shown(error.message or "it cannot be read").rstrip("."), "Mend the line.") from None
    except jinja2.UndefinedError as error:
        known = ", ".join(sorted(map(str, variables)))
        raise refused(
            _line_of(error), shown(error.message or "something is undefined"), f"Variables are {known}."
        ) from None
    except _Spent as error:
        raise refused(_line_of(error), str(error), "Say less, or move it into a skill.") from None
    except (RecursionError, MemoryError):
        raise refused(None, "it is nested too deeply", "Use fewer levels.") from None
    except Exception as error:
        # Whatever a template makes Python raise is the template's fault, with the line it was raised from.
        what = f"it cannot be filled in: {type(error).__name__}: {shown(str(error))}".rstrip(".")
        raise refused(_line_of(error), what, "Mend the line, or the variable that it uses.") from None


class _Unusable(Exception):
    """A prompt has an element that is not allowed."""

    def __init__(self, line: int | None, what: str, hint: str) -> None:
        super().__init__(what)
        self.line, self.what, self.hint = line, what, hint


class _Spent(Exception):
    """A prompt that does more than any prompt needs."""


class _Rendering:
    """One filling in of one template, with what it may still do."""

    def __init__(self, template: str) -> None:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._left = _MAX_WORK
        environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined,
            autoescape=False,
            # Nothing is worked out while it is compiled, where nobody counts.
            optimized=False,
            finalize=_contained,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals = {}
        tests = environment.tests
        environment.tests = {name: tests[name] for name in _TESTS}
        environment.filters = {name: self._bounded(function) for name, function in _FILTERS.items()}
        tree = environment.parse(template)
        self._check(tree)
        environment.filters |= {_COUNTED: self._counted, _PAID: self._paid}
        self._template = environment.from_string(tree)

    def text(self, variables: Mapping[str, Any]) -> str:
        """The text, piece by piece, until it is whole or too long."""
        pieces: list[str] = []
        size = 0
        for piece in self._template.generate(dict(variables)):
            size += len(piece)
            if size > MAX_OUTPUT:
                raise _Spent(f"it has more than {MAX_OUTPUT:,} characters once it is filled in")
            pieces.append(piece)
        return "".join(pieces).strip()

    def _check(self, tree: nodes.Template) -> None:
        """Refuse what a prompt may not have, and have every step of a loop and every comparison counted."""
        from jinja2 import nodes

        waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
        while waiting:
            node, depth, loops = waiting.pop()
            kind = type(node).__name__
            if kind not in _ALLOWED:
                said = _SPOKEN.get(kind, f"`{kind.lower()}`")
                raise _Unusable(
                    node.lineno, f"a prompt cannot have {said}", "Give the value as a variable, or write the text out."
                )
            if depth > _MAX_DEPTH:
                raise _Unusable(node.lineno, "it is nested too deeply", "Use fewer levels.")
            # Lists of lists of themselves, or joined to ever longer text, are not bounded by how they are spelled.
            is_list = isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
            if is_list and not all(isinstance(item, nodes.Const) for item in node.iter_child_nodes()):
                raise _Unusable(node.lineno, "a list in a prompt holds plain text only", "Write the values out.")
            if isinstance(node, nodes.For):
                loops += 1
                if node.recursive or loops > _MAX_INNER_LOOPS:
                    raise _Unusable(node.lineno, "loops are nested too deeply", "Use fewer levels.")
            waiting.extend((child, depth + 1, loops) for child in node.iter_child_nodes())
        for loop in tree.find_all(nodes.For):
            cost = nodes.Const(sum(1 for _ in loop.find_all(nodes.Node)))
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [cost], [], None, None, lineno=loop.lineno)

        def paid(value: nodes.Expr) -> nodes.Expr:
            return nodes.Filter(value, _PAID, [], [], None, None, lineno=value.lineno)

        for comparison in tuple(tree.find_all(nodes.Compare)):
            comparison.expr = paid(comparison.expr)
            for operand in comparison.ops:
                operand.expr = paid(operand.expr)
        for test in tuple(tree.find_all(nodes.Test)):
            test.args = [paid(argument) for argument in test.args or ()]

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _Spent("it takes too many steps")

    def _counted(self, items: Iterable[Any], cost: int) -> Iterator[Any]:
        for item in items:
            self._spend(cost)
            yield item

    def _paid(self, value: Any) -> Any:
        """A value to compare or to look for, charged by its size."""
        self._spend(1 + _size(value))
        return value

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter that is paid for by the size of what it is given and of what it makes."""

        def filtered(value: Any, *arguments: Any, **named: Any) -> Any:
            self._spend(1 + _size(value))
            made = function(value, *arguments, **named)
            self._spend(_size(made))
            return made

        return filtered


def _size(value: Any) -> int:
    return len(value) >> 4 if isinstance(value, str | list | tuple | dict) else 0


def _join(values: Iterable[Any], by: str = "") -> str:
    """Items as one text, which is never longer than a prompt may be."""
    by = str(by)
    pieces: list[str] = []
    size = 0
    for value in values:
        pieces.append(str(value))
        size += len(pieces[-1]) + len(by)
        if size > MAX_OUTPUT:
            raise _Spent(f"`join` makes more than {MAX_OUTPUT:,} characters")
    return by.join(pieces)


def _default(value: Any, other: Any = "", even_if_empty: bool = False) -> Any:
    from jinja2 import Undefined

    return other if isinstance(value, Undefined) or (even_if_empty and not value) else value


# Each takes what it needs and no more: Python's own would also take functions to call.
_FILTERS: dict[str, Callable[..., Any]] = {
    "capitalize": lambda value: str(value).capitalize(),
    "d": _default,
    "default": _default,
    "first": lambda value: next(iter(value), ""),
    "join": _join,
    "last": lambda value: next(iter(reversed(value)), ""),
    "length": len,
    "lower": lambda value: str(value).lower(),
    "sort": lambda value: sorted(value),
    "title": lambda value: str(value).title(),
    "trim": lambda value: str(value).strip(),
    "unique": lambda value: list(dict.fromkeys(value)),
    "upper": lambda value: str(value).upper(),
}


def _contained(value: Any) -> str:
    return escape_tags(str(value))


def _line_of(error: BaseException) -> int | None:
    """The line of the template that an error came from."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        # Jinja gives the frames of a template the numbers of its lines.
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
