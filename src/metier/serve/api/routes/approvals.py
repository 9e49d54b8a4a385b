"""Approvals, and the requests for them."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from metier.errors import RequestNotFound
from metier.guard.approvals.decisions import deny, grant, people_who_agreed, reason_against_deciding, revoke
from metier.guard.approvals.requests import MAX_REASON, expire_requests
from metier.guard.approvals.status import ApprovalState, state_of, timestamp
from metier.guard.policy.durations import seconds_of
from metier.guard.policy.effective import EffectivePolicy
from metier.hub.proposals import MAX_DIFFERENCE
from metier.hub.request_view import request_view_of
from metier.serve.api.answers import ApiAnswer, ApiBody, Duration, Reason, sorted_page
from metier.serve.api.context import Context, ServerContext
from metier.serve.api.credentials import ApiCaller, CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import documented
from metier.serve.api.routing import new_router
from metier.skill import shown
from metier.store import Approval
from metier.store.approvals import RequestStatus

router = new_router(prefix="/api/v1", tag="approvals")
_DIGEST = "sha256:[0-9a-f]{64}"
RequestId = Annotated[str, Path(max_length=64, pattern="^r-[0-9a-z]+$")]
Wanted = Annotated[
    str, Path(max_length=80, pattern=f"^(r-[0-9a-z]+|{_DIGEST})$", description="The id of a request, or a digest.")
]
ApprovalId = Annotated[str, Path(max_length=64, pattern="^a-[0-9a-z]+$")]
SkillQuery = Annotated[str | None, Query(max_length=300, description="`name@source`.")]


class RequestAnswer(ApiAnswer):
    """A request for an approval."""

    id: str
    digest: str
    skill: str
    location: str
    layer: str
    environment: str
    capabilities: list[str]
    new: list[str] = Field(description="The capabilities that the last approved content did not have.")
    scripts: dict[str, str] = Field(description="The sha256 of each script, by path.")
    requested_by: str
    reason: str
    status: RequestStatus
    created_at: str


class ApprovalAnswer(ApiAnswer):
    """A decision for or against a content."""

    id: str
    request: str
    digest: str
    skill: str
    location: str
    layer: str
    environment: str
    grants: list[str]
    tools: list[str]
    decision: Literal["approved", "denied"]
    state: ApprovalState
    decided_by: str
    reason: str
    policy: str
    rule: str
    decided_at: str
    expires_at: str
    revoked_at: str
    revoked_by: str
    revoked_reason: str
    fell_to: str = Field(description="The content that replaced the approved one.")

    @classmethod
    def of(cls, approval: Approval) -> ApprovalAnswer:
        """The answer about an approval, with its state now."""
        fields = {name: getattr(approval, name) for name in cls.model_fields if name != "state"}
        return cls(**fields, state=state_of(approval, timestamp(time.time())))


class FileAnswer(ApiAnswer):
    """A file of a content."""

    path: str
    sha256: str
    mode: str
    kind: str
    size: int


class ChangedFile(ApiAnswer):
    """A file that is not as it was."""

    path: str
    how: str = Field(description="`added`, `changed` or `removed`.")


class Deciding(ApiAnswer):
    """The people who decide about a request, and whether the caller does."""

    approvers: list[str]
    quorum: int
    agreed: list[str]
    why_not_you: str | None


class RequestDetail(ApiAnswer):
    """All that somebody who decides about a request should see."""

    request: RequestAnswer
    evidence: dict[str, list[dict[str, Any]]] = Field(description="For each capability the places that show it.")
    declared: list[str]
    undeclared: list[str]
    findings: list[dict[str, Any]] = Field(description="The worst first.")
    scan_problem: str
    files: list[FileAnswer]
    before: ApprovalAnswer | None = Field(description="The last approval of other content of the skill.")
    base: str | None = Field(description="The digest of that content, where it was kept.")
    changed: list[ChangedFile]
    diff: str | None = Field(description="Null where the content was not kept, or nobody would read all of it.")
    approvals: list[ApprovalAnswer]
    decides: Deciding


class Granting(ApiBody):
    """An approval that is given."""

    only: list[Annotated[str, Field(max_length=300)]] | None = Field(
        None, max_length=100, description="This of what is asked for; null for all of it."
    )
    tools: list[Annotated[str, Field(max_length=2_000)]] = Field(
        [], max_length=100, description="Tool calls that are granted too, as rules: `Bash(git:*)`."
    )
    expires: Duration | None = None
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""


def policy_for(context: ServerContext, caller: ApiCaller) -> EffectivePolicy:
    """The policy of the caller's tenant, once requests that policy let run out are so."""
    effective = context.governance(caller.scope.tenant).effective
    expire_requests(caller.scope, effective)
    return effective


@router.get("/requests", **require("viewer"), summary="Requests for approvals")
def list_requests(
    caller: CallerOf,
    context: Context,
    paging: PagingOf,
    status: Annotated[RequestStatus | None, Query()] = None,
    skill: SkillQuery = None,
) -> ResultPage[RequestAnswer]:
    policy_for(context, caller)
    return sorted_page(RequestAnswer, caller.scope.approvals.requests(status, skill=skill), paging, "created_at", "id")


@router.get(
    "/requests/{id}",
    **require("viewer"),
    summary="All that somebody who decides about a request should see",
    responses=documented(404, 409),
)
def get_request(caller: CallerOf, context: Context, id: RequestId) -> RequestDetail:  # noqa: A002
    effective = policy_for(context, caller)
    request = caller.scope.approvals.get_request(id)
    if request is None:
        raise RequestNotFound(f"There is no request {shown(id)!r}.", hint="List the requests.")
    view = request_view_of(caller.scope, request, effective.scan.packs)
    terms = effective.approval
    own = {
        "before": ApprovalAnswer.of(view.before) if view.before is not None else None,
        "diff": view.changes if view.changes is not None and len(view.changes) <= MAX_DIFFERENCE else None,
        "approvals": list(map(ApprovalAnswer.of, view.approvals)),
        "decides": Deciding(
            approvers=list(terms.approvers),
            quorum=terms.quorum,
            agreed=people_who_agreed(caller.scope, request, terms.quorum, timestamp(time.time())),
            why_not_you=reason_against_deciding(effective, caller.person, request),
        ),
    }
    return RequestDetail.model_validate(view.as_dict() | own)


@router.post(
    "/requests/{id}/grant",
    **require("viewer"),
    status_code=201,
    summary="Agree that a skill may do what it asks for, as long as its content is this; policy says who may",
    responses=documented(404, 409),
)
def grant_request(caller: CallerOf, context: Context, id: Wanted, body: Granting) -> ApprovalAnswer:  # noqa: A002
    given = grant(
        caller.scope,
        policy_for(context, caller),
        caller.person,
        id,
        grants=body.only,
        tools=body.tools,
        expires=_seconds(body.expires),
        reason=body.reason,
    )
    return ApprovalAnswer.of(given)


def _seconds(duration: str | None) -> float | None:
    # Zero is no duration; the error of one that is too short says so.
    return None if duration is None else seconds_of(duration) or 0


@router.post(
    "/requests/{id}/deny",
    **require("viewer"),
    status_code=201,
    summary="Say no; it outweighs everybody who agrees, until it is revoked; policy says who may",
    responses=documented(404, 409),
)
def deny_request(caller: CallerOf, context: Context, id: Wanted, body: Reason) -> ApprovalAnswer:  # noqa: A002
    effective = policy_for(context, caller)
    return ApprovalAnswer.of(deny(caller.scope, effective, caller.person, id, reason=body.reason))


@router.get("/approvals", **require("viewer"), summary="Decisions about contents")
def list_approvals(
    caller: CallerOf,
    paging: PagingOf,
    active: Annotated[bool, Query(description="Only those that nobody revoked.")] = False,
    skill: SkillQuery = None,
    digest: Annotated[str | None, Query(pattern=f"^{_DIGEST}$")] = None,
) -> ResultPage[ApprovalAnswer]:
    found = caller.scope.approvals.of(digest) if digest is not None else caller.scope.approvals.all()
    wanted = [one for one in found if skill in (None, one.skill) and not (active and one.revoked_at)]
    answers = (ApprovalAnswer.of(one) for one in wanted)
    return sorted_page(ApprovalAnswer, answers, paging, "decided_at", "id")


@router.get("/approvals/{id}", **require("viewer"), summary="A decision about a content", responses=documented(404))
def get_approval(caller: CallerOf, id: ApprovalId) -> ApprovalAnswer:  # noqa: A002
    found = caller.scope.approvals.get(id)
    if found is None:
        raise RequestNotFound(f"There is no approval {shown(id)!r}.", hint="List the approvals.")
    return ApprovalAnswer.of(found)


@router.post(
    "/approvals/{id}/revoke",
    **require("viewer"),
    summary="Take back an approval, or a no; reviewers take back any approval, and everybody their own",
    responses=documented(404, 409),
)
def revoke_approval(caller: CallerOf, context: Context, id: ApprovalId, body: Reason) -> ApprovalAnswer:  # noqa: A002
    effective = policy_for(context, caller)
    return ApprovalAnswer.of(revoke(caller.scope, effective, caller.person, id, reason=body.reason))
