"""What `metier scan` shows a person: the skills with something to see, the worst first, and a picture of it all."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from metier.cli.output import Style, plural
from metier.scan.finding import SEVERITIES, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.scan.finding import Finding
    from metier.scan.scanner import Report
    from metier.store import ScanRow

_FEW = 20
"""Skills that are named even when nothing was found in them, and findings that are shown of one."""
_BAR = 40


def print_scanned(scanned: Sequence[tuple[str, Report]], fail_on: str, seconds: float) -> None:
    """Print what scanning skills said, each with the path of its SKILL.md."""
    style = Style(sys.stdout)
    for path, report in sorted(scanned, key=lambda one: -rank(one[1].max_severity)):
        if report.findings or report.status == "error" or len(scanned) <= _FEW:
            _print_skill(style, path, report, fail_on)
    _print_picture(style, [found for _, report in scanned for found in report.findings])
    bad = sum(report.status == "error" or rank(report.max_severity) >= rank(fail_on) for _, report in scanned)
    suppressed = sum(bool(found.suppressed_by) for _, report in scanned for found in report.findings)
    said = [plural(len(scanned), "skill")]
    said.append(
        f"{bad:,} with findings of severity {fail_on} or above" if bad else f"nothing of severity {fail_on} or above"
    )
    if suppressed:
        said.append(f"{suppressed:,} suppressed")
    line = ", ".join(said) + "."
    took = style.dim(f" ({seconds:.1f} s)") if seconds >= 1 and style.is_terminal else ""
    print((style.bad(line) if bad else style.good(line)) + took)


def print_kept(rows: Sequence[ScanRow]) -> None:
    """Print what is in the store now, a line for each scanner."""
    style = Style(sys.stdout)
    for engine in dict.fromkeys(row.engine for row in rows):
        own = [row for row in rows if row.engine == engine]
        failed = sum(row.status != "ok" for row in own)
        said = f"Kept what {Style.text(engine)} says of {plural(len(own), 'skill')}"
        print(style.bad(f"{said}; it failed for {failed:,}.") if failed else style.dim(f"{said}."))


def _print_skill(style: Style, path: str, report: Report, fail_on: str) -> None:
    is_bad = report.status == "error" or rank(report.max_severity) >= rank(fail_on)
    mark = style.bad("✗") if is_bad else style.good("✓")
    print(f"{mark} {style.strong(Style.text(report.name or '?'))} {style.dim(Style.text(path))}")
    if report.capabilities:
        print(f"  {style.dim('can: ' + ', '.join(report.capabilities))}")
    counting = [found for found in report.findings if found.severity != "info" and not found.suppressed_by]
    for found in counting[:_FEW]:
        _print_finding(style, found)
    rest = Counter(found.rule for found in counting[_FEW:])
    rest.update(found.rule for found in report.findings if found.severity == "info" and not found.suppressed_by)
    if rest:
        named = ", ".join(f"{count:,} {rule}" if count > 1 else rule for rule, count in rest.most_common())
        print(f"  {style.dim(f'and {rest.total():,} more, which --json lists: {Style.text(named)}')}")
    for found in report.findings:
        if found.suppressed_by:
            print(f"  {style.dim(f'suppressed {found.rule} {_place(found)}: {Style.text(found.suppressed_by)}')}")


def _print_finding(style: Style, found: Finding) -> None:
    engine = "" if found.engine == "core" else style.dim(f" ({Style.text(found.engine)})")
    severity = _paint(style, found.severity)(f"{found.severity:<8}")
    print(f"  {severity} {style.strong(Style.text(found.rule))} {_place(found)}{engine}")
    print(f"           {Style.text(found.message, 1_000)}")
    if found.text:
        print(f"           {style.dim('│')} {found.text}")
    print(f"           {style.dim('→ ' + Style.text(found.hint, 1_000))}")


def _place(found: Finding) -> str:
    return Style.text(f"{found.path}:{found.line}", 300)


def _paint(style: Style, severity: str) -> Callable[[str], str]:
    if rank(severity) >= rank("high"):
        return style.bad
    return style.warn if severity == "medium" else style.dim


def _print_picture(style: Style, findings: Sequence[Finding]) -> None:
    """A bar for each severity, when there are enough findings to make a picture of."""
    counts = Counter(found.severity for found in findings if not found.suppressed_by)
    if counts.total() < 3:
        return
    most = max(counts.values())
    for severity in reversed(SEVERITIES):
        if counts[severity]:
            bar = "█" * max(1, round(_BAR * counts[severity] / most))
            print(f"{severity:>8} {_paint(style, severity)(bar)} {counts[severity]:,}")
