"""Proposals: a change to a skill, or a new one, that is parked until somebody decides about it.

Nothing of the skill is touched. What is shown is the difference between two contents that are both kept whole, so what
a reviewer reads is what is applied, whatever the author wrote.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import InvalidArgument, ProposalInvalid, SkillExists
from metier.guard import Action, Guard
from metier.guard.audit.governance_events import actor_of, record_event
from metier.guard.notify import notifying
from metier.hints import for_people
from metier.hub.diff import difference
from metier.hub.diff_apply import apply_diff
from metier.hub.folder_replacement import digest_at
from metier.hub.proposal_page import page, page_of, reserved_page
from metier.hub.review import apply_by_rule
from metier.hub.review_base import is_changed_by_hand, review_base_of
from metier.hub.skill_files import capabilities_of, keep_files, require_skill, require_sound
from metier.hub.skill_location import location_of, new_location, subject_in
from metier.library.places import personal_folders
from metier.scan.capabilities import new_in
from metier.skill import MemoryPackage, is_valid_name, shown
from metier.skill.package import digest_of_files, files_of
from metier.store import Proposal

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from metier.guard import Actor
    from metier.hub.skill_location import SkillLocation
    from metier.library import Entry, SkillLookup
    from metier.skill import MemoryFile
    from metier.skill.package import Files
    from metier.store import Person, TenantScope


MAX_TEXT = 20_000
"""Characters of a justification, or of one piece of evidence."""
MAX_EVIDENCE = 50


def amend(scope: TenantScope, waits: Proposal, justification: str, evidence: Sequence[str], actor: Actor) -> Proposal:
    """A proposal that waits with what its author says now, in the transaction that is under way.

    Whoever decides sees all of it. What was said before changes nothing.
    """
    said = waits.justification
    if justification not in said:
        said = f"{said}\n\nAdded {datetime.now(UTC):%Y-%m-%d %H:%M} UTC:\n{justification}"
    shows = list(dict.fromkeys([*waits.evidence, *evidence]))
    if said == waits.justification and len(shows) == len(waits.evidence):
        return waits
    if len(said) > MAX_TEXT or len(shows) > MAX_EVIDENCE:
        raise ProposalInvalid(
            f"Proposal {waits.id} is for this very change already, and says enough.",
            hint=for_people(
                "Wait until somebody has decided, or take it back first: `metier propose withdraw {id}`.",
                model="Wait until somebody has decided.",
                id=waits.id,
            ),
        )
    found = replace(waits, justification=said, evidence=shows)
    scope.proposals.amend(waits.id, justification=said, evidence=shows)
    basis = review_base_of(scope, waits.skill, waits.location, waits.base_digest, waits.proposed_digest)
    path = page_of(scope, waits)
    # Another server of the same store may have made it, in a folder of its own.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(page(found, basis), encoding="utf-8")
    ids = {"proposal": waits.id, "digest": waits.base_digest, "new_digest": waits.proposed_digest}
    record_event(scope, "proposal.amended", actor, waits.skill, **ids, path=waits.location, reason=justification)
    return found


MAX_DIFFERENCE = 4 * 1024 * 1024
"""Characters of a difference, beyond which nobody reads it."""
MAX_OPEN = 100
"""Proposals of one author that may wait at the same time."""


def propose_update(
    library: SkillLookup,
    scope: TenantScope,
    skill: str | Entry,
    change: str | Files | None,
    justification: str,
    evidence: Sequence[str] = (),
    *,
    author: Person,
    actor: Actor | None = None,
    guard: Guard | None = None,
) -> Proposal:
    """Propose to change a skill, by a unified diff, by all the files that it would have, or as it is by now.

    What somebody changed by hand is proposed as it is, where other content was accepted; the diff is against that.

    Raises `SkillNotFound` for an unknown skill, and `ProposalInvalid` for a diff that does not apply or a change that
    would leave no skill; then nothing is kept. `actor` is what the audit log says of the author, if it knows more.
    """
    entry = library.get(skill) if isinstance(skill, str) else skill
    home = location_of(entry)
    before = files_of(entry.package)
    if change is None:
        after: Files = before
    elif isinstance(change, str):
        after = apply_diff(before, change)
    else:
        after = dict(change)
        require_sound(after)
    digest = digest_of_files(after)
    if digest == digest_of_files(before) and not is_changed_by_hand(scope, home, digest):
        raise ProposalInvalid("It changes nothing.", hint="Propose what is to be different.")
    require_skill(after, entry.name)
    who = actor or actor_of(author, scope, library.caller.environment or "")
    guard = guard or Guard()
    with notifying(guard.governance.effective):
        return park(scope, home, before, after, justification, evidence, author, who, guard)


def propose_new(
    scope: TenantScope,
    name: str,
    files: Files | Mapping[str, MemoryFile | bytes | str],
    justification: str,
    evidence: Sequence[str] = (),
    *,
    author: Person,
    into: str | os.PathLike[str] | None = None,
    actor: Actor | None = None,
    guard: Guard | None = None,
) -> Proposal:
    """Propose a new skill for a folder of skills, by default the user's own; it must be one that could be deployed.

    Where a rule of policy lets an agent make skills by itself, what that agent proposes is applied at once.
    """
    if not isinstance(name, str) or not is_valid_name(name):
        raise InvalidArgument(
            f"{shown(str(name))!r} is not a valid skill name.", hint="Use a-z, 0-9 and single hyphens, at most 64."
        )
    if into is None:
        folders = personal_folders()
        if not folders:
            raise InvalidArgument("There is no home folder to propose it for.", hint="Name a folder with `into`.")
        into = folders[0]
    home = new_location(into, name)
    after = _as_files(files)
    require_sound(after)
    require_skill(after, name, deployable=True)
    if digest_at(home.folder) is not None:
        raise SkillExists(
            f"{home.location} exists already.", hint=f"Propose a change of {name!r}, or another name.", name=name
        )
    guard, actor = guard or Guard(), actor or actor_of(author, scope)
    with notifying(guard.governance.effective):  # nobody is told of a proposal that a rule applies at once
        proposal = park(scope, home, {}, after, justification, evidence, author, actor, guard)
        return apply_by_rule(scope, guard, proposal, author, actor) or proposal


def _as_files(files: Files | Mapping[str, MemoryFile | bytes | str]) -> Files:
    """Files with their modes, also where only texts were given."""
    if all(isinstance(one, tuple) and one[:1] in (("file",), ("exec",), ("link",)) for one in files.values()):
        return dict(files)  # type: ignore[arg-type]
    return files_of(MemoryPackage(files))  # type: ignore[arg-type]


def park(
    scope: TenantScope,
    home: SkillLocation,
    before: Files,
    after: Files,
    justification: str,
    evidence: Sequence[str],
    author: Person,
    actor: Actor,
    guard: Guard,
    *,
    id: str = "",  # noqa: A002
) -> Proposal:
    """Keep a proposal of other contents for a place, with all that its reviewer has to see, until it is decided."""
    justification, evidence = _checked_reasons(justification, evidence)
    digest, base = digest_of_files(after), digest_of_files(before) if before else ""
    wanted = Proposal(
        id=id,
        kind="update" if before else "new",
        skill=home.ref,
        location=home.location,
        base_digest=base,
        proposed_digest=digest,
        justification=justification,
        evidence=list(evidence),
        author_kind="agent" if author.kind == "agent" else "user",
        author=author.name,
        on_behalf_of=(actor.user or "") if author.kind == "agent" else "",
    )
    action = Action(
        point="propose",
        skill=subject_in(home, after, digest),
        by="model" if author.kind == "agent" else "user",
        path=home.location,
    )
    decision = guard.settle(action, actor)
    if not decision.is_allowed:
        _keep(scope, wanted, actor, reason=decision.reason, decision=decision.outcome, rule=decision.rule)
        raise decision.as_error()
    effective = guard.governance.effective
    with reserved_page(scope, home.ref) as (made, path), scope.transaction():
        same = _alike(scope, wanted)
        if same is not None:
            path.unlink()
            return amend(scope, same, justification, evidence, actor)
        if before:
            keep_files(scope, effective, home.ref, before)
        new = keep_files(scope, effective, home.ref, after, parent=base if base != digest else "")
        basis = review_base_of(scope, home.ref, home.location, base, digest)
        old = scope.revisions.get(basis.digest) if basis.digest else None
        shown_before = before if basis.digest == base else scope.revisions.files(basis.digest)
        diff = difference(shown_before, after)
        if len(diff) > MAX_DIFFERENCE:
            raise ProposalInvalid(
                f"The difference has {len(diff):,} characters, which nobody reads.", hint="Propose it in parts."
            )
        proposal = scope.proposals.add(
            replace(
                wanted,
                created_at=made,
                diff=diff,
                capabilities_new=new_in(capabilities_of(new), capabilities_of(old)),
            )
        )
        path.write_text(page(proposal, basis), encoding="utf-8")
        _keep(scope, proposal, actor, reason=justification, policy=effective.digest)
    return proposal


def _alike(scope: TenantScope, wanted: Proposal) -> Proposal | None:
    """The proposal that waits already for the same change by the same author; raises where too many of theirs wait."""
    waiting = [
        one
        for one in scope.proposals.all("open")
        if (one.author_kind, one.author) == (wanted.author_kind, wanted.author)
    ]
    for one in waiting:
        if _change(one) == _change(wanted):
            return one
    if len(waiting) >= MAX_OPEN:
        raise ProposalInvalid(
            f"{MAX_OPEN} proposals of {shown(wanted.author)!r} wait already.",
            hint="Wait until somebody has decided about them, or withdraw some.",
        )
    return None


def _change(proposal: Proposal) -> tuple[str, ...]:
    """The change and its user: what one user's agent proposes is not another user's, who may decide about it."""
    return proposal.location, proposal.base_digest, proposal.proposed_digest, proposal.on_behalf_of


def _checked_reasons(justification: str, evidence: Sequence[str]) -> tuple[str, Sequence[str]]:
    if not isinstance(justification, str) or not justification.strip():
        raise ProposalInvalid("There is no justification.", hint="Say why the change is needed.")
    if isinstance(evidence, str):
        evidence = (evidence,)
    if not all(isinstance(text, str) for text in evidence):
        raise ProposalInvalid("Evidence is a list of texts.", hint="Quote what shows that the change is needed.")
    kept = [text for text in evidence if text.strip()]
    if len(kept) > MAX_EVIDENCE or max(map(len, (justification, *kept))) > MAX_TEXT:
        raise ProposalInvalid(
            f"It says too much: at most {MAX_TEXT:,} characters a text, and {MAX_EVIDENCE} pieces of evidence.",
            hint="Quote the parts that matter.",
        )
    return justification.strip(), kept


def _keep(scope: TenantScope, proposal: Proposal, actor: Actor, **more: str) -> None:
    record_event(
        scope,
        "proposal.created",
        actor,
        proposal.skill,
        digest=proposal.base_digest,
        new_digest=proposal.proposed_digest,
        proposal=proposal.id,
        path=proposal.location,
        **more,
    )
