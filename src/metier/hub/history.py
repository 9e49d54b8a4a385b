"""The history of a skill: its versions in its place, the changes between them, and rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, SkillNotFound
from metier.guard import Action, Guard
from metier.guard.audit.governance_events import actor_of, record_event, record_refusal
from metier.hints import for_people
from metier.hub.apply import CHANGED, expire_others, finish, put_in_place
from metier.hub.authorisation import require_person
from metier.hub.diff import difference
from metier.hub.folder_replacement import digest_at
from metier.hub.skill_location import removal_of, subject_in
from metier.skill import shown

if TYPE_CHECKING:
    from metier.hub.skill_location import SkillLocation
    from metier.library import SkillLookup
    from metier.store import Person, TenantScope, Version


def version_of(scope: TenantScope, home: SkillLocation, number: int) -> Version:
    """A version of a skill by its number; raises `InvalidArgument` where there is none."""
    known = scope.versions.of(home.location)
    found = next((one for one in known if one.number == number), None)
    if found is None:
        have = f"It has {known[0].number} to {known[-1].number}." if known else "It has none yet."
        raise InvalidArgument(f"{shown(home.ref)!r} has no version {number}.", hint=have)
    return found


def compare(scope: TenantScope, home: SkillLocation, before: int, after: int) -> str:
    """The difference between two versions of a skill, as a unified diff."""
    old, new = (scope.revisions.files(version_of(scope, home, number).digest) for number in (before, after))
    return difference(old, new)


def rollback(
    scope: TenantScope,
    person: Person,
    home: SkillLocation,
    *,
    to: int | None = None,
    reason: str = "",
    environment: str = "",
    library: SkillLookup | None = None,
    guard: Guard | None = None,
) -> Version:
    """Bring back an earlier content of a skill exactly, by default the last one that is not there now.

    It becomes a new version, and whatever lies there now stays in the history. Approvals of the earlier content count
    again if they have not run out. Takes the role reviewer.
    """
    require_person(scope, person, "reviewer", "bring back a version", type="skill.rolled-back", skill=home.ref)
    there = digest_at(home.folder)
    if again := removal_of(scope, home):
        raise SkillNotFound(
            f"{shown(home.ref)!r} was removed, and is in no lock file any more.",
            hint=for_people("`{again}` brings it again.", again=again),
            name=home.name,
        )
    finish(scope, home, there, actor_of(person, scope, environment))
    wanted = _wanted(scope, home, there, to)
    files = scope.revisions.files(wanted.digest)
    subject = subject_in(home, files, wanted.digest)
    guard, actor = guard or Guard(), actor_of(person, scope, environment)
    decision = guard.decide(Action(point="apply", skill=subject, by="user", path=home.location), actor)
    said = {
        "digest": there or "",
        "new_digest": wanted.digest,
        "path": home.location,
        "policy": guard.governance.effective.digest,
    }
    if decision.outcome == "deny":
        told = {"reason": decision.reason, "decision": "deny", "rule": decision.rule}
        record_refusal(scope, "skill.rolled-back", actor, home.ref, **said, **told)
        raise decision.as_error()

    def also(version: Version) -> None:
        record_event(
            scope,
            "skill.rolled-back",
            actor,
            home.ref,
            **said,
            reason=version.reason,
            notes=(f"version {version.number}",),
        )
        expire_others(scope, home.location, version.digest, actor)

    why = f"Back to version {wanted.number}. {reason.strip()}".strip()
    version = put_in_place(scope, guard.governance.effective, home, files, over=there, by=person, reason=why, also=also)
    if library is not None:
        library.refresh()
    return version


def _wanted(scope: TenantScope, home: SkillLocation, there: str | None, to: int | None) -> Version:
    if to is not None:
        found = version_of(scope, home, to)
        if found.digest == there:
            raise InvalidArgument(f"{shown(home.ref)!r} is version {to} already.", hint="Name another version.")
        return found
    versions = scope.versions.of(home.location)
    # What somebody changed by hand is kept, and never taken for a version that anybody answers for.
    by_hand = {version.digest for version in versions if not version.by and version.reason == CHANGED}
    for version in reversed(versions):
        if version.digest != there and version.digest not in by_hand:
            return version
    raise InvalidArgument(
        f"There is no earlier version of {shown(home.ref)!r}.",
        hint="A history begins when a proposal is applied or a skill is deployed.",
    )
