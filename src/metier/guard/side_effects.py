"""Side effects of a decision about a skill: a request for an approval, an approval, a quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import MetierError
from metier.guard.audit.governance_events import governance_record
from metier.guard.content_records import keep_revision
from metier.guard.decision import amend
from metier.guard.inspection import PackageSnapshot
from metier.guard.question import TERMINAL
from metier.guard.remedies import approve_request
from metier.skill.script_packages import grant_of, package_names, package_record
from metier.store import ApprovalRequest, Person

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.audit.log import AuditRecord
    from metier.guard.decision import Actor, Decision, Subject
    from metier.guard.decision_context import DecisionContext
    from metier.guard.guard import Guard
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import TenantScope


def apply_side_effects(guard: Guard, context: DecisionContext, first: Decision, decision: Decision) -> Decision:
    """The decision, with the request that it led to; raises where what follows cannot be written down."""
    subject, tenant = context.subject, context.actor.tenant or ""
    if subject is None:
        return decision
    if first.is_automatic:
        if _approve_automatically(context, first.rule):
            return decision
        # Somebody took exactly this content back: then it is for people to say.
        return _waiting(_request(context.governance.scope(context.actor), context, subject), decision, tenant)
    if decision.code == "integrity-failed":
        _quarantine(context, subject, guard.record)
        return decision
    if not first.needs_grant:
        return decision
    scope = context.governance.scope(context.actor)
    request = _request(scope, context, subject)
    if not decision.is_allowed:
        return amend(decision, request=request.id, hint=approve_request(request.id, tenant))
    if decision.answered_by != TERMINAL:
        # The word of a program is for this one time. The request stays, for who wants an approval that lasts.
        return amend(decision, request=request.id)
    from metier.guard.approvals.decisions import grant

    # The question names the list of packages that it shows; one that was resolved since, nobody has seen.
    unseen = {one for one in request.capabilities if one.startswith("packages:")} - {first.check}
    seen = [one for one in request.capabilities if one.partition(":")[0] != "packages"] if unseen else None
    person = person_of(scope, context.actor)
    given = grant(scope, context.effective, person, request.id, grants=seen, reason="Agreed to when asked.")
    # What several people have to agree to is not done by the first of them.
    again = guard.tighten(amend(decision, outcome="allow"), guard.context(context.action, context.actor))
    if not again.is_allowed:
        return amend(again, request=request.id, hint=approve_request(request.id, tenant))
    return amend(decision, check=f"{decision.rule}; approval {given.id}", origin=None)


def _waiting(request: ApprovalRequest, decision: Decision, tenant: str) -> Decision:
    return amend(
        decision,
        outcome="ask",
        reason=f"Skill {request.skill!r} needs an approval of its content: the last one was taken back.",
        code="approval-needed",
        is_automatic=False,
        request=request.id,
        hint=approve_request(request.id, tenant),
    )


_NO_PERSON = "The yes of a program does not settle it: a person has to, at a terminal."


def reason_against_answer(guard: Guard, context: DecisionContext, decision: Decision, source: str) -> str | None:
    """The reason against taking an answer from a source; None where it may settle the decision.

    An approval of content takes somebody whom policy lets give it. A program's yes is none: it is no voice of a quorum,
    and where it is settled who decides, it settles neither an approval, nor trust, nor what an administrator's policy
    asks about.
    """
    if decision.needs_grant and not _may_grant(context):
        return ""
    if source == TERMINAL:
        return None
    if decision.needs_grant and context.effective.approval.quorum > 1:
        return _NO_PERSON
    if not context.governance.names_deciders:
        return None
    is_trust = context.subject is not None and not context.subject.trusted
    is_theirs = decision.needs_grant or is_trust or _asks_as_administrator(guard, context)
    return _NO_PERSON if is_theirs else None


def _asks_as_administrator(guard: Guard, context: DecisionContext) -> bool:
    return any(
        one.outcome == "ask" and one.origin is not None and one.origin.layer == "enterprise"
        for one in guard.consider(context)
    )


def _may_grant(context: DecisionContext) -> bool:
    """Whether policy lets whoever acts approve of a content themselves."""
    from metier.guard.approvals.decisions import reason_against_deciding
    from metier.guard.approvals.requests import requester_name

    try:
        person = person_of(context.governance.scope(context.actor), context.actor)
    except MetierError:
        return False
    if not person.name:
        return False
    request = ApprovalRequest(digest="", skill="", requested_by=requester_name(context.actor))
    return reason_against_deciding(context.effective, person, request) is None


def person_of(scope: TenantScope, actor: Actor) -> Person:
    """The acting person as the store knows them: while it knows nobody, it belongs to its owner."""
    from metier.guard.approvals.people import known_person

    name = actor.user or ""
    return known_person(scope, name) or Person(name=name)


def _request(scope: TenantScope, context: DecisionContext, subject: Subject) -> ApprovalRequest:
    """Ask for an approval, with all that whoever decides has to see; approvals of other content have fallen."""
    from metier.guard.approvals.requests import expire_requests, lapse_earlier_approvals, request_approval

    found, packages = context.capabilities, package_record(subject.digest).packages
    reason = _REASONS.get(context.trigger, "Somebody wanted to use it.")
    with scope.transaction():
        # A request that waited too long is not the same once more.
        expire_requests(scope, context.effective, actor=context.actor)
        _keep_content(scope, context)
        lapse_earlier_approvals(scope, subject.ref, subject.digest, location=subject.location, actor=context.actor)
        return request_approval(
            scope,
            subject,
            capabilities=(*found.names, *filter(None, [grant_of(packages)])),
            new=context.new,
            scripts=found.scripts,
            actor=context.actor,
            environment=context.environment,
            reason=f"{reason} Its packages are {', '.join(package_names(packages))}." if packages else reason,
        )


_REASONS = {
    "model": "A model wanted to use it.",
    "user": "A person wanted to use it.",
    "host": "The program that runs the agent wanted to use it.",
    "nested": "Another skill wanted to use it.",
}
"""The reason of a request, by the cause of the action that needs the approval."""


def _keep_content(scope: TenantScope, context: DecisionContext) -> None:
    """Keep what a skill consists of, so that whoever decides sees it, whatever becomes of the files."""
    subject = context.subject
    if subject is None or subject.entry is None or scope.revisions.has(subject.digest):
        return
    snapshot = PackageSnapshot(subject.entry.package, subject.digest)
    keep_revision(
        scope,
        subject.ref,
        subject.digest,
        snapshot.files,
        skill=subject.entry.skill,
        capabilities=context.capabilities,
        is_whole=not snapshot.too_large,
    )


def _approve_automatically(context: DecisionContext, rule: str) -> bool:
    from metier.guard.approvals.decisions import approve_automatically
    from metier.guard.approvals.requests import lapse_earlier_approvals

    subject = context.subject
    assert subject is not None
    scope = context.governance.scope(context.actor)
    with scope.transaction():
        _keep_content(scope, context)
        lapse_earlier_approvals(scope, subject.ref, subject.digest, location=subject.location, actor=context.actor)
        given = approve_automatically(
            scope,
            context.effective,
            subject,
            capabilities=context.capabilities.names,
            rule=rule,
            actor=context.actor,
            environment=context.environment,
        )
    return given is not None


def _quarantine(context: DecisionContext, subject: Subject, keep: Callable[[AuditRecord], None]) -> None:
    """Put content that is not the recorded one in quarantine, once."""
    install = context.install
    if install is None or install.state == "quarantined" or context.is_as_recorded:
        return  # what only differs from a lock file may be right in another place
    from metier.guard.approvals.quarantine import quarantine_changed

    scope = context.governance.scope(context.actor)
    with scope.transaction():
        scope.installs.put(replace(install, state="quarantined"))
        quarantine_changed(scope, context.actor, subject.digest)
    keep(
        governance_record(
            "integrity.failed",
            actor=context.actor,
            skill=subject.name,
            source=subject.source,
            digest=install.digest,
            new_digest=subject.digest,
            layer=subject.layer,
            reason=f"The content at {context.location} is not what was recorded.",
        )
    )


def note_policy(
    scope: TenantScope, effective: EffectivePolicy, actor: Actor, keep: Callable[[AuditRecord], None]
) -> None:
    """Keep every policy file under the digest that records name, and record that once."""
    is_new = False
    for file in effective.files:
        is_new |= scope.policies.keep(effective.digest, file.layer, file.path, file.text)
    if is_new:
        listed = ", ".join(f"{file.path} ({file.layer})" for file in effective.files)
        problems = tuple(str(problem) for problem in effective.errors)
        kind = "policy.problem" if problems else "policy.loaded"
        reason = f"What holds: {listed}."
        keep(governance_record(kind, actor=actor, reason=reason, policy=effective.digest, notes=problems[:20]))
