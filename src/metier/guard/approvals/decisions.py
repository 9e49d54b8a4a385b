"""Asking for approvals, giving them and taking them back: each in one transaction with its audit record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from metier.errors import IntegrityFailed, InvalidArgument, NotPermitted, RequestNotFound
from metier.guard.approvals._deciding import record_fields, recording_refusals
from metier.guard.approvals.roles import has_role, is_approver
from metier.guard.approvals.status import approval_status, end_of, is_over, moment
from metier.guard.audit.governance_events import actor_of, event_record, record_event
from metier.guard.decision import Actor
from metier.hints import for_people
from metier.skill import shown
from metier.skill.tool_rules import parse_rules
from metier.store import Approval, ApprovalRequest
from metier.store.codec import new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from metier.guard.approvals.status import Clock
    from metier.guard.decision import Subject
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Person, TenantScope

_MAX_REASON = 2_000
_AGENT = ", agent:"
_NOBODY = Actor()
_WAITING = for_people("`metier approve list` shows what waits for an answer.")
_ALL = for_people("`metier approve list --all` shows what was decided.")


def request(
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
    """Ask for an approval of a skill's content, once: while a request waits, a second one is the same.

    Those that wait for other content of the skill in the same place are superseded: it is not there any more.
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
        requested_by=requester(actor),
        reason=reason[:_MAX_REASON],
        created_at=moment(clock()),
    )
    with scope.transaction():
        asked = scope.approvals.request(wanted)
        if asked.id != wanted.id:
            return asked
        place = (asked.location, asked.layer, asked.environment)
        for one in scope.approvals.requests("pending", skill=asked.skill):
            if one.id != asked.id and (one.location, one.layer, one.environment) == place:
                scope.approvals.set_request(one.id, "superseded", expected="pending")
        _note_expired(scope, asked, actor)
        record_event(scope, "approval.requested", actor, **record_fields(asked), reason=asked.reason, decision="ask")
    return asked


def requester(actor: Actor) -> str:
    """Who asks: a user, and the agent that works for them."""
    if actor.user and actor.agent:
        return f"{actor.user}{_AGENT}{actor.agent}"
    return actor.user or (f"agent:{actor.agent}" if actor.agent else "")


def _note_expired(scope: TenantScope, asked: ApprovalRequest, actor: Actor) -> None:
    """Record which approvals ran out, when that is why somebody asks again; an earlier request recorded others."""
    given = scope.approvals.of(asked.digest)
    found = approval_status(given, layer=asked.layer, environment=asked.environment, quorum=1, now=asked.created_at)
    if not found.expired:
        return
    about = (asked.digest, asked.environment)
    asked_at = [
        one.created_at
        for one in scope.approvals.requests(skill=asked.skill)
        if one.id != asked.id and (one.digest, one.environment) == about
    ]
    for one in found.expired:
        if not any(at >= one.expires_at for at in asked_at):
            record_event(
                scope,
                "approval.expired",
                actor,
                **record_fields(one) | {"request": asked.id},
                reason=f"It ran out at {one.expires_at}.",
            )


def lapse_earlier_approvals(
    scope: TenantScope, skill: str, digest: str, *, location: str = "", actor: Actor = _NOBODY
) -> list[Approval]:
    """The approvals that a skill in a folder has for the content before this one; that they fell is recorded once.

    They are not taken back: when the content that they are for comes back, they count again.
    """
    with scope.transaction():
        given = [one for one in scope.approvals.of_skill(skill, location) if one.decision == "approved"]
        others = [one for one in given if one.digest != digest]
        found = [one for one in others if one.digest == others[-1].digest]
        for one in found:
            if scope.approvals.fell(one.id, digest):
                about = record_fields(one) | {"new_digest": digest}
                record_event(scope, "approval.revoked", actor, **about, reason="The content changed.")
    return found


def may_decide(effective: EffectivePolicy, person: Person, request: ApprovalRequest) -> str | None:
    """Why somebody may not agree to a request; None if they may."""
    terms = effective.approval
    if effective.errors and effective.on_error != "allow":
        return f"A policy file cannot be used, so nobody knows who decides. {effective.errors[0]}"
    if not is_approver(person, terms.approvers):
        return _stranger(effective, person)
    if not terms.self_approval and is_requester(person, request):
        return f"{shown(person.name)!r} asked for it, and policy lets nobody decide about their own request."
    return None


def _stranger(effective: EffectivePolicy, person: Person) -> str:
    named = shown(", ".join(effective.approval.approvers), 500) or "nobody"
    return f"{shown(person.name)!r} is not among those who decide about approvals: {named}."


def is_requester(person: Person, request: ApprovalRequest) -> bool:
    """Whether somebody made a request, or an agent made it for them."""
    # Names that differ in upper and lower case alone may be those of one account.
    asked, name = request.requested_by.casefold(), person.name.casefold()
    # No user's name has a comma, and an agent may be called anything.
    user, _, agent = asked.partition(_AGENT)
    if person.kind == "agent":
        return name in (agent, asked.removeprefix("agent:"))
    return name == user


def grant(
    scope: TenantScope,
    effective: EffectivePolicy,
    person: Person,
    wanted: str | ApprovalRequest,
    *,
    grants: Collection[str] | None = None,
    tools: Sequence[str] = (),
    expires: float | None = None,
    reason: str = "",
    clock: Clock = time.time,
) -> Approval:
    """Agree to a request by its id, or to a known content by its digest, or to what nobody asked for yet.

    Without `grants`, to all that is asked for; with less, the request waits for the rest. It lasts for `expires`
    seconds, and never longer than policy says. Where policy wants several people to agree, the request waits until
    they did. `NotPermitted` for who may not is recorded.
    """
    now = clock()
    rules = _rules(tools)
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        asked = wanted if isinstance(wanted, ApprovalRequest) else _asked(scope, wanted)
        granted = _granted(asked, grants)
        why = may_decide(effective, person, asked) or _against(scope, person, asked, {*granted, *rules}, moment(now))
        if why is not None:
            raise _refusal(why, asked)
        given = Approval(
            id=new_id("a"),
            request=asked.id,
            **_of(asked),
            grants=granted,
            tools=rules,
            decided_by=person.name,
            reason=_said(reason),
            policy=effective.digest,
            decided_at=moment(now),
            expires_at=end_of(now, expires, effective.approval.expires),
        )
        notes = tuple(f"grants {what}" for what in (*given.grants, *given.tools))
        notes += (f"until {given.expires_at}",) if given.expires_at else ()
        added = scope.approvals.add(given, _record(scope, "approval.granted", person, given, notes=notes))
        _require_whole_trail(scope)
        if asked.id and _is_complete(scope, asked, effective.approval.quorum, added.decided_at):
            scope.approvals.set_request(asked.id, "approved", expected="pending")
        return added


def deny(
    scope: TenantScope,
    effective: EffectivePolicy,
    person: Person,
    wanted: str,
    *,
    reason: str,
    clock: Clock = time.time,
) -> Approval:
    """Say no to a request, or to a known content: it outweighs everybody who agrees, until it is taken back."""
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        asked = _asked(scope, wanted)
        # Whoever asked may say no: that is to withdraw.
        if not is_approver(person, effective.approval.approvers):
            raise _refusal(_stranger(effective, person), asked)
        given = Approval(
            id=new_id("a"),
            request=asked.id,
            **_of(asked),
            decision="denied",
            decided_by=person.name,
            reason=_said(reason),
            policy=effective.digest,
            decided_at=moment(clock()),
        )
        added = scope.approvals.add(given, _record(scope, "approval.denied", person, given))
        if asked.id:
            scope.approvals.set_request(asked.id, "denied", expected="pending")
        return added


def revoke(scope: TenantScope, effective: EffectivePolicy, person: Person, approval: str, *, reason: str) -> Approval:
    """Take an approval back, from the next decision on; or a refusal, which takes what agreeing takes.

    Reviewers may take back any approval, and everybody their own.
    """
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        found = scope.approvals.get(approval)
        if found is None:
            raise RequestNotFound(f"There is no approval {shown(approval)!r}.", hint=_ALL)
        asked = scope.approvals.get_request(found.request) or ApprovalRequest(**_of(found))
        if found.decision == "denied" or not _may_take_back(person, found):
            why = may_decide(effective, person, asked)
            if why is not None:
                raise _refusal(why, asked)
        more = {"reason": _said(reason), "policy": effective.digest}
        record = _record(scope, "approval.revoked", person, found, **more)
        if not scope.approvals.revoke(found.id, person.name, _said(reason), record):
            raise RequestNotFound(f"{found.id} was taken back already.", hint=_ALL)
        return scope.approvals.get(found.id) or found


def _may_take_back(person: Person, approval: Approval) -> bool:
    return person.name == approval.decided_by or (person.kind != "agent" and has_role(person, "reviewer"))


def _refusal(why: str, asked: ApprovalRequest) -> NotPermitted:
    return NotPermitted(
        why,
        hint=for_people("`metier policy show` says who decides, and `metier user list` who is who."),
        request=asked.id,
        about=record_fields(asked),
    )


def _record(scope: TenantScope, type: str, person: Person, approval: Approval, **more: Any) -> dict[str, Any]:  # noqa: A002
    given = {"reason": approval.reason, "policy": approval.policy}
    return event_record(scope, type, actor_of(person, scope), **{**record_fields(approval), **given, **more})


def _require_whole_trail(scope: TenantScope) -> None:
    """Raise `IntegrityFailed` where no approval could count, because the records before it are not as written."""
    fault = scope.ledger().fault
    if fault:
        raise IntegrityFailed(
            f"Nothing can be approved: from record {fault:,} on, the audit trail is not as it was written.",
            hint=for_people(
                "`metier audit verify` says what is wrong; `metier store restore FILE --force` brings a backup back."
            ),
            seq=fault,
        )


def _asked(scope: TenantScope, wanted: str) -> ApprovalRequest:
    """The request of an id, or the one that waits for a skill's name or a digest; a known content needs none."""
    if not wanted.startswith("sha256:"):
        found = scope.approvals.get_request(wanted) or _request_by_name(scope, wanted)
        if found is None:
            raise RequestNotFound(f"There is no request {shown(wanted)!r}.", hint=_WAITING)
        if found.status != "pending":
            raise RequestNotFound(f"Request {found.id} waits no longer: it is {found.status}.", hint=_WAITING)
        return found
    waiting = [one for one in scope.approvals.requests("pending") if one.digest == wanted]
    if len(waiting) > 1:
        ids = ", ".join(f"{one.id} ({shown(one.environment) or 'any environment'})" for one in waiting)
        raise InvalidArgument(f"Several requests wait for this content: {ids}.", hint="Name one of them by its id.")
    if waiting:
        return waiting[0]
    revision = scope.revisions.get(wanted)
    if revision is None:
        raise RequestNotFound(f"Nothing is known of a content {shown(wanted)!r}.", hint=_WAITING)
    return ApprovalRequest(
        digest=wanted, skill=revision.skill, capabilities=tuple(revision.capabilities.get("names", ()))
    )


def waiting_for(scope: TenantScope, name: str) -> ApprovalRequest | None:
    """The one request that waits for a skill of this name, or `name@source`; `InvalidArgument` where several do."""
    waiting = [one for one in scope.approvals.requests("pending") if _is_for(one, name)]
    if len(waiting) > 1:
        ids = ", ".join(
            f"{one.id} ({shown(one.skill)}, {shown(one.environment) or 'any environment'})" for one in waiting
        )
        raise InvalidArgument(
            f"Several requests wait for skills of the name {shown(name)!r}: {ids}.", hint="Name one of them by its id."
        )
    return waiting[0] if waiting else None


def _request_by_name(scope: TenantScope, name: str) -> ApprovalRequest | None:
    """The same for a decision: what was looked at under the name must be what is decided about."""
    found = waiting_for(scope, name)
    if found is None:
        return None
    before = [one for one in scope.approvals.requests() if _is_for(one, name) and one.id != found.id]
    decided = max((one.created_at for one in before if one.status in ("approved", "denied")), default="")
    gone = next((one for one in before if one.status == "superseded" and one.created_at >= decided), None)
    if gone is not None:
        raise InvalidArgument(
            f"The content of {shown(found.skill)!r} changed while {gone.id} waited; {found.id} is about other content.",
            hint=for_people("Look at it with `metier approve show {id}`, and name the request by its id.", id=found.id),
        )
    return found


def _is_for(asked: ApprovalRequest, name: str) -> bool:
    return name in (asked.skill, asked.skill.partition("@")[0])


def _of(about: ApprovalRequest | Approval) -> dict[str, Any]:
    """What both are about."""
    return {name: getattr(about, name) for name in ("digest", "skill", "location", "layer", "environment")}


def _against(scope: TenantScope, person: Person, asked: ApprovalRequest, granted: set[str], now: str) -> str | None:
    """Why nobody can agree to it now, or not this person once more to the same."""
    for one in scope.approvals.of(asked.digest):
        if one.revoked_at or not _meet(one.layer, asked.layer) or not _meet(one.environment, asked.environment):
            continue
        if one.decision == "denied":
            return f"{shown(one.decided_by)!r} said no; `metier approve revoke {one.id}` takes that back."
        is_own = asked.id and one.request == asked.id and one.decided_by == person.name and not is_over(one, now)
        if is_own and granted <= {*one.grants, *one.tools}:
            return f"{shown(person.name)!r} has agreed already; somebody else has to."
    return None


def _meet(one: str, other: str) -> bool:
    """Whether two layers or environments have anything in common, of which "" is any."""
    return not one or not other or one == other


def _granted(asked: ApprovalRequest, grants: Collection[str] | None) -> tuple[str, ...]:
    if grants is None:
        return asked.capabilities
    for what in grants:
        if what not in asked.capabilities:
            listed = ", ".join(asked.capabilities) or "no capability"
            raise InvalidArgument(f"{shown(what)!r} was not asked for.", hint=f"It asks for {listed}.")
    return tuple(what for what in asked.capabilities if what in grants)


def _rules(tools: Sequence[str]) -> tuple[str, ...]:
    rules = parse_rules(tools)
    for rule in rules:
        if rule.is_malformed:
            raise InvalidArgument(f"{shown(rule.text)!r} is no tool rule.", hint="Write it as Read or Bash(git:*).")
    return tuple(rule.text for rule in rules)


def _is_complete(scope: TenantScope, asked: ApprovalRequest, quorum: int, now: str) -> bool:
    """Whether so many agreed to a request that all of it is granted."""
    given = [one for one in scope.approvals.of(asked.digest) if one.request == asked.id]
    found = approval_status(given, layer=asked.layer, environment=asked.environment, quorum=quorum, now=now)
    return found.is_approved and found.grants.issuperset(asked.capabilities)


def _said(reason: str) -> str:
    if len(reason) > _MAX_REASON:
        raise InvalidArgument(f"A reason has at most {_MAX_REASON:,} characters.", hint="Say it in fewer words.")
    return reason.strip()
