"""A release that is given to others: into the folder of a registry, a git repository or an OCI registry."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import InvalidArgument, MetierError, SkillInvalid
from metier.guard import Guard
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.hub.authorisation import require_person
from metier.hub.folder_replacement import replacing
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.release import read_release
from metier.hub.publish.site import publish_action
from metier.hub.scan_findings import against, is_bad
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer
from metier.skill import shown

if TYPE_CHECKING:
    import os

    from metier.hub.publish.release import Release
    from metier.hub.sources.address import SourceAddress
    from metier.store import Person, TenantScope

ROLE, WHAT = "author", "publish a skill"
BEGUN, EVENT = "skill.publishing", "skill.published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A release, and where others get it now."""

    release: Release
    target: str
    """The target as policies and records name it."""
    location: str
    """The folder, the tag or the reference to fetch it from."""
    revision: str = ""
    """The commit or the digest that it has there."""


def publish(
    scope: TenantScope,
    person: Person,
    path: str | os.PathLike[str],
    to: str,
    *,
    reason: str = "",
    accept_findings: str = "",
    environment: str = "",
    key: str = "",
    guard: Guard | None = None,
    transfer: Transfer | None = None,
) -> Published:
    """Publish the skill in a folder; raises `SkillExists` where its version was published there before.

    It needs a version and nothing that loading has to forgive. What the scanner calls high keeps it back unless
    `accept_findings` says why it does not matter, and rules of policy decide about the point `publish`, with the target
    as `source`. `key` is the file of a private key that signs it. Takes the role author.
    """
    address = parse_address(to)
    release = read_release(path, key=key)
    if not release.version:
        raise SkillInvalid(
            f"{shown(release.name)!r} has no version, and what was published never changes.",
            hint="Write `version: 1.0.0` below `metadata:` in its SKILL.md.",
        )
    guard, actor = guard or Guard(), actor_of(person, scope, environment)
    ref = f"{release.name}@{address.name}"
    require_person(scope, person, ROLE, WHAT, type=EVENT, skill=ref)
    report = release.scan()
    decision = against(report, accept_findings) or guard.settle(publish_action(release, address.name), actor)
    said = {"new_digest": release.digest, "path": address.name, "policy": guard.governance.effective.digest}
    if not decision.is_allowed:
        raise denied(scope, EVENT, actor, ref, decision, **said)
    why = reason.strip() or "Published."
    # Nothing leaves before it is on record that it does.
    record_event(scope, BEGUN, actor, ref, **said, reason=why)
    try:
        done = _put(release, address, person.name, reason, transfer or Transfer())
    except BaseException:
        with contextlib.suppress(MetierError):
            record_event(scope, BEGUN, actor, ref, **said, decision="deny", reason="It came to nothing.")
        raise
    accepted = f"Findings accepted: {accept_findings.strip()}" if is_bad(report) else ""
    notes = (f"version {release.version}", done.location, done.revision, accepted)
    record_event(scope, EVENT, actor, ref, **said, reason=why, notes=tuple(filter(None, notes)))
    return done


def _put(release: Release, address: SourceAddress, by: str, reason: str, transfer: Transfer) -> Published:
    if address.kind == "dir":
        return _to_folder(release, address, by)
    if address.kind == "git":
        from metier.hub.publish.git_target import push_release

        tag, commit = push_release(release, address, transfer, by=by, reason=reason)
        return Published(release=release, target=address.name, location=tag, revision=commit)
    if address.kind == "oci":
        from metier.hub.publish.oci import push_skill

        digest = push_skill(release.files, address, release.skill, version=release.version, transfer=transfer)
        location = f"{address.name}@{digest}"
        return Published(release=release, target=address.name, location=location, revision=digest)
    raise InvalidArgument(
        f"Skills are not published to {shown(address.name, 300)}.",
        hint="Name the folder of a registry, a git repository such as git+ssh://host/skills, or oci:host/repository.",
    )


def _to_folder(release: Release, address: SourceAddress, by: str) -> Published:
    registry = RegistryFolder(address.location)
    folder = registry.folder_for(release)
    with replacing(folder, release.files, over=None) as put:
        put()
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    registry.note("published", release.name, {"digest": release.digest, "at": at, "by": by}, version=release.version)
    return Published(release=release, target=address.name, location=folder)
