"""Quarantine: skills that are taken out of use, and the people who used them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from metier.errors import InvalidArgument
from metier.guard.approvals.quarantine import (
    CHANGED,
    known_target,
    quarantine,
    quarantined_folders,
    release,
    taken_out_at,
    usage_of,
)
from metier.guard.approvals.requests import MAX_REASON
from metier.guard.decision import INTEGRITY
from metier.guard.notify import notifying
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store.blocks import BlockKind

router = new_router(prefix="/api/v1/quarantine", tag="quarantine")
_MAX_VALUE = 1_000


class BlockAnswer(ApiAnswer):
    """A target that is out of use."""

    kind: Literal["name", "digest", "source", "folder"]
    value: str
    reason: str
    by: str
    at: str


class BlockBody(ApiBody):
    """A target, and the reason to take it out of use or to release it."""

    kind: BlockKind
    value: Annotated[str, Field(min_length=1, max_length=_MAX_VALUE, pattern=r"\S")]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON, pattern=r"\S")]


class SkillUseAnswer(ApiAnswer):
    """The use of a skill by one person or agent, in one session."""

    session: str
    user: str
    agent: str
    first: str
    last: str
    times: int


@router.get("", **require("viewer"), summary="All that is in quarantine")
def list_quarantine(caller: CallerOf, paging: PagingOf) -> ResultPage[BlockAnswer]:
    scope = caller.scope
    blocks = [BlockAnswer.model_validate(one) for one in scope.blocks.all()]
    blocks += [
        BlockAnswer(kind="folder", value=one.location, reason=CHANGED, by=INTEGRITY, at=taken_out_at(scope, one))
        for one in quarantined_folders(scope)
    ]
    return sorted_page(BlockAnswer, blocks, paging, "at", "kind", "value")


@router.post(
    "", **require("reviewer"), status_code=201, summary="Take skills out of use everywhere, from the next decision on"
)
def add_to_quarantine(caller: CallerOf, context: Context, body: BlockBody) -> BlockAnswer:
    with notifying(context.governance(caller.scope.tenant).effective):
        block = quarantine(caller.scope, caller.person, body.kind, body.value, reason=body.reason)
    return BlockAnswer.model_validate(block)


@router.post(
    "/release",
    **require("admin"),
    summary="Let skills be used again that are in quarantine, where policy lets them",
    responses=documented(404),
)
def release_from_quarantine(caller: CallerOf, body: BlockBody) -> BlockBody:
    if not release(caller.scope, caller.person, body.kind, body.value, reason=body.reason):
        raise ProblemError(404, "not-in-quarantine", "That is not in quarantine.", hint="List what is.")
    return body


@router.get("/usage", **require("viewer"), summary="The uses of a name, a content or a source that are on record")
def list_usage(
    caller: CallerOf,
    paging: PagingOf,
    kind: Annotated[BlockKind, Query()],
    value: Annotated[str, Query(min_length=1, max_length=_MAX_VALUE)],
) -> ResultPage[SkillUseAnswer]:
    if not value.strip():
        raise InvalidArgument("Nothing is named.", hint="Name a skill, a digest or a source.")
    found = usage_of(caller.scope, kind, known_target(kind, value))
    return sorted_page(SkillUseAnswer, found, paging, "last", "session", "user", "agent", newest_first=True)
