"""A release that is given to others: into the folder of a registry, a git repository or an OCI registry."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument, MetierError, SkillInvalid
from metier.guard import Guard
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.hub.authorisation import demand_of_person, require_person
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.release import judge_release, read_release
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer
from metier.skill import shown

if TYPE_CHECKING:
    import os

    from metier.hub.publish.release import Judgement, Release
    from metier.hub.sources.address import SourceAddress
    from metier.store import Person, TenantScope

ROLE, WHAT = "author", "publish a skill"
BEGUN, EVENT = "skill.publishing", "skill.published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A release, the decision about it, and where others get it."""

    release: Release
    judged: Judgement
    target: str
    """The target as policies and records name it."""
    location: str = ""
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
    dry_run: bool = False,
) -> Published:
    """Publish the skill in a folder; raises `SkillExists` where its version was published there before.

    It needs a version and nothing that loading has to forgive. What the scanner calls high keeps it back unless
    `accept_findings` says why it does not matter, and rules of policy decide about the point `publish`, with the target
    as `source`. `key` is the file of a private key that signs it. Takes the role author. With `dry_run` nothing is
    written and nothing recorded, and a decision against it is part of the result.
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
    if dry_run:
        demand_of_person(person, ROLE, WHAT)
    else:
        require_person(scope, person, ROLE, WHAT, type=EVENT, skill=ref)
    judged = judge_release(release, address.name, guard, actor, accept_findings=accept_findings, asks=not dry_run)
    done = Published(release=release, judged=judged, target=address.name)
    put = partial(_put, done, address, transfer or Transfer(), by=person.name, reason=reason.strip(), dry_run=dry_run)
    if dry_run:
        return put() if judged.decision.is_allowed else done
    fields = {"new_digest": release.digest, "path": address.name, "policy": guard.governance.effective.digest}
    if not judged.decision.is_allowed:
        raise denied(scope, EVENT, actor, ref, judged.decision, **fields)
    why = reason.strip() or "Published."
    # Nothing leaves before it is on record that it does.
    record_event(scope, BEGUN, actor, ref, **fields, reason=why)
    try:
        done = put()
    except BaseException:
        with contextlib.suppress(MetierError):
            record_event(scope, BEGUN, actor, ref, **fields, decision="deny", reason="It came to nothing.")
        raise
    notes = (f"version {release.version}", done.location, done.revision, *judged.notes(accept_findings))
    record_event(scope, EVENT, actor, ref, **fields, reason=why, notes=tuple(filter(None, notes)))
    return done


def withdraw(
    scope: TenantScope,
    person: Person,
    registry: str | os.PathLike[str],
    name: str,
    *,
    version: str | None = None,
    successor: str = "",
    reason: str = "",
    undo: bool = False,
) -> None:
    """Yank a version of a skill in the folder of a registry, or without a version deprecate the skill; or undo that.

    Takes the role author, and is on record or not done.
    """
    folder, reason = RegistryFolder(registry), reason.strip()
    if version is not None and not reason and not undo:
        raise InvalidArgument("A version is not yanked without a reason.", hint="Say why: --reason TEXT.")
    event = f"skill.{'un' if undo else ''}{'deprecated' if version is None else 'yanked'}"
    ref = f"{name}@dir:{folder.path}"
    require_person(scope, person, ROLE, "withdraw a skill", type=event, skill=ref)
    notes = tuple(filter(None, (version and f"version {version}", successor and f"successor {successor}")))
    with scope.transaction():
        record_event(scope, event, actor_of(person, scope), ref, path=folder.path, reason=reason, notes=notes)
        if version is not None:
            folder.yank(name, version, "" if undo else reason)
        else:
            folder.deprecate(name, successor=successor, reason=reason, undo=undo)


def _put(
    done: Published, address: SourceAddress, transfer: Transfer, *, by: str, reason: str, dry_run: bool
) -> Published:
    """Put a release where others get it, or look whether that could be done."""
    release = done.release
    if address.kind == "dir":
        registry = RegistryFolder(address.location)
        return replace(done, location=registry.folder_for(release) if dry_run else registry.put(release, by))
    if address.kind == "git":
        from metier.hub.publish.git_target import push_release

        tag, commit = push_release(release, address, transfer, by=by, reason=reason, dry_run=dry_run)
        return replace(done, location=tag, revision=commit)
    if address.kind == "oci":
        from metier.hub.publish.oci import push_skill

        digest = push_skill(release, address, transfer, dry_run=dry_run)
        return replace(done, location=f"{address.name}@{digest}", revision=digest)
    raise InvalidArgument(
        f"Skills are not published to {shown(address.name, 300)}.",
        hint="Name the folder of a registry, a git repository such as git+ssh://host/skills, or oci:host/repository.",
    )
