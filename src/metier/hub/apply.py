"""A content that takes its place, together with all that is on record of it: either both, or neither."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import LockInvalid, MetierError, NotPermitted
from metier.guard.approvals.decisions import grant, reason_against_deciding
from metier.guard.approvals.quarantine import release_changed
from metier.guard.approvals.status import approval_status
from metier.guard.audit.governance_events import actor_of, record_event
from metier.guard.content_records import REPLACING, announced, since
from metier.hub.folder_replacement import digest_at, replacing
from metier.hub.skill_files import capabilities_of, keep_files
from metier.library.lock_file import lock_path_for, locked_skill, noting_content
from metier.library.skills_lock import change_skills_lock, entry_of
from metier.skill import FolderPackage, shown
from metier.skill.package import digest_of_files, files_of
from metier.skill.script_packages import grant_of
from metier.store import ApprovalRequest, Install

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from metier.guard import Actor
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.skill_location import SkillLocation
    from metier.skill.package import Files
    from metier.store import Person, TenantScope, Version

FOUND, CHANGED = "As it was found.", "Changed by hand."
"""The comments in the history of contents that nobody put there through Métier."""


def put_in_place(
    scope: TenantScope,
    effective: EffectivePolicy,
    home: SkillLocation,
    files: Files,
    *,
    over: str | None,
    by: Person,
    reason: str,
    also: Callable[[Version], None],
    proposal: str = "",
) -> Version:
    """Put a content in place of the one whose digest is `over`, with a version and a record of what belongs there.

    `also` writes down what else is to be on record, in the same transaction. What lay there stays in the history, and
    lock files name what lies there now. A content that is in its place already, as after a crash at the last moment,
    only needs the records. Raises `SkillChanged` when something else lies there by now.
    """
    require_own(scope, home)
    digest = digest_of_files(files)
    keep_files(scope, effective, home.ref, files, parent=over or "")
    there = digest_at(home.folder)
    if there == over and over is not None and not scope.revisions.has(over):
        keep_files(scope, effective, home.ref, files_of(FolderPackage(home.folder)))
    install = Install(
        location=home.location, skill=home.name, source=home.source, layer=home.layer, digest=digest, by=by.name
    )
    with contextlib.ExitStack() as stack:
        put = None
        note = stack.enter_context(noting_content(home.location, digest, over=over))
        if there != digest:
            stack.enter_context(_announced(scope, home, install, over, by, reason))
            put = stack.enter_context(replacing(home.folder, files, over=over))
        if put is None or _digest_or_none(home.folder) == over:
            note()  # else another process was quicker, and `put` says so
        with scope.transaction():
            _note_before(scope, home, over, digest)
            version = scope.versions.add(home.ref, home.location, digest, by=by.name, reason=reason, proposal=proposal)
            scope.installs.put(install)
            release_changed(scope, actor_of(by, scope), digest, f"It is version {version.number} now.")
            also(version)
            if put is not None:
                # Last, so that next to nothing can come between it and the end of the transaction.
                put()
    if home.layer == "project" and (locked := locked_skill(home.location)) is not None:
        with contextlib.suppress(LockInvalid):
            change_skills_lock(os.path.dirname(lock_path_for(home.location)), {locked.name: entry_of(locked, files)})
    return version


def _digest_or_none(folder: str) -> str | None:
    try:
        return digest_at(folder)
    except MetierError:
        return None


@contextlib.contextmanager
def _announced(
    scope: TenantScope, home: SkillLocation, install: Install, over: str | None, by: Person, reason: str
) -> Iterator[None]:
    """Say which content takes the place of which, before it does; and if it comes to nothing, that it did not."""
    known = scope.installs.get(home.location)
    # From here on the place is on record: whoever is killed leaves one of these two contents there.
    before = known or replace(install, digest=over or install.digest)
    said = {"digest": before.digest, "new_digest": install.digest, "path": home.location}
    with scope.transaction():
        put = scope.installs.put(before)
        notes = (since(put),)
        record_event(scope, REPLACING, actor_of(by, scope), home.ref, **said, reason=reason, notes=notes)
    try:
        yield
    except BaseException:
        with contextlib.suppress(MetierError), scope.transaction():
            if known is None and scope.installs.get(home.location) == put:
                scope.installs.remove(home.location)
            said |= {"decision": "deny", "reason": "It came to nothing."}
            record_event(scope, REPLACING, actor_of(by, scope), home.ref, **said)
        raise


def finish(scope: TenantScope, home: SkillLocation, there: str | None, actor: Actor) -> None:
    """Put on record a content that took its place when whoever put it there was killed at the last moment."""
    install = scope.installs.get(home.location)
    if install is None or there is None or install.digest == there or not scope.revisions.has(there):
        return
    record = announced(scope, install, there)
    if record is None:
        return
    with scope.transaction():
        _note_before(scope, home, install.digest, there)
        by, reason = str(record.get("user") or record.get("agent") or ""), str(record.get("reason", ""))
        scope.versions.add(home.ref, home.location, there, by=by, reason=reason)
        scope.installs.put(replace(install, digest=there, state="enabled", by=by, at=""))
        said = {"digest": install.digest, "new_digest": there, "path": home.location}
        record_event(scope, "skill.replaced", actor, home.ref, **said, reason="It had been cut short.")


def require_own(scope: TenantScope, home: SkillLocation) -> None:
    """Raise `NotPermitted` where what is everybody's would be changed by, and on record for, one tenant alone."""
    if scope.tenant and home.layer == "enterprise":
        raise NotPermitted(
            f"{shown(home.location, 300)} is there for all tenants, so {shown(scope.tenant)!r} cannot change it.",
            hint="An admin of the whole installation can, without --tenant.",
        )


def _note_before(scope: TenantScope, home: SkillLocation, over: str | None, digest: str) -> None:
    """Make sure that what is replaced can be gone back to."""
    known = scope.versions.of(home.location)
    if over is not None and over != digest and scope.revisions.has(over) and (not known or known[-1].digest != over):
        reason = CHANGED if known else FOUND
        scope.versions.add(home.ref, home.location, over, by="", reason=reason)


def approve_content(
    scope: TenantScope,
    effective: EffectivePolicy,
    person: Person,
    home: SkillLocation,
    digest: str,
    reason: str,
    *,
    environment: str = "",
    packages: Collection[str] = (),
) -> str:
    """Let a decision about a content count as an approval of it, on the terms of policy; why it does not, or "".

    It counts in the layer that the content was put into, and in `environment`, by default in all. Requests that wait
    for no more than that have their answer. `packages` are those that were resolved for it, and shown to the person.
    """
    wanted = ApprovalRequest(
        digest=digest,
        skill=home.ref,
        location=home.location,
        layer=home.layer,
        environment=environment,
        capabilities=(*capabilities_of(scope.revisions.get(digest)), *filter(None, [grant_of(packages)])),
    )
    waiting = [one for one in scope.approvals.requests("pending") if one.digest == digest]
    for one in (wanted, *waiting):
        why = reason_against_deciding(effective, person, one)
        if why is not None:
            return why
    try:
        given = grant(scope, effective, person, wanted, reason=reason)
    except NotPermitted as error:
        return error.message
    every, quorum = scope.approvals.of(digest), effective.approval.quorum
    for one in waiting:
        found = approval_status(
            every, layer=one.layer, environment=one.environment, quorum=quorum, now=given.decided_at
        )
        if found.is_approved and found.grants.issuperset(one.capabilities):
            scope.approvals.set_request(one.id, "approved", expected="pending")
    return ""


def expire_others(scope: TenantScope, location: str, digest: str, actor: Actor) -> None:
    """Note that proposals for what lay in a place are for something that is gone."""
    for other in scope.proposals.all():
        if other.location != location or other.status not in ("open", "approved") or other.base_digest == digest:
            continue
        if scope.proposals.move(other.id, expected=other.status, to="stale"):
            record_event(
                scope,
                "proposal.stale",
                actor,
                other.skill,
                digest=other.base_digest,
                new_digest=digest,
                proposal=other.id,
                reason="What it would change has changed.",
            )
