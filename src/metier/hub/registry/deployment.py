"""Releases that are deployed: every node of the tenant has exactly this content under the name of the skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import SkillNotFound
from metier.guard import Action
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.hub.apply import approve_content, expire_others
from metier.hub.authorisation import require_person
from metier.hub.deployment import ROLE, WHAT
from metier.hub.registry.publication import find_release
from metier.hub.scan_findings import against, is_bad
from metier.hub.skill_files import package_of
from metier.hub.skill_location import SkillLocation, subject_in
from metier.scan import scan
from metier.skill import shown
from metier.store import Deployment

if TYPE_CHECKING:
    from metier.guard import Guard
    from metier.store import Person, TenantScope


def location_of_release(namespace: str, name: str) -> SkillLocation:
    """The place of a skill of the registry in approvals, proposals and histories."""
    location = f"registry:{namespace}/{name}"
    return SkillLocation(location=location, name=name, source=f"registry:{namespace}", layer="enterprise")


def deploy_release(
    scope: TenantScope,
    person: Person,
    namespace: str,
    name: str,
    version: str,
    *,
    guard: Guard,
    reason: str = "",
    accept_findings: str = "",
) -> tuple[Deployment, str]:
    """Deploy a release to all nodes; returns why its content is not approved by that, or an empty text.

    Takes the role admin. It must be published, what the scanner calls high keeps it back unless `accept_findings` says
    why it does not matter, and policy decides about the point `deploy`.
    """
    home, actor = location_of_release(namespace, name), actor_of(person, scope)
    require_person(scope, person, ROLE, WHAT, type="skill.deployed", skill=home.ref)
    release = find_release(scope, namespace, name, version, ("published",))
    files = scope.revisions.files(release.digest)
    effective = guard.governance.effective
    report = scan(package_of(files), packs=effective.scan.packs)
    action = Action(point="deploy", skill=subject_in(home, files, release.digest), by="user", path=home.location)
    decision = against(report, accept_findings) or guard.decide(action, actor)
    before = scope.deployments.get(name)
    said = {"digest": before.digest if before else "", "new_digest": release.digest, "path": home.location}
    if not decision.is_allowed:
        raise denied(scope, "skill.deployed", actor, home.ref, decision, **said, policy=effective.digest)
    accepted = f"Findings accepted: {accept_findings.strip()}" if is_bad(report) else ""
    why = reason.strip() or "Deployed."
    with scope.transaction():
        find_release(scope, namespace, name, version, ("published",))  # nobody yanked it meanwhile
        put = scope.deployments.put(
            Deployment(
                name=name, namespace=namespace, version=version, digest=release.digest, by=person.name, reason=why
            )
        )
        scope.versions.add(home.ref, home.location, release.digest, by=person.name, reason=why)
        notes = tuple(filter(None, (f"version {version}", accepted)))
        record_event(scope, "skill.deployed", actor, home.ref, **said, policy=effective.digest, reason=why, notes=notes)
        not_approved = approve_content(scope, effective, person, home, release.digest, accepted or why)
        expire_others(scope, home.location, release.digest, actor)
    return put, not_approved


def undeploy(scope: TenantScope, person: Person, name: str, *, reason: str = "") -> Deployment:
    """Take a skill from all nodes; takes the role admin."""
    deployed = find_deployment(scope, name)
    home = location_of_release(deployed.namespace, name)
    require_person(scope, person, ROLE, "take back a deployment", type="skill.undeployed", skill=home.ref)
    with scope.transaction():
        deployed = find_deployment(scope, name)
        scope.deployments.remove(name)
        fields = {"digest": deployed.digest, "path": home.location, "reason": reason.strip() or "Taken back."}
        record_event(
            scope,
            "skill.undeployed",
            actor_of(person, scope),
            home.ref,
            **fields,
            notes=(f"version {deployed.version}",),
        )
    return deployed


def find_deployment(scope: TenantScope, name: str) -> Deployment:
    """The deployment of a skill; raises `SkillNotFound` where it is not deployed."""
    found = scope.deployments.get(name)
    if found is None:
        raise SkillNotFound(f"{shown(name)!r} is not deployed.", hint="Look at the deployments.")
    return found
