"""A skill deployed for everybody: checked, scanned, and put into the folder of the enterprise layer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import InvalidArgument, SourceUnavailable
from metier.guard import Action, Guard
from metier.guard.audit.governance_events import actor_of, denied, record_event
from metier.hub.apply import approve_content, expire_others, put_in_place
from metier.hub.authorisation import require_person
from metier.hub.folder_replacement import digest_at
from metier.hub.scan_findings import against, is_bad
from metier.hub.skill_files import package_of, require_skill, require_sound
from metier.hub.skill_location import new_location, subject_in
from metier.library.places import (
    named_enterprise_places,
    personal_folders,
    project_folders,
    project_root,
    system_folder,
)
from metier.scan import scan
from metier.skill import FolderPackage, is_valid_name, parse, shown
from metier.skill.package import digest_of_files, files_of
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from pathlib import Path

    from metier.hub.skill_location import SkillLocation
    from metier.scan import ScanReport
    from metier.skill.package import Files
    from metier.store import Person, TenantScope, Version

ROLE, WHAT = "admin", "deploy a skill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The result of a deployment."""

    home: SkillLocation
    version: Version
    report: ScanReport
    """The findings of the scanner."""
    not_approved: str = ""
    """The reason why the deployment does not approve its content; empty where it does."""
    is_unchanged: bool = False
    """Whether it was deployed already, as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployCandidate:
    """A skill that is to be deployed, and the place that it would have."""

    files: Files
    home: SkillLocation
    digest: str

    def require_valid(self) -> None:
        """Raise unless it can lie in a folder on every system, and has nothing in it that loading has to forgive."""
        require_sound(self.files)
        require_skill(self.files, self.home.name, deployable=True)

    def action(self) -> Action:
        """The action that the guard decides about."""
        subject = subject_in(self.home, self.files, self.digest)
        return Action(point="deploy", skill=subject, by="user", path=self.home.location)

    def is_deployed(self, scope: TenantScope, there: str | None) -> bool:
        """Whether exactly this is on record for its place, and lies `there`."""
        known = scope.installs.get(self.home.location)
        return there == self.digest and known is not None and (known.digest, known.state) == (self.digest, "enabled")


def candidate(path: str | os.PathLike[str], to: str | os.PathLike[str] | None = None) -> DeployCandidate:
    """The skill in a folder, for the folder of the enterprise layer or for `to`."""
    files = read_skill_folder(path)
    home = new_location(to or enterprise_folder(), name_in(files))
    return DeployCandidate(files=files, home=home, digest=digest_of_files(files))


def folder_of_layer(layer: str, start: Path) -> str:
    """The folder that a skill is deployed to, for everybody here, for the user, or for the project around `start`."""
    if layer == "personal":
        folder = next(iter(personal_folders()), None)
        if folder is None:
            raise InvalidArgument("There is no home folder to deploy it to.", hint="Name a folder with --to.")
        return folder
    return str(project_folders(project_root(start))[1][0]) if layer == "project" else enterprise_folder()


def enterprise_folder() -> str:
    """The folder for everybody: the first in `$METIER_ENTERPRISE`, else the one of the system."""
    return next(iter(named_enterprise_places()), None) or system_folder()


def deploy(
    scope: TenantScope,
    person: Person,
    path: str | os.PathLike[str],
    *,
    to: str | os.PathLike[str] | None = None,
    reason: str = "",
    accept_findings: str = "",
    environment: str = "",
    guard: Guard | None = None,
) -> Deployed:
    """Put a skill into the folder of the enterprise layer, or into `to`, in place of the one of its name there.

    It must have nothing that loading has to forgive, as `metier validate` says, and what the scanner calls high keeps
    it out unless `accept_findings` says why it does not matter. Takes the role admin.
    """
    wanted = candidate(path, to)
    files, home, digest = wanted.files, wanted.home, wanted.digest
    actor = actor_of(person, scope, environment)
    require_person(scope, person, ROLE, WHAT, type="skill.deployed", skill=home.ref)
    wanted.require_valid()
    guard = guard or Guard()
    effective = guard.governance.effective
    report = scan(package_of(files), packs=effective.scan.packs)
    decision = against(report, accept_findings)
    if decision is None:
        decision = guard.settle(wanted.action(), actor)
    there = digest_at(home.folder)
    said = {"digest": there or "", "new_digest": digest, "path": home.location, "policy": effective.digest}
    if not decision.is_allowed:
        raise denied(scope, "skill.deployed", actor, home.ref, decision, **said)
    if wanted.is_deployed(scope, there):
        last = scope.versions.of(home.location)[-1]
        return Deployed(home=home, version=last, report=report, is_unchanged=True)
    why: list[str] = []

    def also(version: Version) -> None:
        accepted = f"Findings accepted: {accept_findings.strip()}" if is_bad(report) else ""
        notes = tuple(text for text in (f"version {version.number}", accepted) if text)
        record_event(scope, "skill.deployed", actor, home.ref, **said, reason=version.reason, notes=notes)
        because = accepted or version.reason
        why.append(approve_content(scope, effective, person, home, digest, because, environment=environment))
        expire_others(scope, home.location, digest, actor)

    version = put_in_place(
        scope,
        guard.governance.effective,
        home,
        files,
        over=there,
        by=person,
        reason=reason.strip() or "Deployed.",
        also=also,
    )
    return Deployed(home=home, version=version, report=report, not_approved=why[0])


def read_skill_folder(path: str | os.PathLike[str]) -> Files:
    """The files of the skill in a folder, or beside a SKILL.md."""
    folder = os.path.realpath(absolute(expanded(os.fspath(path))))
    if os.path.basename(folder).lower() == "skill.md":
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise SourceUnavailable(f"There is no folder {shown(folder, 300)}.", hint="Name the folder of a skill.")
    return files_of(FolderPackage(folder))


def name_in(files: Files) -> str:
    """The name that files give themselves; raises `InvalidArgument` where they give none, or none that is valid."""
    _, data = files.get("SKILL.md", ("file", b""))
    name = parse(data, folder="").skill.name
    if not is_valid_name(name):
        raise InvalidArgument(
            f"There is no SKILL.md with a valid name; this one would be {shown(name)!r}.",
            hint="Write `name:` with a-z, 0-9 and single hyphens, at most 64.",
        )
    return name
