"""The registry: namespaces with owners, the releases in them, and submissions that are reviewed."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from metier.hub.registry.namespaces import find_namespace, list_namespaces, put_namespace
from metier.hub.registry.publication import (
    MAX_FEEDBACK,
    find_release,
    find_releases,
    publish_release,
    review_submission,
    submit_release,
    withdraw_submission,
    yank_release,
)
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import documented
from metier.serve.api.registry import SkillName, VersionName
from metier.serve.api.routing import new_router
from metier.store.registry import PUBLIC, ReleaseStatus

router = new_router(prefix="/api/v1", tag="registry")
Text = Annotated[str, Field(max_length=MAX_FEEDBACK)]
Line = Annotated[str, Field(min_length=1, max_length=500)]
ContentOf = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", description="A content that was sent before.")]
_SUBMISSIONS: tuple[ReleaseStatus, ...] = ("submitted", "rejected", "withdrawn")
_ORDER = ("namespace", "name", "version")
SubmissionStatus = Literal["submitted", "rejected", "withdrawn"]


class NamespaceAnswer(ApiAnswer):
    """A part of the registry."""

    name: str
    owners: list[str] = Field(description="Who publishes in it: `user:NAME` or `role:ROLE`; admins do in all.")
    criteria: list[str] = Field(description="The statements that a reviewer of a submission has to answer.")


class NamespaceBody(ApiBody):
    """The owners and the criteria of a namespace."""

    owners: Annotated[list[Line], Field(max_length=100)]
    criteria: list[Line] = Field([], max_length=50)


class ReleaseAnswer(ApiAnswer):
    """A version of a skill, or one that waits to be."""

    namespace: str
    name: str
    version: str
    description: str
    status: ReleaseStatus
    digest: str = Field(description="Of its content.")
    archive_digest: str = Field(description="Of the archive that clients fetch.")
    archive_size: int
    by: str
    at: str
    decided_by: str
    decided_at: str
    reason: str = Field(description="The feedback of its review, or the reason why it was yanked.")
    criteria: dict[str, bool] = Field(description="The answers of its review.")


class PublishBody(ApiBody):
    """A content that is to become a release."""

    digest: ContentOf
    version: Annotated[str, Field(max_length=64)] = ""
    reason: Text = ""
    accept_findings: Text = ""


class SubmitBody(ApiBody):
    """A content that is submitted for review."""

    digest: ContentOf
    version: Annotated[str, Field(max_length=64)] = ""
    reason: Text = ""


class ReviewBody(ApiBody):
    """The review of a submission."""

    approve: bool
    criteria: dict[Line, bool] = Field({}, max_length=50)
    feedback: Text = ""
    accept_findings: Text = ""


class YankBody(ApiBody):
    """The reason to withdraw a release."""

    reason: Annotated[str, Field(min_length=1, max_length=2_000)]


@router.get("/namespaces", **require("viewer"), summary="All namespaces")
def get_namespaces(caller: CallerOf, paging: PagingOf) -> ResultPage[NamespaceAnswer]:
    return sorted_page(NamespaceAnswer, list_namespaces(caller.scope), paging, "name")


@router.get("/namespaces/{namespace}", **require("viewer"), summary="A namespace", responses=documented(404))
def get_namespace(caller: CallerOf, namespace: SkillName) -> NamespaceAnswer:
    return NamespaceAnswer.model_validate(find_namespace(caller.scope, namespace))


@router.put("/namespaces/{namespace}", **require("admin"), summary="Make a namespace, or change it")
def change_namespace(caller: CallerOf, namespace: SkillName, body: NamespaceBody) -> NamespaceAnswer:
    return NamespaceAnswer.model_validate(
        put_namespace(caller.scope, caller.person, namespace, body.owners, body.criteria)
    )


@router.get(
    "/packages/{namespace}", **require("viewer"), summary="The releases in a namespace", responses=documented(404)
)
def list_namespace(caller: CallerOf, namespace: SkillName, paging: PagingOf) -> ResultPage[ReleaseAnswer]:
    find_namespace(caller.scope, namespace)
    found = [one for one in caller.scope.releases.all(namespace=namespace) if one.status in PUBLIC]
    return sorted_page(ReleaseAnswer, found, paging, *_ORDER)


@router.get(
    "/packages/{namespace}/{name}", **require("viewer"), summary="The releases of a skill", responses=documented(404)
)
def list_releases(
    caller: CallerOf, namespace: SkillName, name: SkillName, paging: PagingOf
) -> ResultPage[ReleaseAnswer]:
    return sorted_page(ReleaseAnswer, find_releases(caller.scope, namespace, name), paging, *_ORDER)


@router.get(
    "/packages/{namespace}/{name}/{version}", **require("viewer"), summary="A release", responses=documented(404)
)
def get_release(caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName) -> ReleaseAnswer:
    return ReleaseAnswer.model_validate(find_release(caller.scope, namespace, name, version))


@router.post(
    "/packages/{namespace}",
    status_code=201,
    **require("author"),
    summary="Publish a content that was sent before, as an owner of the namespace",
    responses=documented(404, 409),
)
def publish(caller: CallerOf, context: Context, namespace: SkillName, body: PublishBody) -> ReleaseAnswer:
    done = publish_release(
        caller.scope,
        caller.person,
        namespace,
        caller.scope.revisions.files(body.digest),
        guard=context.guard(caller.scope.tenant),
        version=body.version,
        reason=body.reason,
        accept_findings=body.accept_findings,
    )
    return ReleaseAnswer.model_validate(done)


@router.post(
    "/packages/{namespace}/{name}/{version}/yank",
    **require("author"),
    summary="Withdraw a release: who has it locked still gets it, and nobody else",
    responses=documented(404, 409),
)
def yank(
    caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName, body: YankBody
) -> ReleaseAnswer:
    release = find_release(caller.scope, namespace, name, version)
    return ReleaseAnswer.model_validate(yank_release(caller.scope, caller.person, release, reason=body.reason))


@router.delete(
    "/packages/{namespace}/{name}/{version}/yank",
    **require("author"),
    summary="Give a withdrawn release to everybody again",
    responses=documented(404, 409),
)
def take_back_yank(caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName) -> ReleaseAnswer:
    release = find_release(caller.scope, namespace, name, version)
    return ReleaseAnswer.model_validate(yank_release(caller.scope, caller.person, release, undo=True))


@router.get("/submissions", **require("viewer"), summary="Submissions, by default those that wait for review")
def list_submissions(
    caller: CallerOf,
    paging: PagingOf,
    status: Annotated[SubmissionStatus, Query()] = "submitted",
) -> ResultPage[ReleaseAnswer]:
    return sorted_page(ReleaseAnswer, caller.scope.releases.all(status=status), paging, *_ORDER)


@router.get(
    "/submissions/{namespace}/{name}/{version}",
    **require("viewer"),
    summary="A submission, with its feedback",
    responses=documented(404),
)
def get_submission(caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName) -> ReleaseAnswer:
    return ReleaseAnswer.model_validate(find_release(caller.scope, namespace, name, version, _SUBMISSIONS))


@router.post(
    "/submissions/{namespace}",
    status_code=201,
    **require("author"),
    summary="Submit a content that was sent before, for review by an owner of the namespace",
    responses=documented(404, 409),
)
def submit(caller: CallerOf, context: Context, namespace: SkillName, body: SubmitBody) -> ReleaseAnswer:
    done = submit_release(
        caller.scope,
        caller.person,
        namespace,
        caller.scope.revisions.files(body.digest),
        guard=context.guard(caller.scope.tenant),
        version=body.version,
        reason=body.reason,
    )
    return ReleaseAnswer.model_validate(done)


@router.post(
    "/submissions/{namespace}/{name}/{version}/review",
    **require("reviewer"),
    summary="Publish a submission, or reject it with feedback",
    responses=documented(404, 409),
)
def review(
    caller: CallerOf, context: Context, namespace: SkillName, name: SkillName, version: VersionName, body: ReviewBody
) -> ReleaseAnswer:
    done = review_submission(
        caller.scope,
        caller.person,
        find_release(caller.scope, namespace, name, version, _SUBMISSIONS),
        approve=body.approve,
        guard=context.guard(caller.scope.tenant),
        criteria=body.criteria,
        feedback=body.feedback,
        accept_findings=body.accept_findings,
    )
    return ReleaseAnswer.model_validate(done)


@router.post(
    "/submissions/{namespace}/{name}/{version}/withdraw",
    **require("author"),
    summary="Take back a submission of one's own",
    responses=documented(404, 409),
)
def withdraw(caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName) -> ReleaseAnswer:
    submission = find_release(caller.scope, namespace, name, version, _SUBMISSIONS)
    return ReleaseAnswer.model_validate(withdraw_submission(caller.scope, caller.person, submission))
