"""Scan results in the store, for decisions and reviewers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import fields, replace
from metier._version import __version__
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, record_event
from metier.scan.finding import FAILURE, SEVERITIES, Finding, rank
from metier.skill import shown
from metier.store import ScanRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.scan import ScanReport
    from metier.scan.suppression import Suppression
    from metier.store import Person, TenantScope

MAX_KEPT = 200
"""Findings that are kept of one scanner and one content, the worst of them."""
_FIELDS = tuple(field.name for field in fields(Finding))


def may_keep(scope: TenantScope, person: Person) -> None:
    """Raise `NotPermitted`, and record it, unless somebody may keep what scanners say; authors may."""
    with recording_refusals(scope, person, "scan"):
        _demand(person)


def record_scans(
    scope: TenantScope, person: Person, reports: Mapping[str, ScanReport], *, path: str = "", policy: str = ""
) -> tuple[ScanRow, ...]:
    """Keep what several scanners said to one content, each with a record; `reports` are theirs, by their names.

    All is kept as it was found: what somebody answers for is left out where it is decided, for as long as they do.
    """
    kept: list[ScanRow] = []
    with recording_refusals(scope, person, "scan"):
        _demand(person)
        for engine, report in reports.items():
            row = scope.scans.put(_row(engine, report))
            kept.append(row)
            record_event(
                scope,
                "scan.finished",
                actor_of(person, scope),
                skill=report.name,
                digest=report.digest,
                path=path,
                policy=policy,
                reason=_summary(row, report),
                success=report.status == "ok",
                duration_ms=round(report.ms, 1),
            )
    return tuple(kept)


def recorded_severity(row: ScanRow, suppressions: Sequence[Suppression] = ()) -> str:
    """The worst that a scanner found, without what somebody answers for; that it failed is no finding.

    >>> recorded_severity(ScanRow(digest="sha256:0", engine="other", max_severity="high"))
    'high'
    """
    if not row.findings:
        return row.max_severity if row.status == "ok" else "none"
    if len(row.findings) >= MAX_KEPT:
        return row.max_severity  # there may be more than were kept, which nobody answers for
    found = [one for one in map(_finding, row.findings) if one.rule != FAILURE]
    counting = [one.severity for one in found if not any(each.covers(one, row.digest) for each in suppressions)]
    if any(severity not in SEVERITIES for severity in counting):
        return row.max_severity  # what cannot be told is as bad as it can be
    return max(counting, key=rank, default="none")


def recorded_problem(engine: str, row: ScanRow | None, since: str = "") -> str:
    """The reason why a scan result does not tell whether a content is clean; empty where it does.

    >>> recorded_problem("other", None)
    'The scanner other has not looked at it.'
    """
    if row is None:
        return f"The scanner {engine} has not looked at it."
    if row.at < since:
        return f"The scanner {engine} looked at it too long ago."
    return "" if row.status == "ok" else f"The scanner {engine} failed."


def _finding(kept: Mapping[str, Any]) -> Finding:
    values: dict[str, Any] = {name: str(kept.get(name, "")) for name in _FIELDS}
    return Finding(**values)


def _demand(person: Person) -> None:
    require_role(person, "author", "keep what scanners say")


def _row(engine: str, report: ScanReport) -> ScanRow:
    raw = (replace(found, suppressed_by="") for found in report.findings)
    findings = sorted(raw, key=lambda found: -rank(found.severity))
    return ScanRow(
        digest=report.digest,
        engine=engine,
        engine_version=__version__ if engine == "core" else "",
        ruleset=report.ruleset,
        status=report.status,
        max_severity=findings[0].severity if findings else "none",
        ms=round(report.ms),
        findings=[found.as_dict() for found in findings[:MAX_KEPT]],
    )


def _summary(row: ScanRow, report: ScanReport) -> str:
    if row.status != "ok":
        return f"{row.engine} failed. {shown(report.error, 500)}"
    count = len(report.findings)
    return f"{row.engine} found {count:,}, the worst {row.max_severity}." if count else f"{row.engine} found nothing."
