"""The limits of all benchmarks, which stand in limits.toml, each with its reason."""

from __future__ import annotations

import functools
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from _table import NOT_MET, aligned

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = Path(__file__).with_name("limits.toml")
NOTHING_TO_MEASURE = 3
"""The exit code of a benchmark whose data are not at hand."""


class Limit(NamedTuple):
    """What a figure must not pass, and why."""

    value: float
    unit: str
    why: str
    is_least: bool = False

    def holds(self, figure: float) -> bool:
        return figure >= self.value if self.is_least else figure <= self.value

    def __str__(self) -> str:
        return f"{'at least' if self.is_least else 'at most'} {self.value:g}"


@functools.cache
def tables() -> dict[str, dict[str, Any]]:
    """All of limits.toml, by benchmark and row."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def limit(benchmark: str, what: str) -> Limit | None:
    """The limit of one row; None where it has none.

    >>> limit("journeys", "a").value
    40
    """
    row = tables().get(benchmark, {}).get(what)
    if row is None:
        return None
    return Limit(row.get("most", row.get("least")), row["unit"], row["why"], "least" in row)


def most(benchmark: str, what: str, times: float = 1) -> float | None:
    """The limit of one row as a number, multiplied by how many things its figure is of."""
    found = limit(benchmark, what)
    return None if found is None else found.value * times


def check(benchmark: str, figures: Mapping[str, float], *, is_json: bool = False) -> int:
    """Print the figures of a benchmark beside their limits; the exit code is 1 if one does not hold."""
    found = {what: (figure, limit(benchmark, what)) for what, figure in figures.items()}
    failed = [what for what, (figure, at) in found.items() if at is not None and not at.holds(figure)]
    if is_json:
        rows = [{"what": what, "figure": figure, "holds": what not in failed} for what, (figure, _) in found.items()]
        print(json.dumps(rows, indent=2))
    else:
        lines = [
            (what, f"{figure:.3g}", at.unit if at else "", str(at or ""), NOT_MET if what in failed else "")
            for what, (figure, at) in found.items()
        ]
        print(aligned(lines))
    return int(bool(failed))
