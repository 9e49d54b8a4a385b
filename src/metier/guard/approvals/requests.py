"""Requests for approvals: made once for each content, found by id, name or digest, expired and superseded."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument, MetierError, RequestNotFound
from metier.guard.approvals.status import approval_status, timestamp
from metier.guard.audit.governance_events import record_event
from metier.guard.decision import Actor
from metier.hints import for_people
from metier.skill import FolderPackage, shown
from metier.store import ApprovalRequest
from metier.store.rows import new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from metier.guard.approvals.status import Clock
    from metier.guard.decision import Subject
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Approval, Person, TenantScope

MAX_REASON = 2_000
_AGENT = ", agent:"
_NOBODY = Actor()
_LIST = for_people("`metier approve list` shows what waits for an answer.")


def request_approval(
    scope: TenantScope,
    subject: Subject,
    *,
    capabilities: Collection[str],
    new: Collection[str],
    scripts: Mapping[str, str],
    actor: Actor,
    environment: str = "",
    reason: str = "",
    clock: Clock = time.time,
) -> ApprovalRequest:
    """Request an approval of a skill's content, once: while a request is pending, a second one is the same.

    Pending requests for other content of the skill in the same place are superseded, as that content is gone.
    """
    wanted = ApprovalRequest(
        id=new_id("r"),
        digest=subject.digest,
        skill=subject.ref,
        location=subject.location,
        layer=subject.layer,
        environment=environment,
        capabilities=tuple(sorted(capabilities)),
        new=tuple(sorted(new)),
        scripts=dict(sorted(scripts.items())),
        requested_by=requester_name(actor),
        reason=reason[:MAX_REASON],
        created_at=timestamp(clock()),
    )
    with scope.transaction():
        request = scope.approvals.request(wanted)
        if request.id != wanted.id and request.capabilities != wanted.capabilities:
            # The same content was given other packages since.
            scope.approvals.set_request(request.id, "superseded", expected="pending")
            request = scope.approvals.request(wanted)
        if request.id != wanted.id:
            return request
        place = (request.location, request.layer, request.environment)
        for one in scope.approvals.requests("pending", skill=request.skill):
            if one.id != request.id and (one.location, one.layer, one.environment) == place:
                scope.approvals.set_request(one.id, "superseded", expected="pending")
        _record_expired_approvals(scope, request, actor)
        record_event(
            scope, "approval.requested", actor, **record_fields(request), reason=request.reason, decision="ask"
        )
    return request


def requester_name(actor: Actor) -> str:
    """The name of the requester: a user, and the agent that works for them."""
    if actor.user and actor.agent:
        return f"{actor.user}{_AGENT}{actor.agent}"
    return actor.user or (f"agent:{actor.agent}" if actor.agent else "")


def is_requester(person: Person, request: ApprovalRequest) -> bool:
    """Whether a person made a request, or an agent made it for them."""
    # Names that differ in upper and lower case alone may be those of one account.
    requester, name = request.requested_by.casefold(), person.name.casefold()
    # No user's name has a comma, and an agent may be called anything.
    user, _, agent = requester.partition(_AGENT)
    if person.kind == "agent":
        return name in (agent, requester.removeprefix("agent:"))
    return name == user


def _record_expired_approvals(scope: TenantScope, request: ApprovalRequest, actor: Actor) -> None:
    """Record the expired approvals that cause a new request; an earlier request recorded the others."""
    approvals = scope.approvals.of(request.digest)
    layer, environment = request.layer, request.environment
    status = approval_status(approvals, layer=layer, environment=environment, quorum=1, now=request.created_at)
    if not status.expired:
        return
    content = (request.digest, request.environment)
    earlier = [
        one.created_at
        for one in scope.approvals.requests(skill=request.skill)
        if one.id != request.id and (one.digest, one.environment) == content
    ]
    for one in status.expired:
        if not any(at >= one.expires_at for at in earlier):
            fields = record_fields(one) | {"request": request.id}
            record_event(scope, "approval.expired", actor, **fields, reason=f"It ran out at {one.expires_at}.")


def lapse_earlier_approvals(
    scope: TenantScope, skill: str, digest: str, *, location: str = "", actor: Actor = _NOBODY
) -> list[Approval]:
    """Record, once, that approvals of the previous content of a skill in a folder no longer apply; returns them.

    They are not revoked: when their content comes back, they count again.
    """
    with scope.transaction():
        approved = [one for one in scope.approvals.of_skill(skill, location) if one.decision == "approved"]
        others = [one for one in approved if one.digest != digest]
        lapsed = [one for one in others if one.digest == others[-1].digest]
        for one in lapsed:
            if scope.approvals.fell(one.id, digest):
                fields = record_fields(one) | {"new_digest": digest}
                record_event(scope, "approval.revoked", actor, **fields, reason="The content changed.")
    return lapsed


def record_fields(about: ApprovalRequest | Approval) -> dict[str, Any]:
    """The fields of an audit record about a request or an approval."""
    name, _, source = about.skill.partition("@")
    fields = {"skill": name, "source": source, "digest": about.digest, "layer": about.layer}
    fields["environment"] = about.environment
    if isinstance(about, ApprovalRequest):
        return {"request": about.id, **fields}
    return {"approval": about.id, "request": about.request, **fields}


def find_request(scope: TenantScope, wanted: str) -> ApprovalRequest:
    """The request of an id, or the pending one of a skill's name or a digest; a known content needs none."""
    if not wanted.startswith("sha256:"):
        request = scope.approvals.get_request(wanted) or _request_to_decide(scope, wanted)
        if request is None:
            raise RequestNotFound(f"There is no request {shown(wanted)!r}.", hint=_LIST)
        if request.status != "pending":
            raise RequestNotFound(f"Request {request.id} waits no longer: it is {request.status}.", hint=_LIST)
        return request
    pending = [one for one in scope.approvals.requests("pending") if one.digest == wanted]
    if len(pending) > 1:
        ids = ", ".join(f"{one.id} ({shown(one.environment) or 'any environment'})" for one in pending)
        raise InvalidArgument(f"Several requests wait for this content: {ids}.", hint="Name one of them by its id.")
    if pending:
        return pending[0]
    revision = scope.revisions.get(wanted)
    if revision is None:
        raise RequestNotFound(f"Nothing is known of a content {shown(wanted)!r}.", hint=_LIST)
    return ApprovalRequest(
        digest=wanted, skill=revision.skill, capabilities=tuple(revision.capabilities.get("names", ()))
    )


def pending_request(scope: TenantScope, name: str) -> ApprovalRequest | None:
    """The pending request for a skill called `name` or `name@source`; raises `InvalidArgument` for several."""
    pending = [one for one in scope.approvals.requests("pending") if _is_for(one, name)]
    if len(pending) > 1:
        ids = ", ".join(
            f"{one.id} ({shown(one.skill)}, {shown(one.environment) or 'any environment'})" for one in pending
        )
        raise InvalidArgument(
            f"Several requests wait for skills of the name {shown(name)!r}: {ids}.",
            hint="Name one of them by its id.",
        )
    return pending[0] if pending else None


def _request_to_decide(scope: TenantScope, name: str) -> ApprovalRequest | None:
    """The pending request of a name, where it is about the content that the person has reviewed under that name."""
    request = pending_request(scope, name)
    if request is None:
        return None
    others = [one for one in scope.approvals.requests() if _is_for(one, name) and one.id != request.id]
    decided = max((one.created_at for one in others if one.status in ("approved", "denied")), default="")
    gone = next((one for one in others if one.status == "superseded" and one.created_at >= decided), None)
    if gone is not None:
        said = "The content of {skill!r} changed while {gone} waited; {id} is about other content."
        raise InvalidArgument(
            said.format(skill=shown(request.skill), gone=gone.id, id=request.id),
            hint=for_people(
                "Look at it with `metier approve show {id}`, and name the request by its id.", id=request.id
            ),
        )
    return request


def _is_for(request: ApprovalRequest, name: str) -> bool:
    return name in (request.skill, request.skill.partition("@")[0])


def expire_requests(
    scope: TenantScope, effective: EffectivePolicy, *, actor: Actor = _NOBODY, clock: Clock = time.time
) -> list[ApprovalRequest]:
    """Expire requests that are pending for longer than policy lets an approval last; returns them.

    An answer to them would be out of date already. The requester asks again.
    """
    lasts = effective.approval.expires
    if lasts is None:
        return []
    since = timestamp(clock() - lasts)
    expired: list[ApprovalRequest] = []
    for one in scope.approvals.requests("pending"):
        if one.created_at >= since:
            continue
        with scope.transaction():
            if scope.approvals.set_request(one.id, "expired", expected="pending"):
                reason = "Nobody answered while policy would have let the answer count."
                record_event(
                    scope, "approval.expired", actor, **record_fields(one), reason=reason, policy=effective.digest
                )
                expired.append(one)
    return expired


def supersede_requests(scope: TenantScope) -> list[ApprovalRequest]:
    """Supersede requests whose content is no longer in its place; returns them.

    Content that cannot be read, as in an archive or on another machine, may still be there.
    """
    pending = scope.approvals.requests("pending")
    gone = [one for one in pending if _is_gone(one, is_local=scope.store.kind == "sqlite")]
    return [one for one in gone if scope.approvals.set_request(one.id, "superseded", expected="pending")]


def _is_gone(request: ApprovalRequest, *, is_local: bool) -> bool:
    folder = request.location
    if not os.path.isabs(folder):
        return False
    if not os.path.lexists(folder):
        # A store that several machines share knows of folders that are on others.
        return is_local and os.path.isdir(_nearest_existing(folder))
    try:
        return os.path.isdir(folder) and FolderPackage(folder).digest() != request.digest
    except MetierError:
        return False


def _nearest_existing(path: str) -> str:
    """The nearest parent that exists; for a path inside of an archive that is a file."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
