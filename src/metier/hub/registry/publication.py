"""Releases that enter a registry: published by an owner of the namespace, or submitted and reviewed.

Boundary: a release is visible by one row, which is written together with its record after all of its content is kept;
whatever is interrupted before leaves nothing that anybody gets. Nothing of a release changes afterwards but its status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.errors import InvalidArgument, NotPermitted, ProposalStale, SkillExists, SkillInvalid, SkillNotFound
from metier.guard.approvals.roles import require_role
from metier.guard.audit.governance_events import actor_of, denied, record_event, record_refusal
from metier.hub.authorisation import require_person
from metier.hub.publish.release import judge_release, read_release, require_new
from metier.hub.registry.archives import keep_archives
from metier.hub.registry.namespaces import find_namespace, require_owner
from metier.hub.skill_files import keep_files
from metier.skill import shown
from metier.store import RegistryRelease
from metier.store.registry import PUBLIC
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard import Guard
    from metier.hub.publish.release import Judgement, Release
    from metier.skill.package import Files
    from metier.store import Person, RegistryNamespace, TenantScope
    from metier.store.registry import ReleaseStatus

ROLE, WHAT = "author", "publish a skill"
MAX_FEEDBACK = 4_000


def ref_of(namespace: str, name: str) -> str:
    """The name of a skill of a registry in records: `name@registry:namespace`."""
    return f"{name}@registry:{namespace}"


def publish_release(
    scope: TenantScope,
    person: Person,
    namespace: str,
    files: Files,
    *,
    guard: Guard,
    name: str = "",
    version: str = "",
    reason: str = "",
    accept_findings: str = "",
) -> RegistryRelease:
    """Publish files as a version of a skill; takes the role author, and a namespace of which the person is an owner.

    Raises `SkillExists` where that version was published before, or its name belongs to another namespace. Files that
    have another `name` or `version` than the given ones are refused.
    """
    release, place = _read(files, name, version), find_namespace(scope, namespace)
    tried, ref = "skill.published", ref_of(place.name, release.name)
    require_person(scope, person, ROLE, WHAT, type=tried, skill=ref)
    require_owner(scope, person, place, tried=tried, ref=ref)
    judged = _judge(scope, person, place, release, guard, accept_findings)
    if not judged.decision.is_allowed:
        raise denied(scope, tried, actor_of(person, scope), ref, judged.decision, new_digest=release.digest)
    return _put(
        scope, person, place, release, judged, guard, "published", reason.strip() or "Published.", accept_findings
    )


def submit_release(
    scope: TenantScope,
    person: Person,
    namespace: str,
    files: Files,
    *,
    guard: Guard,
    name: str = "",
    version: str = "",
    reason: str = "",
) -> RegistryRelease:
    """Submit files for review by an owner of a namespace; takes the role author.

    Findings of the scanner are for the reviewer to judge. What policy denies cannot be submitted.
    """
    release, place = _read(files, name, version), find_namespace(scope, namespace)
    tried, ref = "skill.submitted", ref_of(place.name, release.name)
    try:
        require_role(person, ROLE, "submit a skill")
    except NotPermitted as error:
        record_refusal(scope, tried, actor_of(person, scope), ref, reason=error.message, code=error.code)
        raise
    judged = _judge(scope, person, place, release, guard, "A reviewer looks at them.")
    decision = judged.decision
    if decision.outcome == "deny":
        raise denied(scope, tried, actor_of(person, scope), ref, decision, new_digest=release.digest)
    return _put(scope, person, place, release, judged, guard, "submitted", reason.strip(), "")


def review_submission(
    scope: TenantScope,
    person: Person,
    submission: RegistryRelease,
    *,
    approve: bool,
    guard: Guard,
    criteria: Mapping[str, bool] | None = None,
    feedback: str = "",
    accept_findings: str = "",
) -> RegistryRelease:
    """Publish a submission, or reject it with feedback; takes the role reviewer, and an owner of the namespace.

    Every criterion of the namespace needs an answer, and all must be met to approve. Nobody reviews their own
    submission unless policy lets people decide about their own requests.
    """
    place, answers = find_namespace(scope, submission.namespace), dict(criteria or {})
    ref, actor = ref_of(submission.namespace, submission.name), actor_of(person, scope)
    tried = "submission.approved" if approve else "submission.rejected"
    require_person(scope, person, "reviewer", "review a submission", type=tried, skill=ref)
    require_owner(scope, person, place, tried=tried, ref=ref)
    effective, feedback = guard.governance.effective, feedback.strip()[:MAX_FEEDBACK]
    if approve and submission.by == person.name and not effective.approval.self_approval:
        why = f"{shown(person.name)!r} submitted it, and policy lets nobody decide about their own request."
        record_refusal(scope, tried, actor, ref, reason=why, decision="deny", code=NotPermitted.code)
        raise NotPermitted(why, hint="Ask another owner of the namespace.", person=person.name)
    _require_answers(place, answers, approve=approve, feedback=feedback)
    decided = replace(
        submission, decided_by=person.name, decided_at=now(), reason=feedback, criteria=answers, status="rejected"
    )
    fields = {"new_digest": submission.digest, "reason": feedback or "All criteria are met."}
    answered = (f"{'met' if is_met else 'not met'}: {criterion}" for criterion, is_met in answers.items())
    notes: tuple[str, ...] = (f"version {submission.version}", *answered)
    if approve:
        files = scope.revisions.files(submission.digest)
        release = read_release(files, version=submission.version)
        judged = _judge(scope, person, place, release, guard, accept_findings)
        if not judged.decision.is_allowed:
            raise denied(scope, tried, actor, ref, judged.decision, new_digest=release.digest)
        notes += judged.notes(accept_findings)
        decided = replace(decided, status="published")
    with scope.transaction():
        _require_status(scope, submission, "submitted")
        if approve:
            _require_free(scope, decided, is_review=True)
        put = scope.releases.put(decided)
        record_event(scope, tried, actor, ref, **fields, notes=notes)
        if approve:
            record_event(scope, "skill.published", actor, ref, **fields, notes=(f"version {put.version}",))
    return put


def withdraw_submission(scope: TenantScope, person: Person, submission: RegistryRelease) -> RegistryRelease:
    """Take back a submission; only by who made it."""
    ref = ref_of(submission.namespace, submission.name)
    if person.name != submission.by:
        raise NotPermitted("Only who made a submission withdraws it.", hint="Reject it, with feedback.")
    with scope.transaction():
        _require_status(scope, submission, "submitted")
        put = scope.releases.put(replace(submission, status="withdrawn", decided_by=person.name, decided_at=now()))
        record_event(
            scope, "submission.withdrawn", actor_of(person, scope), ref, notes=(f"version {submission.version}",)
        )
    return put


def yank_release(
    scope: TenantScope, person: Person, release: RegistryRelease, *, reason: str = "", undo: bool = False
) -> RegistryRelease:
    """Withdraw a release, or undo that; takes the role author, and an owner of the namespace."""
    tried, ref = f"skill.{'un' if undo else ''}yanked", ref_of(release.namespace, release.name)
    require_person(scope, person, ROLE, "withdraw a skill", type=tried, skill=ref)
    require_owner(scope, person, find_namespace(scope, release.namespace), tried=tried, ref=ref)
    if not undo and not reason.strip():
        raise InvalidArgument("A version is not yanked without a reason.", hint="Say why.")
    with scope.transaction():
        _require_status(scope, release, "yanked" if undo else "published")
        changed = replace(release, status="published" if undo else "yanked", reason="" if undo else reason.strip())
        put = scope.releases.put(replace(changed, decided_by=person.name, decided_at=now()))
        fields = {"digest": release.digest, "reason": reason.strip(), "notes": (f"version {release.version}",)}
        record_event(scope, tried, actor_of(person, scope), ref, **fields)
    return put


def find_release(
    scope: TenantScope, namespace: str, name: str, version: str, statuses: tuple[ReleaseStatus, ...] = PUBLIC
) -> RegistryRelease:
    """The release of a version; raises `SkillNotFound` where there is none in one of these statuses."""
    found = scope.releases.get(namespace, name, version)
    if found is None or found.status not in statuses:
        raise SkillNotFound(
            f"There is no version {shown(version)} of {shown(namespace)}/{shown(name)}.", hint="Look at its versions."
        )
    return found


def find_releases(scope: TenantScope, namespace: str, name: str) -> list[RegistryRelease]:
    """All releases of a skill that were given to others; raises `SkillNotFound` where there are none."""
    found = [one for one in scope.releases.all(namespace=namespace, name=name) if one.status in PUBLIC]
    if not found:
        raise SkillNotFound(f"There is no skill {shown(namespace)}/{shown(name)}.", hint="Look at the index.")
    return found


def _read(files: Files, name: str, version: str) -> Release:
    release = read_release(files, version=version)
    if name not in ("", release.name):
        raise SkillInvalid(
            f"It is called {shown(release.name)!r}, and not {shown(name)!r}.", hint="Publish it under its own name."
        )
    if not release.version:
        raise SkillInvalid(
            f"{shown(release.name)!r} has no version, and what was published never changes.",
            hint="Write `version: 1.0.0` below `metadata:`.",
        )
    return release


def _judge(
    scope: TenantScope, person: Person, place: RegistryNamespace, release: Release, guard: Guard, accept_findings: str
) -> Judgement:
    target, actor = f"registry:{place.name}", actor_of(person, scope)
    return judge_release(release, target, guard, actor, accept_findings=accept_findings, asks=False)


def _put(
    scope: TenantScope,
    person: Person,
    place: RegistryNamespace,
    release: Release,
    judged: Judgement,
    guard: Guard,
    status: ReleaseStatus,
    reason: str,
    accept_findings: str,
) -> RegistryRelease:
    """Keep the content of a release, and then its row with its record."""
    ref, effective = ref_of(place.name, release.name), guard.governance.effective
    keep_files(scope, effective, ref, release.files)
    row = RegistryRelease(
        namespace=place.name,
        name=release.name,
        version=release.version,
        digest=release.digest,
        status=status,
        by=person.name,
        **keep_archives(scope, release, place.name),
    )
    event = "skill.published" if status == "published" else "skill.submitted"
    fields: dict[str, Any] = {"new_digest": release.digest, "path": row.ref, "policy": effective.digest}
    notes = (f"version {release.version}", *judged.notes(accept_findings))
    with scope.transaction():
        _require_free(scope, row)
        put = scope.releases.put(row)
        record_event(scope, event, actor_of(person, scope), ref, **fields, reason=reason, notes=notes)
    return put


def _require_free(scope: TenantScope, row: RegistryRelease, *, is_review: bool = False) -> None:
    """Raise `SkillExists` where a version is taken, or the name belongs to another namespace.

    One name is one skill in the whole registry: what is asked for by its name must not become somebody else's when its
    releases are withdrawn.
    """
    same = scope.releases.all(name=row.name)
    for other in same:
        if other.status in PUBLIC and other.namespace != row.namespace:
            raise SkillExists(
                f"{shown(row.name)!r} belongs to the namespace {other.namespace!r}.",
                hint="Submit it there, or choose another name.",
                name=row.name,
            )
        if other.status == "submitted" and not is_review and other.version == row.version:
            raise SkillExists(
                f"{row.ref} {shown(row.version)} waits for review.", hint="Wait for it, or choose another version."
            )
    require_new(row, [one.version for one in same if one.status in PUBLIC])
    _require_own_label(scope, row)


def _require_own_label(scope: TenantScope, row: RegistryRelease) -> None:
    """Raise `SkillExists` where the archive of another skill has the same name: `a-1` 2 and `a` 1-2."""
    label = f"{row.name}-{row.version}"
    for place in (place for place, letter in enumerate(label) if letter == "-" and place != len(row.name)):
        for other in scope.releases.all(name=label[:place]):
            if other.version == label[place + 1 :] and other.status in PUBLIC:
                raise SkillExists(
                    f"The archive of {other.ref} {shown(other.version)} has the name that this one would have.",
                    hint="Choose another version.",
                    name=row.name,
                )


def _require_status(scope: TenantScope, release: RegistryRelease, status: ReleaseStatus) -> None:
    """Raise `ProposalStale` where a release has another status, or somebody was quicker."""
    found = scope.releases.get(release.namespace, release.name, release.version)
    if found is None or found.status != status or found.number != release.number:
        is_now = found.status if found is not None else "gone"
        raise ProposalStale(f"{release.ref} {shown(release.version)} is {is_now}.", hint="Look at it again.")


def _require_answers(place: RegistryNamespace, answers: Mapping[str, bool], *, approve: bool, feedback: str) -> None:
    unknown = sorted(set(answers) - set(place.criteria))
    if unknown:
        raise InvalidArgument(f"{shown(unknown[0])!r} is no criterion of {place.name!r}.", hint="Look at its criteria.")
    missing = [one for one in place.criteria if approve and not answers.get(one)]
    if missing:
        raise InvalidArgument(
            f"{shown(missing[0])!r} is not met, or not answered.",
            hint="Reject it with feedback, or answer all criteria.",
        )
    if not approve and not feedback:
        raise InvalidArgument("A submission is not rejected without feedback.", hint="Say what has to change.")
