"""Skills that are installed from a source, put in place in one step, recorded, approved and locked; and removed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier.guard.approvals.status import approval_status
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.hub.apply import approve_content, expire_others, put_in_place
from metier.hub.deployment import folder_of_layer
from metier.hub.folder_replacement import digest_at, remove_folder
from metier.hub.packages.plan import build_packages
from metier.hub.scan_findings import is_bad
from metier.hub.skill_files import keep_files
from metier.hub.skill_location import location_at, require_unlinked
from metier.library.lock_file import LockedSkill, LockFile, change_lock
from metier.library.places import TrustStore, project_root
from metier.library.skills_lock import change_skills_lock, entry_of
from metier.skill import FolderPackage
from metier.skill.package import files_of
from metier.skill.script_packages import grant_of
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard import Guard
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.install_plan import InstallPlan
    from metier.hub.skill_location import SkillLocation
    from metier.hub.updates import InstalledSkill
    from metier.store import Person, TenantScope, Version


_NOBODY = "Nobody is at a terminal here to decide. `metier add` at one, or a token in METIER_API_TOKEN, approves."


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The result of an installation."""

    plan: InstallPlan
    not_approved: str = ""
    """The reason why its content is not approved by that; empty where it is."""
    packages_problem: str = ""
    """The reason why its scripts lack the packages that they declare; empty where they have them, or need none."""
    is_unchanged: bool = False
    """Whether it was installed already, as it is."""


def install_folder(to: str | None, start: str) -> str:
    """The folder that skills are installed into; unless somebody says which, the project's in a repository."""
    from pathlib import Path

    if to is None:
        to = "project" if os.path.exists(os.path.join(project_root(Path(start)), ".git")) else "personal"
    return folder_of_layer(to, Path(start))


def is_approved(
    scope: TenantScope, effective: EffectivePolicy, home: SkillLocation, digest: str, packages: Sequence[str]
) -> bool:
    """Whether a content with its packages is approved in a place, by as many people as policy wants."""
    given, quorum = scope.approvals.of(digest), effective.approval.quorum
    found = approval_status(given, layer=home.layer, environment="", quorum=quorum, now=now())
    return found.is_approved and grant_of(packages) in ("", *found.grants)


def install(scope: TenantScope, person: Person, guard: Guard, plan: InstallPlan, *, approves: bool = True) -> Installed:
    """Put a skill that was planned in its place, with its records, and lock it.

    Whoever is killed on the way leaves the old version or the new one: until the new one is in place, the lock names
    both. With `approves`, the person's consent counts as an approval of the content where policy lets them decide.
    """
    home, decision = plan.home, plan.decision
    actor = actor_of(person, scope)
    event = "skill.installed" if plan.action.point == "install" else "skill.updated"
    effective = guard.governance.effective
    changed = {"digest": plan.there or "", "new_digest": plan.digest}
    fields = {**changed, "path": home.location, "policy": effective.digest}
    if not decision.is_allowed:
        if decision.outcome == "ask":
            # Whoever may approve of this content finds the question among what waits for them.
            decision = guard.follow_up(plan.action, actor, decision, decision)
        raise denied(scope, event, actor, home.ref, decision, **fields)
    lock = LockFile.read(plan.lock_path)
    require_unlinked(home, lock.root)  # somebody may have thought about the plan for a while
    if home.layer == "project":
        change_skills_lock(lock.root, {})  # which sees whether it can be changed
    locked = plan.terms.as_locked or _locked(plan, person, lock.relative(home.location))
    before = lock.at(locked.folder)
    recorded = scope.installs.get(home.location)
    not_approved = ""

    def approve(reason: str) -> str:
        if not approves:
            return _NOBODY
        return approve_content(scope, effective, person, home, plan.digest, reason, packages=plan.packages.lines)

    def also(version: Version) -> None:
        nonlocal not_approved
        accepted = f"Findings accepted: {plan.terms.accept_findings.strip()}" if is_bad(plan.report) else ""
        signer = plan.judged.signature.signer
        signed = f"signed by {signer}" if signer else ""
        notes = (f"version {version.number}", plan.resolved.revision, accepted, *plan.judged.exceptions, signed)
        record_event(scope, event, actor, home.ref, **fields, reason=version.reason, notes=tuple(filter(None, notes)))
        not_approved = approve(accepted or version.reason)
        expire_others(scope, home.location, plan.digest, actor)

    # After a crash at the last moment the content is in its place, and its records and its approval are not.
    is_unchanged = plan.is_unchanged and before is not None and recorded is not None and recorded.digest == plan.digest
    if is_unchanged and before is not None:
        locked = replace(locked, added=before.added, by=before.by)
        if not is_approved(scope, effective, home, plan.digest, plan.packages.lines):
            not_approved = approve(f"Agreed to; it is from {plan.resolved.address.name}.")
    else:
        reason = f"{'Installed' if plan.action.point == 'install' else 'Updated'} from {plan.resolved.address.name}."
        put_in_place(scope, effective, home, plan.files, over=plan.there, by=person, reason=reason, also=also)
    change_lock(plan.lock_path, lambda now: now.with_skill(locked))
    if home.layer == "project":
        change_skills_lock(lock.root, {locked.name: entry_of(locked, plan.files)})
    if approves and not home.trusted and not not_approved:
        # What was approved is vouched for; what it is changed into is not what is on record, and denied.
        TrustStore().trust(home.folder)
    lacking = build_packages(plan.files, plan.packages, effective, progress=plan.terms.progress)
    return Installed(plan=plan, not_approved=not_approved, packages_problem=lacking, is_unchanged=is_unchanged)


def remove_skill(scope: TenantScope, effective: EffectivePolicy, person: Person, one: InstalledSkill) -> str | None:
    """Remove an installed skill; the digest of what lay there, which can be brought back, or None for nothing."""
    home = location_at(one.location, one.locked.name)
    there = digest_at(home.folder) if os.path.lexists(one.location) else None
    if there is not None:
        if not scope.revisions.has(there):
            keep_files(scope, effective, home.ref, files_of(FolderPackage(home.folder)))
        remove_folder(one.location)
    with scope.transaction():
        scope.installs.remove(home.location)
        record_event(
            scope,
            "skill.removed",
            actor_of(person, scope),
            home.ref,
            digest=there or one.locked.digest,
            path=home.location,
            reason=f"Removed; it came from {one.locked.source}.",
            notes=(one.add_command,),
        )
    after = change_lock(one.lock.path, lambda lock: lock.without(one.locked.folder))
    if home.layer == "project" and all(skill.name != one.locked.name for skill in after.skills):
        change_skills_lock(one.lock.root, {one.locked.name: None})
    TrustStore().untrust(home.location)
    return there


def _locked(plan: InstallPlan, person: Person, folder: str) -> LockedSkill:
    address = plan.resolved.address
    return LockedSkill(
        name=plan.skill.name,
        folder=folder,
        source=address.name,
        ref=address.ref,
        path=plan.candidate.path,
        revision=plan.resolved.revision_of(plan.candidate.path),
        version=plan.version,
        package=plan.candidate.package,
        digest=plan.digest,
        signer=plan.judged.signature.signer,
        unsigned=plan.judged.unsigned_because,
        requires=plan.skill.requires,
        packages=plan.packages.lines,
        pinned=plan.terms.is_pinned,
        added=now(),
        by=person.name,
    )
