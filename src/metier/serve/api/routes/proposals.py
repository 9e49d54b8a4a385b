"""Proposals: changes of skills that wait until a person decides."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field, model_validator

from metier.errors import InvalidArgument
from metier.hub.proposal_view import proposal_view_of
from metier.hub.proposals import MAX_EVIDENCE, MAX_TEXT
from metier.hub.registry.proposals import approve_on_server, propose_release
from metier.hub.review import MAX_COMMENT, find_proposal, recommend, reject, withdraw
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import documented
from metier.serve.api.routing import new_router
from metier.skill import shown
from metier.skill.package import MAX_FILES, Files
from metier.store.proposals import ProposalStatus

router = new_router(prefix="/api/v1/proposals", tag="proposals")
_MAX_PATH = 500
ProposalId = Annotated[str, Path(max_length=64, pattern="^p-[0-9a-z]+$")]
Comment = Annotated[str, Field(max_length=MAX_COMMENT)]
NeededComment = Annotated[str, Field(min_length=1, max_length=MAX_COMMENT, pattern=r"\S")]


class Recommendation(ApiAnswer):
    """The opinion of somebody who may not decide."""

    by: str
    kind: str
    verdict: str
    reason: str
    at: str


class ProposalSummary(ApiAnswer):
    """A proposed change of a skill, and its status."""

    id: str
    kind: Literal["update", "new"]
    skill: str
    location: str
    base_digest: str = Field(description="The content that it would change; empty for a new skill.")
    proposed_digest: str
    justification: str
    author_kind: Literal["agent", "user"]
    author: str
    on_behalf_of: str
    capabilities_new: list[str]
    status: ProposalStatus
    reviewer: str
    comment: str
    created_at: str
    decided_at: str
    applied_digest: str


class ProposalAnswer(ProposalSummary):
    """A proposal with its diff and all that speaks for it."""

    diff: str
    evidence: list[str]
    recommendations: list[Recommendation]


class BasisAnswer(ApiAnswer):
    """The content that the diff is against."""

    digest: str
    kind: Literal["current", "accepted", "never"]


class ProposalDetail(ApiAnswer):
    """All that somebody who decides about a proposal should see."""

    proposal: ProposalAnswer
    capabilities: list[str]
    compared_with: BasisAnswer
    note: str
    findings: list[dict[str, Any]]
    feedback: str
    why_not_you: str | None


class FileBody(ApiBody):
    """A file of a skill."""

    path: Annotated[str, Field(min_length=1, max_length=_MAX_PATH)]
    text: str | None = None
    base64: str | None = Field(None, description="The bytes, in place of a text.")
    executable: bool = False

    @model_validator(mode="after")
    def _has_content(self) -> FileBody:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("a file has either text or base64")
        return self

    @property
    def data(self) -> bytes:
        """The bytes; raises `InvalidArgument` for text that is no Base64."""
        if self.text is not None:
            return self.text.encode()
        try:
            return base64.b64decode(self.base64 or "", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArgument(f"{shown(self.path)!r} is no Base64.", hint="Encode the bytes of the file.") from None


class ProposalBody(ApiBody):
    """A change that is proposed: a diff of a deployed skill, or all files of it or of a new one."""

    skill: Annotated[str, Field(min_length=1, max_length=64)]
    namespace: Annotated[str, Field(max_length=64)] = Field("", description="Where a new skill is to be.")
    diff: str | None = None
    files: list[FileBody] | None = Field(None, min_length=1, max_length=MAX_FILES)
    justification: Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=r"\S")]
    evidence: list[Annotated[str, Field(max_length=MAX_TEXT)]] = Field([], max_length=MAX_EVIDENCE)

    @model_validator(mode="after")
    def _has_change(self) -> ProposalBody:
        if (self.diff is None) == (self.files is None):
            raise ValueError("a proposal has either a diff or files")
        return self

    @property
    def change(self) -> str | Files:
        """The diff, or all files."""
        if self.diff is not None:
            return self.diff
        found: dict[str, tuple[Literal["file", "exec"], bytes]] = {}
        for one in self.files or ():
            if one.path in found:
                raise InvalidArgument(f"{shown(one.path)!r} is given twice.", hint="Give each file once.")
            found[one.path] = ("exec" if one.executable else "file", one.data)
        return dict(found)


class ApproveBody(ApiBody):
    """An agreement."""

    comment: Comment = ""
    apply: bool = Field(
        True, description="Whether it is released and deployed too, which takes an owner of the namespace."
    )


class CommentBody(ApiBody):
    """A decision against a proposal."""

    comment: NeededComment


class WithdrawBody(ApiBody):
    """The reason to take a proposal back."""

    comment: Comment = ""


class RecommendBody(ApiBody):
    """The opinion of somebody who may not decide."""

    verdict: Literal["approve", "reject"]
    reason: NeededComment


@router.get("", **require("viewer"), summary="Proposals")
def list_proposals(
    caller: CallerOf,
    paging: PagingOf,
    status: Annotated[ProposalStatus | None, Query()] = None,
    skill: Annotated[str | None, Query(max_length=300, description="Its name, or `name@source`.")] = None,
) -> ResultPage[ProposalSummary]:
    found = caller.scope.proposals.all(status)
    wanted = [one for one in found if skill is None or skill in (one.skill, one.skill.partition("@")[0])]
    return sorted_page(ProposalSummary, wanted, paging, "created_at", "id")


@router.post(
    "",
    **require("author"),
    status_code=201,
    summary="Propose to change a deployed skill, or a new one; nothing changes until somebody agrees",
    responses=documented(404, 409),
)
def post_proposal(caller: CallerOf, context: Context, body: ProposalBody) -> ProposalAnswer:
    made = propose_release(
        caller.scope,
        caller.person,
        body.skill,
        body.change,
        body.justification,
        body.evidence,
        guard=context.guard(caller.scope.tenant),
        namespace=body.namespace,
    )
    return ProposalAnswer.model_validate(made)


@router.get(
    "/{id}",
    **require("viewer"),
    summary="All that somebody who decides about a proposal should see",
    responses=documented(404, 409),
)
def get_proposal(caller: CallerOf, context: Context, id: ProposalId) -> ProposalDetail:  # noqa: A002
    proposal = find_proposal(caller.scope, id)
    view = proposal_view_of(caller.scope, context.governance(caller.scope.tenant), caller.person, proposal)
    return ProposalDetail.model_validate(view.as_dict())


@router.post(
    "/{id}/approve",
    **require("viewer"),
    summary="Agree to a proposal: it is released, and deployed in place of what it changes; takes a reviewer, "
    "or an agent whom policy lets decide",
    responses=documented(404, 409),
)
def approve_proposal(caller: CallerOf, context: Context, id: ProposalId, body: ApproveBody) -> ProposalAnswer:  # noqa: A002
    guard = context.guard(caller.scope.tenant)
    done = approve_on_server(caller.scope, caller.person, id, comment=body.comment, apply=body.apply, guard=guard)
    return ProposalAnswer.model_validate(done)


@router.post(
    "/{id}/reject",
    **require("viewer"),
    summary="Decide against a proposal; nothing changes but its status",
    responses=documented(404, 409),
)
def reject_proposal(caller: CallerOf, context: Context, id: ProposalId, body: CommentBody) -> ProposalAnswer:  # noqa: A002
    guard = context.guard(caller.scope.tenant)
    return ProposalAnswer.model_validate(reject(caller.scope, caller.person, id, comment=body.comment, guard=guard))


@router.post(
    "/{id}/withdraw",
    **require("viewer"),
    summary="Take back a proposal of one's own",
    responses=documented(404, 409),
)
def withdraw_proposal(caller: CallerOf, id: ProposalId, body: WithdrawBody) -> ProposalAnswer:  # noqa: A002
    return ProposalAnswer.model_validate(withdraw(caller.scope, caller.person, id, comment=body.comment))


@router.post(
    "/{id}/recommend",
    **require("viewer"),
    summary="Say what one thinks of a proposal; it decides nothing",
    responses=documented(404, 409),
)
def recommend_proposal(caller: CallerOf, id: ProposalId, body: RecommendBody) -> ProposalAnswer:  # noqa: A002
    return ProposalAnswer.model_validate(recommend(caller.scope, caller.person, id, body.verdict, reason=body.reason))
