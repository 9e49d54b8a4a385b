"""Deciding about proposals: a person with the role for it, and never whoever made the proposal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument, NotPermitted, ProposalNotFound, ProposalStale, SkillChanged
from metier.guard import Action, Guard
from metier.guard.approvals.roles import has_role
from metier.guard.audit.governance_events import actor_of, record_event, record_refusal
from metier.hints import for_people
from metier.hub.apply import approve_content, expire_others, put_in_place
from metier.hub.authorisation import rule_for_agent
from metier.hub.folder_replacement import digest_at
from metier.hub.review_base import review_base_of
from metier.hub.scan_findings import against
from metier.hub.skill_location import location_at, location_in, subject_in
from metier.skill import shown
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard import Actor, Subject
    from metier.guard.governance import Governance
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.skill_location import SkillLocation
    from metier.library import SkillLookup
    from metier.skill.package import Files
    from metier.store import Person, Proposal, TenantScope

MAX_COMMENT = 4_000
_LIST = for_people("`metier propose list` shows what waits.")
_BRINGS: tuple[Literal["install", "apply"], ...] = ("install", "apply")
"""The actions by which an agent brings a new skill into use by itself."""


class Destination(Protocol):
    """The place that a proposal changes: a folder of skills, or the registry of a server."""

    def digest(self) -> str | None:
        """The digest of the content that is there now; None where there is none."""

    def put(self, files: Files, comment: str, also: Callable[[str, str], None]) -> None:
        """Put files there; in the same transaction, `also` is given their digest, and a note about the version."""


def find_proposal(scope: TenantScope, id: str) -> Proposal:  # noqa: A002
    """The proposal of an id; raises `ProposalNotFound`."""
    found = scope.proposals.get(id) if isinstance(id, str) else None
    if found is None:
        raise ProposalNotFound(f"There is no proposal {shown(str(id))!r}.", hint=_LIST, id=str(id))
    return found


def approve(
    scope: TenantScope,
    person: Person,
    id: str,  # noqa: A002
    *,
    comment: str = "",
    apply: bool = True,
    environment: str = "",
    library: SkillLookup | None = None,
    guard: Guard | None = None,
    destination: Destination | None = None,
) -> Proposal:
    """Agree to a proposal, and apply it at once unless told otherwise; a second time applies one that waits for that.

    It is put into `destination`, by default the folder that it is for. It is an approval of the content too, on the
    terms of policy. Raises `NotPermitted` for who may not decide, which
    is recorded, and `ProposalStale` when the skill is not what it was when the proposal was made.
    """
    proposal, comment = find_proposal(scope, id), _checked_comment(comment)
    actor, home = actor_of(person, scope, environment), location_in(library, proposal.location, proposal.skill)
    guard = guard or Guard()
    effective = guard.governance.effective
    files = scope.revisions.files(proposal.proposed_digest)
    subject = subject_in(home, files, proposal.proposed_digest)
    why = may_review(scope, guard.governance, person, proposal, subject, environment=environment)
    if why is None and not effective.approval.self_approval and is_own(person, proposal):
        why = f"{shown(person.name)!r} had an agent make it, and policy lets nobody decide about their own request."
    if why is not None:
        _refuse(scope, "proposal.approved", person, proposal, why)
    _require(proposal, "open", "approved")
    is_agent = person.kind == "agent"
    basis = review_base_of(scope, proposal.skill, proposal.location, proposal.base_digest, proposal.proposed_digest)
    action = Action(
        point="apply",
        skill=subject,
        by="model" if is_agent else "user",
        path=home.location,
        replaces=basis.digest,
    )
    decision = guard.decide(action, actor)
    if is_agent and decision.is_allowed:
        decision = against(guard.context(action, actor).report) or decision
    if decision.outcome == "deny" or (is_agent and not decision.is_allowed):
        # Where policy says to ask, a person who agrees was asked; an agent is nobody to ask.
        told = {"decision": decision.outcome, "rule": decision.rule, "policy": effective.digest}
        said = {**_ids(proposal), "reason": decision.reason, **told}
        record_refusal(scope, "proposal.approved", actor, proposal.skill, **said)
        raise decision.as_error()
    if not apply:
        _moved(scope, proposal, "approved", person, comment, actor=actor)
    else:
        where = destination or _Folder(scope=scope, effective=effective, home=home, proposal=proposal, by=person)
        _apply(scope, effective, person, proposal, home, files, comment, where, actor=actor)
        if library is not None:
            library.refresh()
    return find_proposal(scope, id)


def apply_by_rule(
    scope: TenantScope, guard: Guard, proposal: Proposal, author: Person, actor: Actor
) -> Proposal | None:
    """Apply a new skill that an agent made, where policy lets that agent make skills by itself; None where not.

    Whatever else is against the skill outweighs the rule that lets it; then the proposal waits for a person.
    """
    if proposal.kind != "new" or author.kind != "agent":
        return None
    files, home = scope.revisions.files(proposal.proposed_digest), location_at(proposal.location, proposal.skill)
    subject = subject_in(home, files, proposal.proposed_digest)
    effective = guard.governance.effective
    rule = rule_for_agent(guard.governance, "install", subject, actor)
    if rule is None:
        return None
    for point in _BRINGS:
        action = Action(point=point, skill=subject, by="model", path=home.location)
        decision = guard.decide(action, actor)
        if decision.is_allowed:
            # Nobody looks at it before it is used, so that findings make it wait for somebody who does.
            decision = against(guard.context(action, actor).report) or decision
        if not decision.is_allowed:
            told = {"reason": decision.reason, "decision": decision.outcome, "rule": decision.rule}
            record_refusal(scope, "proposal.approved", actor, proposal.skill, **_ids(proposal), **told)
            return None
    said = f"Policy lets {shown(author.name)!r} make skills by itself: rule {rule.id} ({rule.origin})."
    policy = replace(author, name="policy")
    where = _Folder(scope=scope, effective=effective, home=home, proposal=proposal, by=policy)
    _apply(scope, effective, policy, proposal, home, files, said, where, actor=actor, approves=False)
    return find_proposal(scope, proposal.id)


def reject(
    scope: TenantScope,
    person: Person,
    id: str,  # noqa: A002
    *,
    comment: str,
    guard: Guard | None = None,
) -> Proposal:
    """Decide against a proposal; nothing changes but its state."""
    proposal, comment = find_proposal(scope, id), _checked_comment(comment)
    guard = guard or Guard()
    files = scope.revisions.files(proposal.proposed_digest)
    why = may_review(
        scope,
        guard.governance,
        person,
        proposal,
        subject_in(location_at(proposal.location, proposal.skill), files, proposal.proposed_digest),
    )
    if why is not None:
        _refuse(scope, "proposal.rejected", person, proposal, why)
    _require(proposal, "open", "approved")
    _moved(scope, proposal, "rejected", person, comment)
    return find_proposal(scope, id)


def withdraw(scope: TenantScope, person: Person, id: str, *, comment: str = "") -> Proposal:  # noqa: A002
    """Take back a proposal of one's own, or of an agent that made it on one's behalf."""
    proposal, comment = find_proposal(scope, id), _checked_comment(comment)
    if not is_own(person, proposal):
        whose = f"{proposal.author_kind} {shown(proposal.author)!r}"
        why = f"Only whoever made a proposal withdraws it, which is {whose}."
        hint = for_people(
            "A reviewer can decide against it: `metier propose reject {id} --reason TEXT`.", id=proposal.id
        )
        _refuse(scope, "proposal.withdrawn", person, proposal, why, hint)
    _require(proposal, "open", "approved")
    _moved(scope, proposal, "withdrawn", person, comment)
    return find_proposal(scope, id)


def recommend(
    scope: TenantScope,
    person: Person,
    id: str,  # noqa: A002
    verdict: Literal["approve", "reject"],
    *,
    reason: str,
) -> Proposal:
    """Say what one thinks of a proposal, for whoever decides: agents may, and it decides nothing."""
    proposal, reason = find_proposal(scope, id), _checked_comment(reason)
    if verdict not in ("approve", "reject"):
        raise InvalidArgument(f"{shown(str(verdict))!r} is no recommendation.", hint="Recommend approve or reject.")
    if not reason:
        raise InvalidArgument("There is no reason.", hint="Say why, with file and line.")
    if is_author(person, proposal):
        _refuse(scope, "proposal.recommended", person, proposal, "Nobody recommends what they made themselves.")
    _require(proposal, "open")
    told = {"by": person.name, "kind": person.kind, "verdict": verdict, "reason": reason, "at": now()}
    with scope.transaction():
        if not scope.proposals.recommend(id, told):
            raise _decided(find_proposal(scope, id))
        notes = (f"recommends to {verdict}",)
        record = {**_ids(proposal), "reason": reason, "notes": notes}
        record_event(scope, "proposal.recommended", actor_of(person, scope), proposal.skill, **record)
    return find_proposal(scope, id)


def may_review(
    scope: TenantScope,
    governance: Governance,
    person: Person,
    proposal: Proposal,
    subject: Subject,
    *,
    environment: str = "",
) -> str | None:
    """The reason why a person may not decide about a proposal; None if they may."""
    who = repr(shown(person.name))
    if is_author(person, proposal):
        return f"{who} made this proposal, and nobody decides about their own."
    if person.kind == "agent":
        if rule_for_agent(governance, "apply", subject, actor_of(person, scope, environment)) is None:
            return f"{who} is an agent, and no policy lets it decide; it may recommend."
    elif not has_role(person, "reviewer"):
        return f"{who} may not decide about proposals: that takes the role reviewer."
    return None


def is_author(person: Person, proposal: Proposal) -> bool:
    """Whether somebody made a proposal; names that differ in case alone may be the same account."""
    kind = "agent" if person.kind == "agent" else "user"
    return (kind, person.name.casefold()) == (proposal.author_kind, proposal.author.casefold())


def is_own(person: Person, proposal: Proposal) -> bool:
    """Whether somebody made a proposal, or an agent did that worked for them."""
    is_user = person.kind != "agent" and bool(proposal.on_behalf_of)
    return is_author(person, proposal) or (is_user and person.name.casefold() == proposal.on_behalf_of.casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The folder of a skill."""

    scope: TenantScope
    effective: EffectivePolicy
    home: SkillLocation
    proposal: Proposal
    by: Person

    def digest(self) -> str | None:
        return digest_at(self.home.folder)

    def put(self, files: Files, comment: str, also: Callable[[str, str], None]) -> None:
        put_in_place(
            self.scope,
            self.effective,
            self.home,
            files,
            over=self.proposal.base_digest or None,
            by=self.by,
            reason=self.proposal.justification,
            proposal=self.proposal.id,
            also=lambda version: also(version.digest, f"version {version.number}"),
        )


def _apply(
    scope: TenantScope,
    effective: EffectivePolicy,
    person: Person,
    proposal: Proposal,
    home: SkillLocation,
    files: Files,
    comment: str,
    destination: Destination,
    *,
    actor: Actor,
    approves: bool = True,
) -> None:
    there = destination.digest()
    if there not in (proposal.base_digest or None, proposal.proposed_digest):
        raise _gone_stale(scope, proposal, there, actor)

    def also(digest: str, note: str) -> None:
        if proposal.status == "open":
            said = {**_ids(proposal), "reason": comment or proposal.justification, "policy": effective.digest}
            record_event(scope, "proposal.approved", actor, proposal.skill, **said)
        _moved(scope, proposal, "applied", person, comment, actor=actor, digest=digest, note=note)
        if approves:
            where, because = actor.environment or "", f"Proposal {proposal.id}."
            approve_content(scope, effective, person, home, digest, because, environment=where)
        expire_others(scope, home.location, digest, actor)

    try:
        destination.put(files, comment, also)
    except SkillChanged:
        raise _gone_stale(scope, proposal, destination.digest(), actor) from None


def _moved(
    scope: TenantScope,
    proposal: Proposal,
    to: Literal["approved", "rejected", "withdrawn", "applied"],
    person: Person,
    comment: str,
    *,
    actor: Actor | None = None,
    digest: str = "",
    note: str = "",
) -> None:
    """Move a proposal on, and record it; raises `ProposalStale` where somebody else was faster.

    `digest` is the content that it was applied as.
    """
    with scope.transaction():
        if not scope.proposals.move(
            proposal.id,
            expected=proposal.status,
            to=to,
            reviewer=person.name,
            comment=comment,
            applied_digest=digest,
        ):
            raise _decided(find_proposal(scope, proposal.id))
        record = {**_ids(proposal), "reason": comment or proposal.justification, "notes": (note,) if note else ()}
        record_event(scope, f"proposal.{to}", actor or actor_of(person, scope), proposal.skill, **record)


def _gone_stale(scope: TenantScope, proposal: Proposal, there: str | None, actor: Actor) -> ProposalStale:
    with scope.transaction():
        if scope.proposals.move(proposal.id, expected=proposal.status, to="stale"):
            reason = "What it would change has changed since it was made."
            record = {**_ids(proposal), "new_digest": there or "", "reason": reason}
            record_event(scope, "proposal.stale", actor, proposal.skill, **record)
    return ProposalStale(
        f"{shown(proposal.skill)!r} has changed since proposal {proposal.id} was made, so it was not applied.",
        hint="Make it again, of what the skill says now.",
        id=proposal.id,
        expected=proposal.base_digest,
        found=there,
    )


def _require(proposal: Proposal, *statuses: str) -> None:
    if proposal.status not in statuses:
        raise _decided(proposal)


def _decided(proposal: Proposal) -> ProposalStale:
    by = f" by {shown(proposal.reviewer)!r}" if proposal.reviewer else ""
    return ProposalStale(
        f"Proposal {proposal.id} waits for nobody any more: it is {proposal.status}{by}.", hint=_LIST, id=proposal.id
    )


def _refuse(
    scope: TenantScope,
    type: str,  # noqa: A002
    person: Person,
    proposal: Proposal,
    why: str,
    hint: str = "",
) -> NoReturn:
    """Record that somebody tried what they may not do, and say so."""
    record = {**_ids(proposal), "reason": why, "decision": "deny", "code": NotPermitted.code}
    record_refusal(scope, type, actor_of(person, scope), proposal.skill, **record)
    raise NotPermitted(why, hint=hint or _who_else(scope, proposal), id=proposal.id)


def _who_else(scope: TenantScope, proposal: Proposal) -> str:
    """The hint on who decides instead: where nobody else is known, an owner can answer for a change by hand."""
    if scope.people.all():
        return for_people("Ask somebody else with the role reviewer; `metier user list` shows who has it.")
    nobody = "Nobody else is known here: `metier user add NAME --role reviewer` adds somebody."
    if proposal.base_digest != proposal.proposed_digest:
        return for_people(nobody)
    return for_people(
        nobody + " `metier deploy {folder} --to {place}` puts what is there on record in your own name.",
        folder=shown(proposal.location, 300),
        place=shown(os.path.dirname(proposal.location), 300),
    )


def _ids(proposal: Proposal) -> dict[str, str]:
    return {
        "proposal": proposal.id,
        "digest": proposal.base_digest,
        "new_digest": proposal.proposed_digest,
        "path": proposal.location,
    }


def _checked_comment(comment: str) -> str:
    if len(comment) > MAX_COMMENT:
        raise InvalidArgument(f"A comment has at most {MAX_COMMENT:,} characters.", hint="Say it in fewer words.")
    return comment.strip()
