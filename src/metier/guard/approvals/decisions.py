"""Decisions about approvals: grant, deny, revoke, approve automatically, each in one transaction with its record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from metier.errors import IntegrityFailed, InvalidArgument, NotPermitted, RequestNotFound
from metier.guard.approvals.requests import MAX_REASON, find_request, is_requester, record_fields
from metier.guard.approvals.roles import has_role, is_approver, recording_refusals
from metier.guard.approvals.status import approval_status, expiry, is_expired, timestamp
from metier.guard.audit.governance_events import actor_of, event_record
from metier.guard.signers import is_signer
from metier.hints import for_people
from metier.scan.finding import SEVERITIES
from metier.skill import shown
from metier.skill.tool_rules import parse_rules
from metier.store import Approval, ApprovalRequest
from metier.store.rows import new_id

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from metier.guard.approvals.status import Clock
    from metier.guard.decision import Actor, Subject
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Person, TenantScope

_LIST_ALL = for_people("`metier approve list --all` shows what was decided.")
_SEVERITIES = ("none", *SEVERITIES)


def reason_against_deciding(effective: EffectivePolicy, person: Person, request: ApprovalRequest) -> str | None:
    """The reason why a person may not approve a request; None if they may."""
    terms = effective.approval
    if effective.errors and effective.on_error != "allow":
        return f"A policy file cannot be used, so nobody knows who decides. {effective.errors[0]}"
    if not is_approver(person, terms.approvers):
        return _format_not_approver(effective, person)
    if not terms.self_approval and is_requester(person, request):
        return f"{shown(person.name)!r} asked for it, and policy lets nobody decide about their own request."
    return None


def _format_not_approver(effective: EffectivePolicy, person: Person) -> str:
    approvers = shown(", ".join(effective.approval.approvers), 500) or "nobody"
    return f"{shown(person.name)!r} is not among those who decide about approvals: {approvers}."


def people_who_agreed(scope: TenantScope, request: ApprovalRequest, quorum: int, now: str) -> list[str]:
    """The people who approved a request so far."""
    given = [one for one in scope.approvals.of(request.digest) if one.request == request.id]
    status = approval_status(given, layer=request.layer, environment=request.environment, quorum=quorum, now=now)
    return sorted(status.approvers)


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
    """Approve a request by its id, a known content by its digest, or content without a request.

    Without `grants`, everything that was requested; with less, the request stays pending for the rest. The approval
    lasts for `expires` seconds, and never longer than policy says. Where policy wants a quorum, the request is pending
    until it is reached. `NotPermitted` for a person who may not is recorded.
    """
    now = clock()
    rules = _checked_tool_rules(tools)
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        request = wanted if isinstance(wanted, ApprovalRequest) else find_request(scope, wanted)
        granted = _checked_grants(request, grants)
        why = reason_against_deciding(effective, person, request)
        why = why or _reason_against_granting(scope, person, request, {*granted, *rules}, timestamp(now))
        if why is not None:
            raise _refusal(why, request)
        ends = expiry(now, expires, effective.approval.expires)
        more = {"grants": granted, "tools": rules, "expires_at": ends}
        approval = _new_approval(effective, person, request, reason, now, **more)
        notes = tuple(f"grants {what}" for what in (*approval.grants, *approval.tools))
        notes += (f"until {approval.expires_at}",) if approval.expires_at else ()
        added = scope.approvals.add(approval, _record(scope, "approval.granted", person, approval, notes=notes))
        require_intact_audit_log(scope, "Nothing can be approved")
        if request.id and _is_complete(scope, request, effective.approval.quorum, added.decided_at):
            scope.approvals.set_request(request.id, "approved", expected="pending")
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
    """Deny a request, or a known content: a denial outweighs every approval until it is revoked."""
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        request = find_request(scope, wanted)
        # The requester may deny too: that is to withdraw.
        if not is_approver(person, effective.approval.approvers):
            raise _refusal(_format_not_approver(effective, person), request)
        denial = _new_approval(effective, person, request, reason, clock(), decision="denied")
        added = scope.approvals.add(denial, _record(scope, "approval.denied", person, denial))
        if request.id:
            scope.approvals.set_request(request.id, "denied", expected="pending")
        return added


def _new_approval(
    effective: EffectivePolicy, person: Person, request: ApprovalRequest, reason: str, now: float, **more: Any
) -> Approval:
    return Approval(
        id=new_id("a"),
        request=request.id,
        **_content_fields(request),
        decided_by=person.name,
        reason=_checked_reason(reason),
        policy=effective.digest,
        decided_at=timestamp(now),
        **more,
    )


def revoke(scope: TenantScope, effective: EffectivePolicy, person: Person, approval: str, *, reason: str) -> Approval:
    """Revoke an approval from the next decision on; to revoke a denial, a person must be allowed to approve.

    Reviewers may revoke any approval, and everybody their own.
    """
    with recording_refusals(scope, person, "approval", policy=effective.digest):
        found = scope.approvals.get(approval)
        if found is None:
            raise RequestNotFound(f"There is no approval {shown(approval)!r}.", hint=_LIST_ALL)
        request = scope.approvals.get_request(found.request) or ApprovalRequest(**_content_fields(found))
        if found.decision == "denied" or not _may_revoke(person, found):
            why = reason_against_deciding(effective, person, request)
            if why is not None:
                raise _refusal(why, request)
        reason = _checked_reason(reason)
        record = _record(scope, "approval.revoked", person, found, reason=reason, policy=effective.digest)
        if not scope.approvals.revoke(found.id, person.name, reason, record):
            raise RequestNotFound(f"{found.id} was taken back already.", hint=_LIST_ALL)
        return scope.approvals.get(found.id) or found


def _may_revoke(person: Person, approval: Approval) -> bool:
    return person.name == approval.decided_by or (person.kind != "agent" and has_role(person, "reviewer"))


def _refusal(why: str, request: ApprovalRequest) -> NotPermitted:
    return NotPermitted(
        why,
        hint=for_people("`metier policy show` says who decides, and `metier user list` who is who."),
        request=request.id,
        about=record_fields(request),
    )


def _record(scope: TenantScope, type: str, person: Person, approval: Approval, **more: Any) -> dict[str, Any]:  # noqa: A002
    fields = {**record_fields(approval), "reason": approval.reason, "policy": approval.policy, **more}
    return event_record(scope, type, actor_of(person, scope), **fields)


def require_intact_audit_log(scope: TenantScope, what: str) -> None:
    """Raise `IntegrityFailed` where no new record could count, because those before it are not as written.

    `what` says what cannot be done for that.
    """
    fault = scope.recorded_decisions().fault
    if fault:
        raise IntegrityFailed(
            f"{what}: from record {fault:,} on, the audit log is not as it was written.",
            hint=for_people(
                "`metier audit verify` says what is wrong; `metier store restore FILE --force` brings a backup back."
            ),
            seq=fault,
        )


def _content_fields(about: ApprovalRequest | Approval) -> dict[str, Any]:
    """The fields that requests and approvals share."""
    return {name: getattr(about, name) for name in ("digest", "skill", "location", "layer", "environment")}


def _reason_against_granting(
    scope: TenantScope, person: Person, request: ApprovalRequest, granted: set[str], now: str
) -> str | None:
    """The reason why nobody can approve it now, or not this person once more the same."""
    for one in scope.approvals.of(request.digest):
        is_elsewhere = not (_overlap(one.layer, request.layer) and _overlap(one.environment, request.environment))
        if one.revoked_at or is_elsewhere:
            continue
        if one.decision == "denied":
            return f"{shown(one.decided_by)!r} said no; `metier approve revoke {one.id}` takes that back."
        is_own = request.id and one.request == request.id and one.decided_by == person.name
        if is_own and not is_expired(one, now) and granted <= {*one.grants, *one.tools}:
            return f"{shown(person.name)!r} has agreed already; somebody else has to."
    return None


def _overlap(one: str, other: str) -> bool:
    """Whether two layers or environments have anything in common; "" is any."""
    return not one or not other or one == other


def _checked_grants(request: ApprovalRequest, grants: Collection[str] | None) -> tuple[str, ...]:
    if grants is None:
        return request.capabilities
    for what in grants:
        if what not in request.capabilities:
            listed = ", ".join(request.capabilities) or "no capability"
            raise InvalidArgument(f"{shown(what)!r} was not asked for.", hint=f"It asks for {listed}.")
    # The packages that were resolved for a content, `packages:...`, are granted with the capability.
    return tuple(what for what in request.capabilities if what in grants or what.partition(":")[0] in grants)


def _checked_tool_rules(tools: Sequence[str]) -> tuple[str, ...]:
    rules = parse_rules(tools)
    for rule in rules:
        if rule.is_malformed:
            raise InvalidArgument(f"{shown(rule.text)!r} is no tool rule.", hint="Write it as Read or Bash(git:*).")
    return tuple(rule.text for rule in rules)


def _checked_reason(reason: str) -> str:
    if len(reason) > MAX_REASON:
        raise InvalidArgument(f"A reason has at most {MAX_REASON:,} characters.", hint="Say it in fewer words.")
    return reason.strip()


def _is_complete(scope: TenantScope, request: ApprovalRequest, quorum: int, now: str) -> bool:
    """Whether a quorum granted everything that a request asks for."""
    approvals = [one for one in scope.approvals.of(request.digest) if one.request == request.id]
    layer, environment = request.layer, request.environment
    status = approval_status(approvals, layer=layer, environment=environment, quorum=quorum, now=now)
    return status.is_approved and status.grants.issuperset(request.capabilities)


def automatic_approval(
    effective: EffectivePolicy, *, new: Collection[str] | None, scan_max: str, scan_status: str, signer: str
) -> str | None:
    """The `auto-approve-when` of policy, if content meets its conditions; None where one fails or is unknown.

    `new` are the capabilities that the last approved content did not have, None where that is unknown. `scan_max` is
    the worst severity that scanners found, `scan_status` tells whether they finished, `signer` is "" for unsigned.
    """
    auto = effective.approval.auto
    if auto is None or scan_status == "error":
        return None
    met: list[str] = []
    if auto.signer:
        if not is_signer(signer, auto.signer):
            return None
        met.append(f"signer {shown(signer)}")
    if auto.scan_max:
        is_known = scan_status == "ok" and auto.scan_max in _SEVERITIES and scan_max in _SEVERITIES
        if not is_known or _SEVERITIES.index(scan_max) > _SEVERITIES.index(auto.scan_max):
            return None
        met.append(f"scan-max {auto.scan_max}")
    if auto.no_new_capabilities:
        if new is None or new:
            return None
        met.append("no-new-capabilities")
    # A rule without a condition would approve of everything, which nobody can have meant.
    origin = f" ({auto.origin})" if auto.origin is not None else ""
    return f"auto-approve-when: {', '.join(met)}{origin}" if met else None


def approve_automatically(
    scope: TenantScope,
    effective: EffectivePolicy,
    subject: Subject,
    *,
    capabilities: Collection[str],
    rule: str,
    actor: Actor,
    environment: str = "",
    clock: Clock = time.time,
) -> Approval | None:
    """Add the approval that a rule of policy gives to a content, once; it counts like a quorum of people.

    None where a person decided otherwise: policy does not approve again what a person denied or revoked.
    """
    now = clock()
    wanted = Approval(
        id=new_id("a"),
        digest=subject.digest,
        skill=subject.ref,
        location=subject.location,
        layer=subject.layer,
        environment=environment,
        grants=tuple(sorted(capabilities)),
        decided_by="policy",
        policy=effective.digest,
        rule=rule,
        decided_at=timestamp(now),
        expires_at=expiry(now, effective.approval.expires),
    )
    with scope.transaction():
        for one in scope.approvals.of(subject.digest):
            if one.layer not in ("", subject.layer) or one.environment not in ("", environment):
                continue
            if one.revoked_at or one.decision == "denied":
                return None
            if not is_expired(one, wanted.decided_at) and _grants_same(one, wanted):
                return one
        why = {"rule": rule, "policy": wanted.policy, "reason": "Policy approves of it."}
        record = event_record(scope, "approval.automatic", actor, **record_fields(wanted), **why)
        return scope.approvals.add(wanted, record)


def _grants_same(one: Approval, other: Approval) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("rule", "layer", "environment", "grants"))
