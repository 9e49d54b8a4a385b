"""The view of test results at a terminal: a line while each tier runs, a table, and the failures with advice."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.output import Progress, Style, plural, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.proof.comparison import Comparison
    from metier.proof.report import CaseResult, Report, SkillReport, Tier, TierResult

_MARKS = {"passed": "✓", "failed": "✗", "skipped": "○"}
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
    tiers = list(dict.fromkeys(tier.tier for skill in report.skills for tier in skill.tiers))
    rows = [_row(skill, tiers) for skill in report.skills]
    paint = {index: _painter(style) for index in range(1, len(tiers) + 1)} | {0: style.strong}
    print(table(style, ("SKILL", *(tier.upper() for tier in tiers)), rows, paint=paint))
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


def _row(skill: SkillReport, tiers: list[Tier]) -> tuple[str, ...]:
    found = [skill.tier(tier) for tier in tiers]
    return (skill.name, *("" if tier is None else _cell(tier) for tier in found))


def _cell(tier: TierResult) -> str:
    if not tier.cases:
        return f"{_MARKS[tier.verdict]} none"
    counting = len(tier.cases) - tier.count("skipped")
    return (
        f"{_MARKS[tier.verdict]} {tier.count('passed')} of {counting}" if counting else f"{_MARKS['skipped']} skipped"
    )


def _painter(style: Style) -> Callable[[str], str]:
    paints = {"✓": style.good, "✗": style.bad, "○": style.dim}
    return lambda cell: paints.get(cell.strip()[:1], str)(cell)


def _print_skill(style: Style, skill: SkillReport, *, full: bool) -> None:
    for note in skill.notes:
        place = f"{note.path}{f':{note.line}' if note.line else ''} {note.at}".strip()
        mark = style.bad("✗") if note.is_error else style.dim("○")
        print(f"\n{mark} {style.strong(Style.text(skill.name))} {style.dim(Style.text(place))}")
        print(f"  {Style.text(note.message, _LONG)}")
    for tier in skill.tiers:
        wanted = [case for case in tier.cases if case.verdict == "failed" or (full and case.reason)]
        for case in wanted if full else wanted[:_MOST_FAILURES]:
            _print_case(style, skill, tier, case)
        if len(wanted) > _MOST_FAILURES and not full:
            print(style.dim(f"  and {len(wanted) - _MOST_FAILURES} more; `--full` prints all"))


def _print_case(style: Style, skill: SkillReport, tier: TierResult, case: CaseResult) -> None:
    mark = _painter(style)(_MARKS[case.verdict])
    print(f"\n{mark} {style.strong(Style.text(skill.name))} {tier.tier} {Style.text(case.id, 200)}")
    if case.reason:
        print(f"  {Style.text(case.reason, _LONG)}")
    if case.hint:
        print(f"  {style.dim('→ ' + Style.text(case.hint, _LONG))}")


def _sum(style: Style, report: Report) -> str:
    failed = sum(skill.verdict == "failed" for skill in report.skills)
    spent = f", {report.cost:.2f} USD" if report.cost else ""
    told = f"{plural(len(report.skills), 'skill')}, {f'{failed} with failures' if failed else 'no failures'}"
    told = f"{told} ({report.seconds:.1f} s{spent})."
    return style.bad(told) if failed else style.good(told)


def print_comparison(comparison: Comparison) -> None:
    """Print the cases whose verdict differs from the base."""
    style = Style(sys.stdout)
    lists = (
        ("worse", style.bad, comparison.worse),
        ("new failure", style.bad, comparison.new_failures),
        ("better", style.good, comparison.better),
    )
    for title, paint, keys in lists:
        for key in keys:
            print(f"{paint(title)}: {Style.text(str(key), _LONG)}")
    changed = len(comparison.worse) + len(comparison.better) + len(comparison.new_failures)
    print(f"Against the base: {plural(changed, 'change')}, {plural(comparison.same, 'case')} the same.")
