"""Nodes as people see them: enrolled, listed, revoked, and trusted again after their audit log was changed."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, Field

from metier.guard.approvals.nodes import MAX_NAME, enrol_node, reset_node, revoke_node
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store.nodes import ManagedNode, NodeStatus

router = new_router(prefix="/api/v1", tag="nodes")
NodeId = Annotated[str, Path(max_length=64, pattern=r"^[\w.@+-]+$")]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class NodeAnswer(ApiAnswer):
    """A machine that takes its policy and its skills from this server."""

    id: str
    name: str
    person: str = Field(description="Who made it a node.")
    platform: str
    registered_at: str
    last_seen_at: str
    status: NodeStatus = Field(description="`tampered`: its audit log was changed, and is not accepted any more.")
    fault: str
    inventory_at: str


class NodeDetails(NodeAnswer):
    """A node with its inventory."""

    inventory: dict[str, Any] = Field(description="As it was sent last; empty where it was not yet.")


class Enrolment(ApiBody):
    """A machine that is to become a node."""

    name: Name
    platform: Annotated[str, Field(max_length=MAX_NAME)] = ""


class ServerIdentity(BaseModel):
    """The server as its nodes know it."""

    url: str | None
    key_id: str
    public_key: str = Field(description="The key that its state is signed by: Ed25519, in PEM.")


class EnrolledNode(BaseModel):
    """A new node, and its token, which is shown this once."""

    id: str
    name: str
    tenant: str
    token: str
    server: ServerIdentity


class Reset(ApiBody):
    """The reason to accept the audit log of a node again."""

    reason: Annotated[str, Field(min_length=1, max_length=2_000)]


@router.post("/nodes", status_code=201, **require("viewer"), summary="Make a machine a node", responses=documented(409))
def enrol(caller: CallerOf, context: Context, body: Enrolment) -> EnrolledNode:
    node, secret = enrol_node(caller.scope, caller.person, body.name, body.platform)
    url, key = context.settings.public_url, context.node_states.key
    return EnrolledNode(
        id=node.id,
        name=node.name,
        tenant=caller.scope.tenant,
        token=secret,
        server=ServerIdentity(url=str(url) if url else None, key_id=key.id, public_key=key.public_pem),
    )


@router.get("/nodes", **require("viewer"), summary="All nodes")
def list_nodes(caller: CallerOf, paging: PagingOf) -> ResultPage[NodeAnswer]:
    return sorted_page(NodeAnswer, caller.scope.nodes.all(), paging, "registered_at", "id")


@router.get("/nodes/{id}", **require("viewer"), summary="A node and its inventory", responses=documented(404))
def get_node(caller: CallerOf, id: NodeId) -> NodeDetails:  # noqa: A002
    node = _known(caller, id)
    return NodeDetails(**NodeAnswer.model_validate(node).model_dump(), inventory=json.loads(node.inventory or "{}"))


@router.delete(
    "/nodes/{id}",
    status_code=204,
    **require("viewer"),
    summary="Revoke a node: an admin any, others their own",
    responses=documented(404),
)
def revoke(caller: CallerOf, id: NodeId) -> Response:  # noqa: A002
    _known(caller, id)
    revoke_node(caller.scope, caller.person, id)
    return Response(status_code=204)


@router.post(
    "/nodes/{id}/reset",
    **require("admin"),
    summary="Accept the audit log of a node from its first record on again",
    responses=documented(404),
)
def reset(caller: CallerOf, id: NodeId, body: Reset) -> NodeAnswer:  # noqa: A002
    _known(caller, id)
    return NodeAnswer.model_validate(reset_node(caller.scope, caller.person, id, body.reason))


def _known(caller: CallerOf, id: str) -> ManagedNode:  # noqa: A002
    found = caller.scope.nodes.get(id)
    if found is None:
        raise ProblemError(404, "node-not-found", "There is no such node.", hint="The list of nodes has all of them.")
    return found
