"""`metier stats`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from metier._lazy import asdict
from metier.cli.identity import TOKEN, looking, who
from metier.cli.output import Progress, Style, plural, print_json, table
from metier.cli.parser import Parser, library_of
from metier.errors import MetierError
from metier.guard.policy.durations import moment_of
from metier.proof.usage import catch_up
from metier.proof.usage_report import USAGE_GROUPS, usage_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.guard.policy.effective import EffectivePolicy
    from metier.proof.usage_report import UsageReport, UsageRow
    from metier.store import TenantScope

_DAYS = 30
_FEW = 5
_BAR = 12
_NONE = {"skill": "(no skill)", "agent": "(no agent)", "model": "(no model)", "team": "(no team)", "day": ""}


def add(parser: Parser) -> None:
    parser.example("metier stats --since 7d --by model")
    parser.library()
    parser.option("names", "SKILL", "only these skills: NAME or NAME@SOURCE (default: all)", nargs="*")
    parser.option("--since", "DAY", "from this day on: 2026-01-31, or 7d ago (default: 30d; metrics: all)")
    parser.option("--until", "DAY", "up to and with this day (default: today)")
    parser.option("--by", None, "what a row is about (default: skill)", choices=USAGE_GROUPS, default="skill")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--unused", action="store_true", help="only the skills that nobody has loaded, and shadowed ones")
    only.add_argument("--together", action="store_true", help="only the skills that are always loaded together")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON for a program")
    form.add_argument("--csv", action="store_true", help="print the rows for a spreadsheet")
    form.add_argument("--openmetrics", action="store_true", help="print the rows as metrics, for Prometheus and others")


def run(options: Namespace) -> None:
    from metier.guard.policy.files import Policies

    today = datetime.now(UTC).date()
    first = "0001-01-01" if options.openmetrics else (today - timedelta(days=_DAYS - 1)).isoformat()
    since = _day(options.since) or first
    policy = Policies.discover().current()
    library = library_of(options)
    with _scopes(options) as scopes:
        for scope in scopes:
            _catch_up(scope, policy)
        report = usage_report(
            scopes,
            since=since,
            until=_day(options.until) or today.isoformat(),
            by=options.by,
            skills=options.names,
            library=library,
        )
    if not report.rows:
        for name in options.names:
            library.get(name)
    if options.json:
        print_json(_shape(report))
    elif options.csv or options.openmetrics:
        from metier.proof.usage_formats import csv_lines, openmetrics_lines

        print("\n".join((csv_lines if options.csv else openmetrics_lines)(report)))
    else:
        _print_report(report, options)


def _day(text: str | None) -> str | None:
    moment = moment_of(text)
    return None if moment is None else moment[:10]


@contextlib.contextmanager
def _scopes(options: Namespace) -> Iterator[Sequence[TenantScope]]:
    """Yield the scope of the user; for a table of teams those of all tenants that they are known to."""
    with looking(options) as (own, _):
        if options.by != "team" or options.tenant is not None or os.environ.get(TOKEN):
            yield [own]
            return
        scopes = []
        for scope in map(own.store.of, own.store.tenants()):
            with contextlib.suppress(MetierError):
                who(scope)
                scopes.append(scope)
        yield scopes


def _catch_up(scope: TenantScope, policy: EffectivePolicy) -> None:
    before, last = scope.usage.cursor(), scope.audit.last()
    with Progress("Counting record", (last.seq if last else before) - before) as progress:
        catch_up(scope, policy, on_batch=lambda seq: progress.reach(seq - before))


def _shape(report: UsageReport) -> dict[str, Any]:
    queries = [{"query": query, "times": times} for query, times in report.queries]
    rows = [row.as_dict() for row in report.rows]
    return asdict(report) | {"rows": rows, "total": report.total.as_dict(), "queries": queries}


def _print_report(report: UsageReport, options: Namespace) -> None:
    style = Style(sys.stdout)
    span = f"from {report.since} to {report.until}"
    if not options.unused and not options.together:
        if report.rows:
            print(_table(style, report))
            _print_searches(style, report)
        else:
            print(f"Nothing was recorded {span}.")
        _print_section(style, "UNDERPERFORMING", [f"{one.skill}: {one.reason}" for one in report.underperforming])
    few = _FEW if not (options.unused or options.together) else None
    if not options.unused:
        pairs = [f"{' and '.join(pair.skills)}, {plural(pair.loads, 'time')}" for pair in report.together]
        _print_section(style, "ALWAYS LOADED TOGETHER", pairs, few, "--together")
    if not options.together:
        _print_section(style, f"NOT USED {span}", report.unused, few, "--unused")
        shadowed = [f"{one.skill}, by {one.by}" for one in report.shadowed]
        _print_section(style, "SHADOWED", shadowed, few, "--unused")
    if options.unused and not report.unused and not report.shadowed:
        print(f"All skills were used {span}.")
    if options.together and not report.together:
        print(f"No skills were always loaded together {span}.")


def _table(style: Style, report: UsageReport) -> str:
    has_feedback = bool(report.total.counts["helped"] + report.total.counts["not_helped"])
    head = [report.by.upper(), "LOADS", "CALLS", "RUNS", "REFUSED", "FAILED", "TOKENS", "COST"]
    head += ["HELPED"] * has_feedback + ["USE"] * style.is_terminal
    most = max(map(_use, report.rows)) or 1
    rows = []
    for row in (*report.rows, report.total):
        is_total = row is report.total
        cells = ["total" if is_total else row.name or _NONE[report.by]]
        cells += [f"{row.counts[name]:,}" for name in ("loads", "calls", "runs", "refusals", "failures")]
        cells += [f"{row.tokens:,}", _cost(row)]
        cells += [f"{row.counts['helped']:,} of {row.counts['helped'] + row.counts['not_helped']:,}"] * has_feedback
        rows.append(cells + ["" if is_total else "█" * -(-_use(row) * _BAR // most)] * style.is_terminal)
    return table(style, head, rows, paint={0: style.strong, 4: style.dim, 5: style.dim})


def _use(row: UsageRow) -> int:
    return row.counts["loads"] + row.counts["calls"] + row.counts["runs"]


def _cost(row: UsageRow) -> str:
    """The cost for people, with a sign where the price of some tokens is not known."""
    if not row.tokens:
        return "-"
    return "unknown" if row.dollars is None else f"${row.dollars:,.2f}{'+?' * bool(row.counts['unpriced'])}"


def _print_searches(style: Style, report: UsageReport) -> None:
    searches, empty = report.total.counts["searches"], report.total.counts["empty_searches"]
    if report.total.counts["unpriced"]:
        tokens = plural(report.total.counts["unpriced"], "token")
        print(style.dim(f"The price of {tokens} is not known: genai-prices has none for the model, or is missing."))
    if searches:
        print(f"\n{plural(searches, 'search')}, of which {empty:,} found nothing.")
    _print_section(style, "FOUND NOTHING", [f"{query}, {plural(times, 'time')}" for query, times in report.queries])


def _print_section(
    style: Style, head: str, lines: Sequence[str], most: int | None = _FEW, option: str = "--json"
) -> None:
    if not lines:
        return
    print(f"\n{style.dim(head)}")
    for line in lines[:most]:
        print(f"  {Style.text(line)}")
    if most is not None and len(lines) > most:
        print(style.dim(f"  and {len(lines) - most:,} more; {option} shows all"))
