"""`metier replay`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._lazy import asdict
from metier.cli.audit import key_file
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.identity import acting, has_store
from metier.cli.output import Progress, Style, plural, print_json, print_warning, table
from metier.cli.parser import Parser, library_of, positive
from metier.errors import InvalidArgument, PolicyInvalid, SessionNotFound
from metier.guard.policy.durations import moment_of
from metier.hints import for_people

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from metier.guard.policy.files import Policies
    from metier.proof import Replay, ReplayReport
    from metier.proof.recorded_log import RecordedLog
    from metier.proof.replay import ReplayedDecision

_HEAD = ("SEQ", "TIME", "WHAT", "THEN", "NOW", "WHY")
_PAINTS = {"equal": "good", "changed": "bad", "other-rule": "warn", "unclear": "dim"}


def add(parser: Parser) -> None:
    parser.example("metier replay --all --since 30d --policy stricter.yaml")
    parser.library()
    parser.option("session", "SESSION", "the id of a recorded session, as `metier audit tail --json` has it", nargs="?")
    parser.flag("--all", "all sessions")
    parser.option("--since", "TIME", "only actions from then on: 2026-01-31, or 2h, 30d ago")
    parser.option("--file", "FILE", "records of a file of JSON lines, such as an export, instead of the store")
    parser.option(
        "--with",
        "SKILL@DIGEST",
        "decide about this content of a skill instead; or about that in a folder (repeatable)",
        action="append",
        default=[],
        dest="contents",
    )
    parser.option("--policy", "FILE", "decide under this policy instead of the policy files in force here")
    parser.option(
        "-n", "N", "show at most so many decisions that are not equal (default: 100)", type=positive, default=100
    )
    parser.flag("--check", "exit with 1 where a decision changes")
    parser.json()


def run(options: Namespace) -> int:
    from metier.proof.replay import ReplayReport

    if bool(options.session) == options.all:
        raise InvalidArgument("Which session?", hint="Name one, or add --all.")
    since = moment_of(options.since) or ""
    with _opened(options) as (log, replay), Progress("Records", log.total) as progress:
        report = ReplayReport()
        records = _watched(log, progress)
        for one in replay.run(records, session=options.session or None, since=since):
            report.add(one)
    if options.session and not report.sessions:
        hint = for_people("`metier audit tail --json` shows the last ones.")
        raise SessionNotFound(f"No decision of session {options.session!r:.200} is on record.", hint=hint)
    if options.json:
        print_json(_shape(report, replay, log, options.n))
    else:
        _print_report(report, replay, log, options.n)
    return PROBLEMS if options.check and report.counts["changed"] else FINE


@contextlib.contextmanager
def _opened(options: Namespace) -> Iterator[tuple[RecordedLog, Replay]]:
    """The records to replay, and what decides about them again."""
    from metier.proof.recorded_log import RecordedLog, log_of_file, log_of_store
    from metier.proof.recorded_skills import read_contents
    from metier.proof.replay import Replay

    policies, library = _policies(options.policy), library_of(options)

    with acting(options, create=False) if has_store() else contextlib.nullcontext((None, None)) as (scope, _):
        if options.file:
            log = log_of_file(Path(options.file), key_file())
        elif scope is not None:
            log = log_of_store(scope, key_file())
        else:
            log = RecordedLog(iter(()), 0, is_verified=True)
        instead = read_contents(options.contents, library, () if scope is None else (scope,))
        yield log, Replay(library, scope, policies=policies, instead=instead, has_past=not options.file)


def _policies(path: str | None) -> Policies | None:
    """The policy of a file, in place of all others; raises `PolicyInvalid` for one that is not sound."""
    from metier.guard.policy.files import Policies

    if path is None:
        return None
    found = Policies([("enterprise", os.path.abspath(path))])
    for problem in found.current().errors:
        raise PolicyInvalid(str(problem), hint=problem.hint, path=problem.path, line=problem.line)
    return found


def _watched(log: RecordedLog, progress: Progress) -> Iterator[tuple[int, Any]]:
    for row in log.records:
        progress.step()
        yield row


def _shape(report: ReplayReport, replay: Replay, log: RecordedLog, most: int) -> dict[str, Any]:
    effective = replay.governance.effective
    files = [{"layer": file.layer, "path": file.path} for file in effective.files]
    return {
        "sessions": len(report.sessions),
        "decisions": report.counts.total(),
        "verified": log.is_verified,
        "policy": {"digest": effective.digest, "files": files},
        "counts": {status: report.counts[status] for status in _PAINTS},
        "by_rule": dict(report.by_rule.most_common()),
        "by_skill": dict(report.by_skill.most_common()),
        "by_code": dict(report.by_code.most_common()),
        "differences": [{**asdict(one), "status": one.status} for one in report.decisions[:most]],
    }


def _print_report(report: ReplayReport, replay: Replay, log: RecordedLog, most: int) -> None:
    from metier.proof.replay import UNCLEAR

    style = Style(sys.stdout)
    if not log.is_verified:
        print_warning("Nothing shows that these records are as they were written: they have no hashes.")
    shown_rows = report.decisions[:most]
    if shown_rows:
        paint = {0: style.dim, 1: style.dim, 3: style.outcome, 4: style.outcome}
        print(table(style, _HEAD, [_row(one, style) for one in shown_rows], paint=paint))
    if (more := report.counts.total() - report.counts["equal"] - len(shown_rows)) > 0:
        print(style.dim(f"... and {more:,} more; -n shows them"))
    counted = ", ".join(
        getattr(style, paint)(f"{report.counts[status]:,} {status}")
        for status, paint in _PAINTS.items()
        if report.counts[status] or status in ("equal", "changed")
    )
    files = ", ".join(Style.text(file.path, 300) for file in replay.governance.effective.files) or "no policy file"
    sessions = plural(len(report.sessions), "session")
    print(f"{plural(report.counts.total(), 'decision')} of {sessions} under {files}: {counted}")
    _print_counts(style, "changed by rule", report.by_rule)
    _print_counts(style, "changed by skill", report.by_skill)
    for code, count in report.by_code.most_common():
        print(f"  {style.dim(code)} {count:,}: {UNCLEAR[code]}")


def _print_counts(style: Style, title: str, counts: Counter[str]) -> None:
    if counts:
        listed = "; ".join(f"{Style.text(name or '-', 200)} {count:,}" for name, count in counts.most_common(10))
        print(f"  {style.dim(title)}: {listed}")


def _row(one: ReplayedDecision, style: Style) -> list[str]:
    why = ", ".join(one.codes) or (one.now.rule if one.now is not None else "")
    what = " ".join(filter(None, (one.point, one.skill, one.what)))[:200]
    return [str(one.seq), style.when(one.at), what, str(one.then), str(one.now or "?"), why]
