"""Models beside each other: how well each uses skills, with the limits for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field
from metier.proof.trial_result import COUNTS
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.proof.report import Report, TierResult

MAX_PATH_ERRORS = 0.05
"""The share of paths that a model may get wrong, which must stay below it."""
MAX_SCRIPT_READS = 0
MAX_MORE_TOKENS = 0.2
"""The share of tokens by which a trial may exceed that of the model with the fewest."""

HEAD = ("MODEL", "PASSED", "PATH ERRORS", "SCRIPT READS", "VIOLATIONS", "TOKENS", "USD")
"""The columns of the table for people."""

Limit: TypeAlias = Literal["path errors", "script reads", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """The trials of one model with skills, and what is counted of them."""

    model: str
    trials: int
    passed: int
    paths: int
    """Files that it read and scripts that it ran."""
    path_errors: int
    script_reads: int
    violations: int
    tokens: float
    """The mean of a trial."""
    cost: float | None
    """Of all trials, in US dollars; None where a price is not known."""

    @property
    def path_error_rate(self) -> float:
        """The share of paths that were wrong."""
        return self.path_errors / self.paths if self.paths else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTable:
    """The rows of models, and whether each keeps to the limits; None where there is nothing to measure it by.

    >>> row = ModelRow(model="small", trials=10, passed=9, paths=40, path_errors=3, script_reads=0, violations=0,
    ...     tokens=2_000, cost=0.01)
    >>> table_of([row]).verdicts["small"]
    {'path errors': False, 'script reads': True, 'tokens': None}
    """

    rows: tuple[ModelRow, ...]
    verdicts: Mapping[str, Mapping[Limit, bool | None]] = field(default_factory=dict)
    fewest_tokens: float = 0.0
    """The mean of the model with the fewest tokens, which others are compared with."""

    @property
    def is_within_limits(self) -> bool:
        """Whether no model exceeds a limit."""
        return all(kept is not False for limits in self.verdicts.values() for kept in limits.values())

    def cells(self) -> list[tuple[str, ...]]:
        """The rows for people, below `HEAD`; what exceeds a limit ends with an exclamation mark."""
        return [self._cells(row) for row in self.rows]

    def _cells(self, row: ModelRow) -> tuple[str, ...]:
        more = f" ({100 * (row.tokens / self.fewest_tokens - 1):+.0f} %)" if self.fewest_tokens else ""
        limits = self.verdicts[row.model]

        def marked(limit: Limit, text: str) -> str:
            return f"{text} !" if limits[limit] is False else text

        return (
            row.model,
            f"{row.passed} of {row.trials}",
            marked("path errors", f"{100 * row.path_error_rate:.1f} %"),
            marked("script reads", str(row.script_reads)),
            str(row.violations),
            marked("tokens", f"{row.tokens:,.0f}{more}"),
            "" if row.cost is None else f"{row.cost:.2f}",
        )

    def as_markdown(self) -> str:
        """The table as Markdown."""
        rows = [[shown(cell, 80).replace("|", "\\|") for cell in row] for row in (HEAD, *self.cells())]
        rows.insert(1, ["---"] * len(HEAD))
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def table_of(rows: Iterable[ModelRow]) -> ModelTable:
    """The table of rows, one for each model."""
    found = tuple(rows)
    fewest = min((row.tokens for row in found if row.tokens), default=0.0)
    return ModelTable(
        rows=found,
        fewest_tokens=fewest,
        verdicts={row.model: _verdicts(row, fewest, is_only=len(found) == 1) for row in found},
    )


def _verdicts(row: ModelRow, fewest: float, *, is_only: bool) -> dict[Limit, bool | None]:
    within = None if is_only or not row.tokens else row.tokens <= fewest * (1 + MAX_MORE_TOKENS)
    return {
        "path errors": row.path_error_rate < MAX_PATH_ERRORS if row.paths else None,
        "script reads": row.script_reads <= MAX_SCRIPT_READS if row.trials else None,
        "tokens": within,
    }


def report_table(report: Report) -> ModelTable | None:
    """The table of a report; None where no model was asked."""
    found = model_table(tier for skill in report.skills for tier in skill.tiers if tier.tier == "behaviour")
    return found if any(row.model != "scripted" for row in found.rows) else None


def model_table(results: Iterable[TierResult]) -> ModelTable:
    """The table of all trials with skills in results of behaviour, a row for each executor."""
    trials: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        for case in result.cases:
            own = (one for one in case.data.get("trials", ()) if one["arm"] == "with" and one["verdict"] != "skipped")
            trials.setdefault(case.data.get("runner", ""), []).extend(own)
    return table_of(_row(name, found) for name, found in trials.items() if found)


def _row(name: str, trials: list[Mapping[str, Any]]) -> ModelRow:
    costs = [one["cost"] for one in trials]
    return ModelRow(
        model=name,
        trials=len(trials),
        passed=sum(one["verdict"] == "passed" for one in trials),
        tokens=sum(one["input_tokens"] + one["output_tokens"] for one in trials) / len(trials),
        cost=None if None in costs else sum(costs),
        **{count: sum(one[count] for one in trials) for count in COUNTS},
    )
