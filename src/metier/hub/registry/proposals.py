"""Proposals about skills of a registry: what is agreed to becomes a release, and takes the place of the deployed one.

Nothing of a release changes, so a changed content is another version. It gets the next one when it is proposed: what a
reviewer reads is what is released.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from metier._lazy import dataclass
from metier._yaml_edit import set_entry
from metier.errors import InvalidArgument, MetierError, ProposalInvalid, SkillChanged
from metier.guard import Action
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.guard.notify import notifying
from metier.hub.diff_apply import apply_diff
from metier.hub.proposals import park
from metier.hub.registry.deployment import location_of_release
from metier.hub.registry.namespaces import DEFAULT, find_namespace, require_owner
from metier.hub.registry.publication import publish_release, ref_of
from metier.hub.review import approve, find_proposal
from metier.hub.skill_files import require_skill, require_sound
from metier.hub.skill_location import subject_in
from metier.skill import is_valid_name, parse, shown
from metier.skill.frontmatter import split
from metier.skill.package import digest_of_files
from metier.skill.skill_requirement import version_of
from metier.store import Deployment
from metier.store.registry import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.guard import Actor, Guard
    from metier.hub.skill_location import SkillLocation
    from metier.skill.package import Files
    from metier.store import Person, Proposal, RegistryRelease, TenantScope

PREFIX = "registry:"
"""The beginning of the location of a skill of the registry, before its namespace and its name."""


def location_of_skill(scope: TenantScope, name: str, namespace: str = "") -> SkillLocation:
    """The place of a skill in the registry: in the namespace that has it, or else in the given or the default one."""
    deployed = scope.deployments.get(name)
    released = [one.namespace for one in scope.releases.all(name=name) if one.status in PUBLIC]
    owns = deployed.namespace if deployed is not None else next(iter(released), "")
    if namespace and owns and owns != namespace:
        raise InvalidArgument(
            f"{shown(name)!r} belongs to the namespace {owns!r}.", hint="Propose a change of it there.", name=name
        )
    return location_of_release(owns or namespace or DEFAULT, name)


def propose_release(
    scope: TenantScope,
    author: Person,
    name: str,
    change: str | Files,
    justification: str,
    evidence: Sequence[str] = (),
    *,
    guard: Guard,
    namespace: str = "",
) -> Proposal:
    """Propose to change a deployed skill, by a unified diff or by all of its files, or a new one for a namespace."""
    if not is_valid_name(name):
        raise InvalidArgument(
            f"{shown(name)!r} is not a valid skill name.", hint="Use a-z, 0-9 and single hyphens, at most 64."
        )
    deployed = scope.deployments.get(name)
    before: Files = scope.revisions.files(deployed.digest) if deployed is not None else {}
    if isinstance(change, str) and not before:
        raise ProposalInvalid(f"{shown(name)!r} is not deployed, so there is nothing that a diff could change.")
    after: Files = apply_diff(before, change) if isinstance(change, str) else dict(change)
    if before and digest_of_files(after) == digest_of_files(before):
        raise ProposalInvalid("It changes nothing.", hint="Propose what is to be different.")
    actor = actor_of(author, scope)
    return park_release(scope, name, before, after, justification, evidence, author, actor, guard, namespace=namespace)


def park_release(
    scope: TenantScope,
    name: str,
    before: Files,
    after: Files,
    justification: str,
    evidence: Sequence[str],
    author: Person,
    actor: Actor,
    guard: Guard,
    *,
    namespace: str = "",
    id: str = "",  # noqa: A002
) -> Proposal:
    """Keep a proposal of other contents for a skill of the registry, as its next version, until it is decided."""
    home = location_of_skill(scope, name, namespace)
    find_namespace(scope, home.source.removeprefix(PREFIX))
    require_sound(after)
    require_skill(after, name, deployable=not before)
    after = with_next_version(scope, name, after)
    with notifying(guard.governance.effective):
        return park(scope, home, before, after, justification, evidence, author, actor, guard, id=id)


def proposes(scope: TenantScope, proposal: Proposal, files: Files) -> bool:
    """Whether a proposal is about these files, perhaps under the next version."""
    version = _version_in(scope.revisions.files(proposal.proposed_digest)) or ""
    return proposal.proposed_digest in (digest_of_files(files), digest_of_files(with_version(files, version)))


def with_next_version(scope: TenantScope, name: str, files: Files) -> Files:
    """Files with the next version in their SKILL.md, where the one that it has is published already."""
    taken = {version_of(one.version) for one in scope.releases.all(name=name) if one.status in PUBLIC}
    own = _version_in(files)
    if own is None or version_of(own) not in taken:
        return files
    newest = max((one for one in taken if one is not None), default=None)
    return files if newest is None else with_version(files, f"{newest.major}.{newest.minor}.{newest.micro + 1}")


def with_version(files: Files, version: str) -> Files:
    """Files whose SKILL.md says that they are a version; the same files where it is written in no way that we edit."""
    mode, data = files.get("SKILL.md", ("file", b""))
    try:
        text = data.decode()
        block = split(text).block or ""
        path = ("version",) if "version" in (yaml.safe_load(block) or ()) else ("metadata", "version")
        changed = text.replace(block, set_entry(block, path, json.dumps(version)), 1)
    except (LookupError, TypeError, ValueError, RecursionError, yaml.YAMLError):
        return files
    found = {**files, "SKILL.md": (mode, changed.encode())}
    return found if _version_in(found) == version else files


def _version_in(files: Files) -> str | None:
    try:
        return parse(files["SKILL.md"][1]).skill.version
    except (KeyError, MetierError):
        return None


def approve_on_server(
    scope: TenantScope,
    person: Person,
    id: str,  # noqa: A002
    *,
    comment: str = "",
    apply: bool = True,
    guard: Guard,
) -> Proposal:
    """Agree to a proposal at a server; one about a skill of the registry is released, in place of the deployed one.

    To release it takes an owner of its namespace besides the role reviewer; the agreement of others waits for one. A
    proposal about a folder is for the machine that has the folder: nothing is written at the server.
    """
    proposal = find_proposal(scope, id)
    if not proposal.location.startswith(PREFIX) or not apply:
        return approve(scope, person, id, comment=comment, apply=False, guard=guard)
    namespace, _, name = proposal.location.removeprefix(PREFIX).partition("/")
    ref = ref_of(namespace, name)
    require_owner(scope, person, find_namespace(scope, namespace), tried="proposal.approved", ref=ref)
    place = _Registry(scope=scope, guard=guard, proposal=proposal, by=person, namespace=namespace, name=name)
    return approve(scope, person, id, comment=comment, guard=guard, destination=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registry:
    """The registry as the destination of a proposal."""

    scope: TenantScope
    guard: Guard
    proposal: Proposal
    by: Person
    namespace: str
    name: str

    def digest(self) -> str | None:
        deployed = self.scope.deployments.get(self.name)
        return deployed.digest if deployed is not None else None

    def put(self, files: Files, comment: str, also: Callable[[str, str], None]) -> None:
        is_deployed = self.digest() is not None
        home, actor = location_of_release(self.namespace, self.name), actor_of(self.by, self.scope)
        if is_deployed:
            subject = subject_in(home, files, self.proposal.proposed_digest)
            decision = self.guard.decide(Action(point="deploy", skill=subject, by="user", path=home.location), actor)
            if decision.outcome == "deny":
                ids = {"proposal": self.proposal.id, "new_digest": self.proposal.proposed_digest}
                raise denied(self.scope, "skill.deployed", actor, home.ref, decision, **ids)
        release = self._released(files) or publish_release(
            self.scope,
            self.by,
            self.namespace,
            files,
            guard=self.guard,
            name=self.name,
            reason=self._reason,
            # Whoever decides has seen them.
            accept_findings=comment or self._reason,
        )
        with self.scope.transaction():
            if self.digest() not in (self.proposal.base_digest or None, release.digest):
                raise SkillChanged(f"{self.name!r} was deployed in another version meanwhile.", hint="Propose it anew.")
            if is_deployed:
                self._deploy(release)
            self.scope.versions.add(
                home.ref, home.location, release.digest, by=self.by.name, reason=self._reason, proposal=self.proposal.id
            )
            also(release.digest, f"version {release.version}")

    @property
    def _reason(self) -> str:
        return f"Proposal {self.proposal.id}."

    def _released(self, files: Files) -> RegistryRelease | None:
        """The release of this very content, as after a crash between the two steps."""
        version = version_of(_version_in(files))
        return next(
            (
                one
                for one in self.scope.releases.all(namespace=self.namespace, name=self.name, status="published")
                if one.digest == self.proposal.proposed_digest and version_of(one.version) == version
            ),
            None,
        )

    def _deploy(self, release: RegistryRelease) -> None:
        self.scope.deployments.put(
            Deployment(
                name=self.name,
                namespace=self.namespace,
                version=release.version,
                digest=release.digest,
                by=self.by.name,
                reason=self._reason,
            )
        )
        record_event(
            self.scope,
            "skill.deployed",
            actor_of(self.by, self.scope),
            ref_of(self.namespace, self.name),
            digest=self.proposal.base_digest,
            new_digest=release.digest,
            path=self.proposal.location,
            proposal=self.proposal.id,
            reason=self._reason,
            notes=(f"version {release.version}",),
        )
