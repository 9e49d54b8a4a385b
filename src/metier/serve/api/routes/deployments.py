"""Deployments: the releases that every node has."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from metier.hub.registry.deployment import deploy_release, find_deployment, undeploy
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import documented
from metier.serve.api.registry import SkillName
from metier.serve.api.routing import new_router

router = new_router(prefix="/api/v1/deployments", tag="deployments")


class DeploymentAnswer(ApiAnswer):
    """A release that every node has."""

    name: str
    namespace: str
    version: str
    digest: str
    by: str
    reason: str
    at: str
    not_approved: str = Field(default="", description="Why its content is not approved by that; empty where it is.")


class DeploymentBody(ApiBody):
    """A release that is to be on every node."""

    namespace: Annotated[str, Field(max_length=64)]
    version: Annotated[str, Field(max_length=64)]
    reason: Annotated[str, Field(max_length=2_000)] = ""
    accept_findings: Annotated[str, Field(max_length=2_000)] = ""


@router.get("", **require("viewer", nodes=True), summary="All deployments")
def list_deployments(caller: CallerOf, paging: PagingOf) -> ResultPage[DeploymentAnswer]:
    return sorted_page(DeploymentAnswer, caller.scope.deployments.all(), paging, "name")


@router.get("/{name}", **require("viewer", nodes=True), summary="A deployment", responses=documented(404))
def get_deployment(caller: CallerOf, name: SkillName) -> DeploymentAnswer:
    return DeploymentAnswer.model_validate(find_deployment(caller.scope, name))


@router.put("/{name}", **require("admin"), summary="Deploy a release to all nodes", responses=documented(404, 409))
def put_deployment(caller: CallerOf, context: Context, name: SkillName, body: DeploymentBody) -> DeploymentAnswer:
    deployed, not_approved = deploy_release(
        caller.scope,
        caller.person,
        body.namespace,
        name,
        body.version,
        guard=context.guard(caller.scope.tenant),
        reason=body.reason,
        accept_findings=body.accept_findings,
    )
    return DeploymentAnswer.model_validate(deployed).model_copy(update={"not_approved": not_approved})


@router.delete("/{name}", **require("admin"), summary="Take a skill from all nodes", responses=documented(404))
def delete_deployment(caller: CallerOf, name: SkillName) -> DeploymentAnswer:
    return DeploymentAnswer.model_validate(undeploy(caller.scope, caller.person, name))
