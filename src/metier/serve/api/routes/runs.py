"""Runs of scripts and of agents, as the audit log has them."""

from __future__ import annotations

import itertools
from typing import Annotated

from fastapi import Query

from metier.guard.policy.durations import moment_of
from metier.proof.recorded_runs import RunKind, RunOutcome, recorded_runs
from metier.serve.api.answers import ApiAnswer
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.routes.audit import Moment, Name, cursor_at, place_of
from metier.serve.api.routing import new_router
from metier.store.audit_filters import AuditFilters
from metier.store.audit_search import AuditPlace

router = new_router(prefix="/api/v1", tag="runs")

_MOST_RECORDS = 5_000
"""The records that one request looks at; a page may be short because of it, and still have a next one."""


class RunAnswer(ApiAnswer):
    """One run of a script, or of an agent from the first record of its session to the last."""

    kind: RunKind
    name: str
    skill: str
    digest: str
    started_at: str
    ended_at: str
    outcome: RunOutcome
    reason: str
    exit_code: int | None
    duration_ms: float
    user: str
    agent: str
    session: str
    parent: str
    calls: int
    refusals: int
    failures: int
    tokens_in: int
    tokens_out: int
    node: str
    seq: int


@router.get("/runs", **require("viewer"), summary="Runs of scripts and of agents, the newest first")
def list_runs(
    caller: CallerOf,
    paging: PagingOf,
    kind: RunKind | None = None,
    outcome: Annotated[RunOutcome | None, Query(description="For an agent that of its last record.")] = None,
    skill: Name = None,
    user: Name = None,
    agent: Name = None,
    session: Name = None,
    since: Moment = None,
    until: Moment = None,
) -> ResultPage[RunAnswer]:
    filters = AuditFilters(
        skill=skill, user=user, agent=agent, session=session, since=moment_of(since), until=moment_of(until)
    )
    found = recorded_runs(caller.scope.audit_search, filters, kind=kind, place=place_of(paging))
    items: list[RunAnswer] = []
    place: AuditPlace | None = None
    for run, after in itertools.islice(found, _MOST_RECORDS):
        place = after
        if run is not None and outcome in (None, run.outcome):
            items.append(RunAnswer.model_validate(run))
        if len(items) == paging.limit:
            break
    is_more = place is not None and next(found, None) is not None
    return ResultPage(items=items, next=cursor_at(place) if is_more and place is not None else None)
