"""How benchmarks tell what they measured: a table for people, JSON for programs, and an exit code for a check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

NOT_MET = "NOT MET"


class Limited(Protocol):
    """A row of figures, some of which have a limit."""

    @property
    def holds(self) -> bool | None:
        """Whether the limit holds; None where there is none."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


Each = TypeVar("Each", bound=Limited)


class Row(NamedTuple):
    """What something costs, in microseconds."""

    what: str
    us: float
    limit: float | None = None
    baseline: float | None = None
    """What the least that anybody must do costs, in the same run."""

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.us <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("load", 50.0, 100.0, 25.0))
    ('load', '50.0', '2.0x of 25.0', 'limit 100', '')
    """
    beside = f"{row.us / row.baseline:.1f}x of {row.baseline:,.1f}" if row.baseline else ""
    return row.what, f"{row.us:,.1f}", beside, "" if row.limit is None else f"limit {row.limit:,.0f}", mark(row)


def mark(row: Limited) -> str:
    """What stands at the end of a row whose limit does not hold."""
    return NOT_MET if row.holds is False else ""


def aligned(lines: Iterable[Sequence[str]]) -> str:
    """Lines of cells in columns, the first to the left and the others to the right.

    A line that is shorter than others is a remark; it widens only the first column.

    >>> print(aligned([("what", "ms"), ("load", "12"), ("unload", "8")]))
    what    ms
    load    12
    unload   8
    """
    lines = list(lines)
    count = max(map(len, lines))
    widths = [max(map(len, column)) for column in zip(*(line for line in lines if len(line) == count), strict=True)]
    first = max(len(line[0]) for line in lines)
    made = []
    for line in lines:
        rest = map(str.rjust, line[1:], widths[1:]) if len(line) == count else line[1:]
        made.append("  ".join([line[0].ljust(first), *rest]).rstrip())
    return "\n".join(made)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every benchmark that has limits."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit does not hold")


def report(
    rows: Sequence[Each],
    options: argparse.Namespace,
    title: str,
    shown: Callable[[Each], Sequence[str]],
    head: Sequence[str] = (),
) -> int:
    """Print what was measured as the options say; the exit code."""
    if options.json:
        print(json.dumps([{**row._asdict(), "holds": row.holds} for row in rows], indent=2))
    else:
        print(title)
        print(aligned([*([head] if head else []), *map(shown, rows)]))
    return int(options.check and any(row.holds is False for row in rows))
