"""Usage in the formats of other programs: CSV and OpenMetrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.audit.export import csv_cell, csv_line
from metier.proof.usage_report import MILLION
from metier.store.usage import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.proof.usage_report import UsageReport

_METRICS = {
    "loads": ("skill_loads", "Loads of skills."),
    "calls": ("tool_calls", "Tool calls while a skill was active, or none."),
    "runs": ("script_runs", "Runs of scripts of skills."),
    "refusals": ("refusals", "Loads, calls and runs that were refused."),
    "failures": ("failures", "Loads, calls and runs that failed."),
    "searches": ("searches", "Searches for skills by models."),
    "empty_searches": ("empty_searches", "Searches for skills that found nothing."),
    "helped": ("skill_helped", "Feedback that a skill helped."),
    "not_helped": ("skill_not_helped", "Feedback that a skill did not help."),
    "tokens_in": ("input_tokens", "Tokens that models read."),
    "tokens_out": ("output_tokens", "Tokens of the answers of models."),
    "unpriced": ("unpriced_tokens", "Tokens whose price is not known."),
    "cost": ("cost_dollars", "Cost of the tokens whose price is known, in US dollars."),
    "duration": ("duration_seconds", "Time that tool calls and runs took."),
}
"""The name of each counter as a metric, without the `metier_` of all, and what it is."""
_UNITS = ("dollars", "seconds")
_LABELS = {
    "skill": "gen_ai_skill_name",
    "agent": "gen_ai_agent_name",
    "model": "gen_ai_request_model",
    "team": "tenant",
    "day": "day",
}


def csv_lines(report: UsageReport) -> Iterator[str]:
    """Yield the rows as CSV by RFC 4180, the cost in dollars and the duration in seconds; each ends with a return."""
    yield csv_line((report.by, *COUNTERS))
    for row in report.rows:
        values = row.as_dict()
        yield csv_line([csv_cell(row.name), *(csv_cell(values[name]) for name in COUNTERS)])


def openmetrics_lines(report: UsageReport) -> Iterator[str]:
    """Yield the rows as OpenMetrics 1.0: a counter for each number, labelled by what a row is about."""
    for counter, (name, about) in _METRICS.items():
        yield f"# TYPE metier_{name} counter"
        unit = name.rpartition("_")[2]
        if unit in _UNITS:
            yield f"# UNIT metier_{name} {unit}"
        yield f"# HELP metier_{name} {about}"
        for row in report.rows:
            number = row.counts[counter]
            value = f"{number / MILLION:.6f}" if unit in _UNITS else str(number)
            yield f'metier_{name}_total{{{_LABELS[report.by]}="{escaped_label(row.name)}"}} {value}'
    yield "# EOF"


def escaped_label(text: str) -> str:
    """The value of a label in quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
