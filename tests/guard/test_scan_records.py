"""What scanners said, kept: how bad it is, and whether it still counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from metier.errors import NotPermitted
from metier.guard.scan_records import MAX_KEPT, may_keep, record_scans, recorded_problem, recorded_severity
from metier.scan import ScanReport
from metier.scan.suppression import read_suppressions
from metier.store import Person, ScanRow, Store, TenantScope

OURS = read_suppressions("[{rule: X, path: SKILL.md, reason: ours, by: dana, expires: 2999-12-31}]")


def row(*findings: dict[str, Any], status: str = "ok", worst: str = "critical") -> ScanRow:
    return ScanRow(digest="d", engine="other", status=status, max_severity=worst, findings=list(findings))


def found(rule: str = "X", severity: str = "high", path: str = "SKILL.md") -> dict[str, Any]:
    return {"rule": rule, "severity": severity, "path": path}


@pytest.mark.each(
    ("kept", "expected"),
    [
        (row(found()), "none"),
        (row(found(), found(path="x.sh", severity="low")), "low"),
        (row(found(), found("Y", "medium")), "medium"),
        (row(found("SCAN_FAILED"), status="error"), "none"),
        (row(found("SCAN_FAILED"), found("Y", "low"), status="error"), "low"),
        (row(), "critical"),
        (row(status="error"), "none"),
        (row(*[found()] * (MAX_KEPT - 1)), "none"),
        (row(*[found()] * MAX_KEPT), "critical"),
        (row({"line": 3}), "critical"),
        (row({"rule": None, "severity": 7, "path": ["x"]}), "critical"),
    ],
)
def test_the_worst_that_nobody_answers_for_counts(kept: ScanRow, expected: str) -> None:
    assert recorded_severity(kept, OURS) == expected


@pytest.mark.each(
    ("kept", "expected"),
    [
        (None, "has not looked at it"),
        (ScanRow(digest="d", engine="other", at="2026-01-01"), "too long ago"),
        (ScanRow(digest="d", engine="other", at="2026-01-03", status="error"), "failed"),
        (ScanRow(digest="d", engine="other", at="2026-01-03"), ""),
    ],
)
def test_what_is_missing_old_or_failed_says_nothing_about_a_content(kept: ScanRow | None, expected: str) -> None:
    problem = recorded_problem("other", kept, "2026-01-02")
    assert expected in problem
    assert bool(problem) is bool(expected)


@pytest.fixture
def scope() -> Iterator[TenantScope]:
    with Store.open() as store:
        yield store.of("acme")


def test_a_viewer_keeps_nothing_and_the_attempt_is_recorded(scope: TenantScope) -> None:
    viewer = Person(name="vi", roles=frozenset({"viewer"}))
    with pytest.raises(NotPermitted):
        may_keep(scope, viewer)
    with pytest.raises(NotPermitted):
        record_scans(scope, viewer, {"core": ScanReport(name="greet", digest="d")})
    assert scope.scans.latest("d") == []
    records = scope.audit.tail(5)
    assert [(one["type"], one["decision"], one["user"]) for one in records] == [("scan.refused", "deny", "vi")] * 2


def test_results_and_records_are_kept_together_or_not_at_all(scope: TenantScope) -> None:
    author = Person(name="ada", roles=frozenset({"author"}))
    good, bad = ScanReport(name="greet", digest="d"), ScanReport(name="greet", digest="")
    with pytest.raises(Exception, match="digest"):
        record_scans(scope, author, {"core": good, "other": bad})
    assert (scope.scans.latest("d"), scope.audit.tail(5)) == ([], [])
    (kept,) = record_scans(scope, author, {"core": good})
    assert scope.scans.latest("d") == [kept]
    (record,) = scope.audit.tail(5)
    assert (record["type"], record["tenant"], record["reason"]) == ("scan.finished", "acme", "core found nothing.")
