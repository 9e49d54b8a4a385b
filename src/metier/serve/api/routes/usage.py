"""Usage: who used which skills how much."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel

from metier.guard.policy.durations import moment_of
from metier.proof.usage import catch_up
from metier.proof.usage_report import UsageGroup, UsageReport, usage_report
from metier.serve.api.answers import ApiAnswer
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.routing import new_router

router = new_router(prefix="/api/v1", tag="usage")

_DAYS = 30
Day = Annotated[str | None, Query(max_length=40, description="2026-01-31, or how long ago: 7d.")]
SkillName = Annotated[str, Query(max_length=300)]


class UsageRowAnswer(BaseModel):
    """The usage of one skill, agent, model, team or day."""

    name: str
    loads: int
    calls: int
    refusals: int
    failures: int
    runs: int
    searches: int
    empty_searches: int
    helped: int
    not_helped: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """In US dollars, of the tokens whose price is known; null where no price is."""
    unpriced: int
    """The tokens without a price."""
    duration: float
    """In seconds."""


class SkillPairAnswer(ApiAnswer):
    """Two skills that are nearly always loaded together."""

    skills: list[str]
    loads: int


class WeakSkillAnswer(ApiAnswer):
    """A skill that does not do well, and why."""

    skill: str
    reason: str


class QueryAnswer(BaseModel):
    """A search that found nothing."""

    query: str
    times: int


class UsageReportAnswer(BaseModel):
    """The usage from one day to another, inclusive."""

    since: str
    until: str
    by: UsageGroup
    rows: list[UsageRowAnswer]
    """The most used first; days in their order."""
    total: UsageRowAnswer
    queries: list[QueryAnswer]
    unused: list[str]
    """The deployed skills that nobody has loaded."""
    together: list[SkillPairAnswer]
    underperforming: list[WeakSkillAnswer]

    @classmethod
    def of(cls, report: UsageReport, unused: list[str]) -> UsageReportAnswer:
        """The answer with a report."""
        return cls(
            since=report.since,
            until=report.until,
            by=report.by,
            rows=[UsageRowAnswer.model_validate(row.as_dict()) for row in report.rows],
            total=UsageRowAnswer.model_validate(report.total.as_dict()),
            queries=[QueryAnswer(query=query, times=times) for query, times in report.queries],
            unused=unused,
            together=[SkillPairAnswer.model_validate(one) for one in report.together],
            underperforming=[WeakSkillAnswer.model_validate(one) for one in report.underperforming],
        )


@router.get("/usage", **require("viewer"), summary="Who used which skills how much")
def read_usage(
    caller: CallerOf,
    context: Context,
    since: Day = None,
    until: Day = None,
    by: UsageGroup = "skill",
    skill: Annotated[list[SkillName], Query(max_length=100, description="Only these: NAME or NAME@SOURCE.")] = [],  # noqa: B006
) -> UsageReportAnswer:
    scope = caller.scope
    catch_up(scope, context.governance(scope.tenant).effective)
    today = datetime.now(UTC).date()
    report = usage_report(
        [scope],
        since=_day(since) or (today - timedelta(days=_DAYS - 1)).isoformat(),
        until=_day(until) or today.isoformat(),
        by=by,
        skills=skill,
    )
    used = {row.name.partition("@")[0] for row in report.rows if row.counts["loads"]} if by == "skill" else set()
    deployed = [one.name for one in scope.deployments.all()] if by == "skill" and not skill else []
    return UsageReportAnswer.of(report, [name for name in deployed if name not in used])


def _day(text: str | None) -> str | None:
    moment = moment_of(text)
    return None if moment is None else moment[:10]
