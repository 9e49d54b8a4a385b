"""Requests and proposals that nodes send: kept for the people who decide at the server.

A node says what its user wants. Who asks, and what a content can do, is taken from what the server knows itself: a
machine whose owner changed it could otherwise ask in the name of somebody whose request its owner may grant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import FileMissing, InvalidArgument
from metier.guard import Actor
from metier.guard.approvals.requests import MAX_REASON, record_fields, requester_name
from metier.guard.approvals.roles import require_role
from metier.guard.audit.governance_events import record_event
from metier.guard.notify import notifying
from metier.hub.registry.proposals import park_release, proposes
from metier.hub.skill_files import capabilities_of, keep_files
from metier.skill import shown
from metier.store import Person
from metier.store.rows import now

if TYPE_CHECKING:
    from metier.guard import Guard
    from metier.skill.package import Files
    from metier.store import ApprovalRequest, Proposal, TenantScope
    from metier.store.nodes import ManagedNode


def receive_request(
    scope: TenantScope, guard: Guard, node: ManagedNode, asked: ApprovalRequest, *, agent: str = ""
) -> ApprovalRequest:
    """Keep a request of a node's user; the same one again is the one that is kept already."""
    known = scope.approvals.get_request(asked.id)
    location = f"{node.id}:{asked.location}"
    if known is not None:
        if (known.digest, known.location) != (asked.digest, location):
            raise _taken(asked.id)
        return known
    effective = guard.governance.effective
    kept = keep_files(scope, effective, asked.skill, _content(scope, asked.digest))
    actor = _actor(scope, node, agent, asked.environment)
    wanted = replace(
        asked,
        location=location,
        capabilities=tuple(sorted({*asked.capabilities, *capabilities_of(kept)})),
        requested_by=requester_name(actor),
        reason=asked.reason[:MAX_REASON],
        status="pending",
        created_at=now(),
    )
    with notifying(effective), scope.transaction():
        request = scope.approvals.request(wanted)
        if request.id == wanted.id:
            fields = {**record_fields(request), "reason": request.reason, "decision": "ask"}
            record_event(scope, "approval.requested", actor, **fields, notes=(f"node {node.id}",))
    return request


def receive_proposal(scope: TenantScope, guard: Guard, node: ManagedNode, sent: Proposal) -> Proposal:
    """Keep a proposal that a node's user, or an agent of theirs, has made; the same one again is kept already.

    The difference, and what the change newly can do, come from the two contents as the server has them.
    """
    known = scope.proposals.get(sent.id)
    if known is not None:
        is_own = node.person in (known.author, known.on_behalf_of)
        if not is_own or not proposes(scope, known, _content(scope, sent.proposed_digest)):
            raise _taken(sent.id)
        return known
    before = _content(scope, sent.base_digest) if sent.base_digest else {}
    by_agent = sent.author_kind == "agent"
    author = Person(name=sent.author, kind="agent") if by_agent else Person(name=node.person)
    if not by_agent:  # agents propose for everybody, and decide for nobody
        require_role(scope.people.get(node.person) or author, "author", "propose a change")
    return park_release(
        scope,
        sent.skill.partition("@")[0],
        before,
        _content(scope, sent.proposed_digest),
        sent.justification,
        sent.evidence,
        author,
        _actor(scope, node, sent.author if by_agent else ""),
        guard,
        id=sent.id,
    )


def _content(scope: TenantScope, digest: str) -> Files:
    if not scope.revisions.has(digest):
        raise FileMissing(
            f"The content {digest:.20}… is not here.",
            hint="Send it first: `PUT /api/v1/contents/DIGEST`.",
            digest=digest,
        )
    return scope.revisions.files(digest)


def _actor(scope: TenantScope, node: ManagedNode, agent: str, environment: str = "") -> Actor:
    return Actor(user=node.person, agent=agent or None, tenant=scope.tenant or None, environment=environment or None)


def _taken(id: str) -> InvalidArgument:  # noqa: A002
    return InvalidArgument(f"{shown(id)!r} is the id of something else.", hint="Send it under another id.")
