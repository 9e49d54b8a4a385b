"""The view of test results at a terminal: a line while each tier runs, a table, and the failures with advice."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.output import Progress, Style, table
from metier.proof.report import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.proof.comparison import Comparison
    from metier.proof.report import CaseResult, Report, SkillReport, Tier, TierResult

_MOST_FAILURES = 10
"""The failures of a tier that are printed without `--full`."""
_LONG = 1_000


class TestProgress:
    """A line on standard error with the tier that runs, how many are done, and what was spent."""

    __test__ = False  # pytest would take it for a test

    def __init__(self, total: int) -> None:
        self._progress = Progress()
        self._total = total
        self._done = 0
        self._cost = 0.0

    def begin(self, skill: str, tier: Tier) -> None:
        """Name the tier that begins."""
        spent = f", {self._cost:.2f} USD" if self._cost else ""
        self._progress.say(f"{self._done} of {self._total} tiers{spent}: {skill} {tier}")

    def end(self, skill: str, result: TierResult) -> None:
        """Count a tier that is done."""
        self._done += 1
        self._cost += result.cost
        self._progress.end()


def print_report(report: Report, *, full: bool = False) -> None:
    """Print the table of skills and tiers, the failures with their hints, and the sum."""
    style = Style(sys.stdout)
    rows = [(skill.name, *(_cell(skill.tier(tier)) for tier in report.tiers)) for skill in report.skills]
    paint = {0: style.strong} | {index + 1: _painter(style) for index in range(len(report.tiers))}
    print(table(style, ("SKILL", *(tier.upper() for tier in report.tiers)), rows, paint=paint))
    for skill in report.skills:
        _print_skill(style, skill, full=full)
    _print_models(style, report)
    print()
    print(_sum(style, report))


def _print_models(style: Style, report: Report) -> None:
    """Print the models beside each other, where any were asked."""
    from metier.proof.model_table import HEAD, report_table

    found = report_table(report)
    if found is not None:
        print(f"\n{table(style, HEAD, found.cells(), paint={0: style.strong})}")
        if not found.is_within_limits:
            print(style.warn("! is beyond a limit: path errors below 5 %, no script read, tokens within 20 %."))


def _cell(tier: TierResult | None) -> str:
    if tier is None:
        return ""
    counting = len(tier.cases) - tier.count("skipped")
    words = f"{tier.count('passed')} of {counting}" if counting else "skipped" if tier.cases else "none"
    return f"{MARKS[tier.verdict]} {words}"


def _painter(style: Style) -> Callable[[str], str]:
    paints = {"✓": style.good, "✗": style.bad, "○": style.dim}
    return lambda cell: paints.get(cell.strip()[:1], str)(cell)


def _print_skill(style: Style, skill: SkillReport, *, full: bool) -> None:
    for note in skill.notes:
        mark = style.bad("✗") if note.is_error else style.dim("○")
        print(f"\n{mark} {style.strong(Style.text(skill.name))} {style.dim(Style.text(note.place))}")
        print(f"  {Style.text(note.message, _LONG)}")
    for tier in skill.tiers:
        wanted = [case for case in tier.cases if case.verdict == "failed" or (full and case.reason)]
        for case in wanted if full else wanted[:_MOST_FAILURES]:
            _print_case(style, skill, tier, case)
        if len(wanted) > _MOST_FAILURES and not full:
            print(style.dim(f"  and {len(wanted) - _MOST_FAILURES} more; `--full` prints all"))


def _print_case(style: Style, skill: SkillReport, tier: TierResult, case: CaseResult) -> None:
    mark = _painter(style)(MARKS[case.verdict])
    print(f"\n{mark} {style.strong(Style.text(skill.name))} {tier.tier} {Style.text(case.id, 200)}")
    if case.reason:
        print(f"  {Style.text(case.reason, _LONG)}")
    if case.hint:
        print(f"  {style.dim('→ ' + Style.text(case.hint, _LONG))}")


def _sum(style: Style, report: Report) -> str:
    spent = f", {report.cost:.2f} USD" if report.cost else ""
    paint = style.bad if report.verdict == "failed" else style.good
    return paint(f"{report.summary} ({report.seconds:.1f} s{spent}).")


def print_comparison(comparison: Comparison) -> None:
    """Print the cases whose verdict differs from the base."""
    style = Style(sys.stdout)
    for title, keys in comparison.changes.items():
        for key in keys:
            print(f"{(style.good if title == 'better' else style.bad)(title)}: {Style.text(str(key), _LONG)}")
    print(comparison.summary)
