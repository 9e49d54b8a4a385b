"""Counters of usage, feedback and results of tests that are kept."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument
from metier.store import Feedback, TenantScope, TierRun
from metier.store.tier_runs import MAX_REPORT
from metier.store.usage import COUNTERS, MAX_QUERIES, UsageCounts

ALL = ("0000", "9999")


def counts(day: str, skill: str = "pdf@acme", number: int = 1) -> UsageCounts:
    return UsageCounts(days={(day, skill, "", ""): [number] * len(COUNTERS)})


def loads(scope: TenantScope, *by: str, since: str = ALL[0], until: str = ALL[1]) -> list[tuple[object, ...]]:
    return [(*key, numbers["loads"]) for key, numbers in scope.usage.totals(by, since, until)]


def test_counters_add_up_and_the_cursor_moves_with_them(scope: TenantScope) -> None:
    assert scope.usage.add(counts("2026-01-01"), after=0, until=5)
    assert scope.usage.add(counts("2026-01-01", number=2), after=5, until=9)
    assert scope.usage.add(counts("2026-01-02", "csv@acme"), after=9, until=10)
    assert scope.usage.cursor() == 10
    assert loads(scope, "skill") == [("csv@acme", 1), ("pdf@acme", 3)]
    assert loads(scope, "day") == [("2026-01-01", 3), ("2026-01-02", 1)]
    assert loads(scope) == [(4,)]


def test_records_that_somebody_has_counted_are_not_counted_again(scope: TenantScope) -> None:
    assert scope.usage.add(counts("2026-01-01"), after=0, until=5)
    assert not scope.usage.add(counts("2026-01-01"), after=0, until=5)
    assert loads(scope) == [(1,)]


def test_counters_of_a_transaction_that_fails_were_never_there(scope: TenantScope) -> None:
    with pytest.raises(ZeroDivisionError), scope.transaction():
        scope.usage.add(counts("2026-01-01"), after=0, until=5)
        raise ZeroDivisionError
    assert (scope.usage.cursor(), loads(scope)) == (0, [(0,)])


def test_old_days_become_a_row_of_their_month(scope: TenantScope) -> None:
    for number, day in enumerate(("2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02"), start=1):
        scope.usage.add(counts(day), after=number - 1, until=number)
    assert scope.usage.fold("2026-02-02")
    assert loads(scope, "day") == [("2026-01", 2), ("2026-02", 1), ("2026-02-02", 1)]
    assert not scope.usage.fold("2026-02-02")
    assert scope.usage.fold("2026-02-03")
    assert loads(scope, "day") == [("2026-01", 2), ("2026-02", 2)]
    assert loads(scope, since="2026-02-20", until="2026-02-21") == [(2,)]
    assert loads(scope, since="2026-03-01") == [(0,)]


def test_texts_of_searches_are_bounded_and_forgotten(scope: TenantScope) -> None:
    many: dict[tuple[str, ...], list[int]] = {
        ("2026-01-01", f"query {number:04}"): [1] for number in range(MAX_QUERIES + 10)
    }
    scope.usage.add(UsageCounts(searches=many), after=0, until=1)
    again: dict[tuple[str, ...], list[int]] = {("2026-01-01", "query 0007"): [2], ("2026-01-01", "new"): [1]}
    scope.usage.add(UsageCounts(searches=again), after=1, until=2)
    found = scope.usage.searches(*ALL, most=2_000)
    assert (len(found), found[0]) == (MAX_QUERIES, ("query 0007", 3))
    scope.usage.add(counts("2026-01-01"), after=2, until=3)
    scope.usage.fold("2026-02-01")
    assert scope.usage.searches(*ALL, most=2_000) == []


def test_pairs_are_counted_by_month(scope: TenantScope) -> None:
    scope.usage.add(UsageCounts(pairs={("2026-01", "a", "b"): [2], ("2026-02", "a", "b"): [1]}), after=0, until=1)
    assert scope.usage.pairs("2026-01-15", "2026-02-01") == [("a", "b", 3)]
    assert scope.usage.pairs("2026-02-01", "2026-02-03") == [("a", "b", 1)]


def test_feedback_comes_back_the_newest_first(scope: TenantScope) -> None:
    for number, helped in enumerate((True, False, True)):
        scope.feedback.add(Feedback(skill="pdf@acme", helped=helped, comment=f"{number}", by="ada"))
    scope.feedback.add(Feedback(skill="csv@acme", helped=False))
    found = scope.feedback.of("pdf@acme", 2)
    assert [(one.helped, one.comment, one.by) for one in found] == [(True, "2", "ada"), (False, "1", "ada")]
    assert scope.feedback.totals("pdf@acme") == (2, 1)
    assert scope.feedback.totals("none@acme") == (0, 0)


def test_the_last_run_of_each_tier_and_runner_counts(scope: TenantScope) -> None:
    results = scope.test_results
    base = TierRun(digest="d", skill="pdf@acme", tier="form", verdict="failed", cases=2, passed=1, failed=1)
    results.add(base)
    results.add(TierRun(digest="d", skill="pdf@acme", tier="form", verdict="passed", score=90, report={"cases": [1]}))
    for model in ("one", "two"):
        results.add(TierRun(digest="d", skill="pdf@acme", tier="behaviour", verdict="passed", runner=model))
    found = [(run.tier, run.runner, run.score, dict(run.report)) for run in results.latest("d")]
    assert found == [("behaviour", "one", 0, {}), ("behaviour", "two", 0, {}), ("form", "", 90, {"cases": [1]})]
    assert [run.verdict for run in results.all("d") if run.tier == "form"] == ["failed", "passed"]
    assert results.latest("other") == []


def test_a_report_that_is_too_long_is_left_out(scope: TenantScope) -> None:
    long = {"text": "x" * MAX_REPORT}
    run = scope.test_results.add(TierRun(digest="d", skill="x", tier="form", verdict="passed", report=long))
    assert (run.report, scope.test_results.latest("d")) == ({}, [run])


@pytest.mark.parametrize("wrong", [{"score": 101}, {"score": -1}, {"verdict": "great"}, {"tier": ""}, {"digest": ""}])
def test_what_is_no_result_of_tests_is_refused(scope: TenantScope, wrong: dict[str, str | int]) -> None:
    given: dict[str, str | int] = {"digest": "d", "skill": "x", "tier": "form", "verdict": "passed"}
    with pytest.raises(InvalidArgument):
        scope.test_results.add(TierRun(**(given | wrong)))  # type: ignore[arg-type]
