"""The plan to install a skill: its content, its place, its capabilities, and the decision about it.

Making a plan writes nothing outside of temporary folders, but for putting right what an installation left that was
killed, and runs nothing of the skill.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier._suggest import did_you_mean
from metier.errors import InvalidArgument, SkillChanged, SkillExists, SkillInvalid, SkillNotFound, SourceUnavailable
from metier.guard import Action
from metier.guard.approvals.roles import is_approver
from metier.guard.audit.governance_events import actor_of, denied
from metier.guard.decision import refuse
from metier.hints import for_people
from metier.hub.folder_replacement import digest_at, recover
from metier.hub.packages.plan import NO_PACKAGES, plan_packages
from metier.hub.scan_findings import against
from metier.hub.signatures import judge_signature
from metier.hub.skill_files import capabilities_of, list_diagnostics, package_of, require_sound, skill_file
from metier.hub.skill_location import new_location, require_unlinked, subject_in
from metier.library.places import LAYERS
from metier.scan import scan
from metier.scan.capabilities import infer
from metier.skill import is_valid_name, parse, shown
from metier.skill.package import digest_of_files
from metier.source.unpack import is_portable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.guard import Actor, Decision, Guard
    from metier.hub.packages.plan import PackagePlan
    from metier.hub.signatures import JudgedSignature
    from metier.hub.skill_location import SkillLocation
    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Candidate, Fetched, Permit, Resolved
    from metier.library import SkillLookup
    from metier.library.lock_file import LockedSkill, LockFile
    from metier.scan import ScanReport
    from metier.skill import Skill
    from metier.skill.package import Files
    from metier.store import Person, TenantScope

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTerms:
    """The wishes of the person who installs."""

    folder: str
    """The folder of skills that it goes to."""
    accept_findings: str = ""
    """The reason why grave findings of the scanner do not matter."""
    is_pinned: bool = False
    """Whether updates leave it as it is."""
    allow_unsigned: str = ""
    """The reason why it needs no signature, although policy wants one."""
    accept_signer: str = ""
    """The reason why another signer than before is as good."""
    progress: Callable[[str], object] = str
    """Gets the name of each step that may take long."""
    as_locked: LockedSkill | None = None
    """The entry of the lock that is brought back, and stays as it is; None for one that is to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """A skill that is to be installed, with all that a person should know first."""

    candidate: Candidate
    resolved: Resolved
    skill: Skill
    files: Files
    digest: str
    home: SkillLocation
    there: str | None
    """The digest of what lies in its place; None for nothing."""
    capabilities: tuple[str, ...]
    new_capabilities: tuple[str, ...]
    """Capabilities that the content in its place does not have; all of them where there is none."""
    report: ScanReport
    shadows: tuple[str, ...]
    """The skills, as `name@source`, that would no longer answer to its name."""
    shadowed_by: str
    """The skill that has its name in a stronger layer; empty for none."""
    action: Action
    """The action that is decided about."""
    decision: Decision
    judged: JudgedSignature
    """Its signature."""
    packages: PackagePlan = NO_PACKAGES
    """The packages that its scripts would get."""
    terms: InstallTerms
    lock_path: str
    """The lock file that it is recorded in."""
    scan_seconds: float = 0.0
    """The CPU time of the scanner."""

    @property
    def is_unchanged(self) -> bool:
        """Whether exactly this lies in its place."""
        return self.there == self.digest

    @property
    def version(self) -> str:
        """The version that the skill says it has, or that of its package."""
        return self.skill.version or self.candidate.version


def source_permit(guard: Guard, person: Person | None = None, scope: TenantScope | None = None) -> Permit:
    """A function that raises for a source that policy denies, so that it is not even asked; with a store, on record."""

    def permit(address: SourceAddress, /, *, is_way: bool = False) -> None:
        decision = guard.decide(Action(point="install", source=address.name, by="user"))
        # The other conditions are about a skill, and nobody has seen one yet.
        checks = ("sources.deny",) if is_way else ("sources.allow", "sources.deny")
        if decision.is_allowed or not decision.check.startswith(checks):
            return
        if scope is not None and person is not None:
            raise denied(scope, "skill.installed", actor_of(person, scope), "", decision, path=address.name)
        raise decision.as_error()

    return permit


def choose(fetched: Fetched, names: Sequence[str]) -> list[Candidate]:
    """The candidates that are meant by names; without any, the only one that there is.

    Raises `SkillNotFound` for a name that none has, `SourceUnavailable` for one that was withdrawn, and
    `InvalidArgument` where somebody has to choose.
    """
    candidates, source = fetched.offered, shown(fetched.resolved.address.name, 300)
    for one in fetched.candidates:
        if one.yanked and not fetched.resolved.address.ref and (one.folder in names or not candidates):
            raise SourceUnavailable(
                f"{shown(one.folder)!r} was withdrawn by its author: {one.yanked}",
                hint="Choose another version, or another skill.",
                name=one.folder,
            )
    if not candidates:
        path = fetched.resolved.address.path
        within = f" in {shown(path, 200)!r}" if path else ""
        raise SkillNotFound(
            f"{source} has no skill{within}: there is no SKILL.md.",
            hint="Check the address; it may name a folder in the source, as in owner/repo/path.",
        )
    if not names and len(candidates) > 1:
        raise InvalidArgument(
            f"{source} has {len(candidates):,} skills: {_listed([one.folder for one in candidates])}.",
            hint="Name those that you want behind the source, or add --all; `--all --dry-run` describes them.",
            skills=[one.folder for one in candidates],
        )
    chosen = [one for name in names for one in _meant_by(candidates, name)] if names else candidates
    return list({(one.source, one.path): one for one in chosen}.values())


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(map(shown, names[:_MOST_NAMED]))
    return listed + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _meant_by(candidates: Sequence[Candidate], name: str) -> Sequence[Candidate]:
    """The skill of a name, which may be written as `name@package`, or all skills of the package in `@package`."""

    def calls_itself_so(one: Candidate) -> bool:
        own = "" if one.is_plugin else parse(one.skill_file(), folder=one.folder).skill.name
        return bool(own) and name in (own, f"{own}@{one.package}")

    # The folder has the name in nearly all sources; only where none has are the files of all of them read.
    same = [one for one in candidates if name in (one.folder, one.path, f"{one.folder}@{one.package}")]
    if not same and (package := [one for one in candidates if one.package == name.removeprefix("@")]):
        return package
    same = same or list(filter(calls_itself_so, candidates))
    if len(same) > 1:
        listed = _listed([one.path for one in same])
        raise InvalidArgument(f"{shown(name)!r} may be any of {listed}.", hint="Name it by its path.", name=name)
    if not same:
        folders = [one.folder for one in candidates]
        hint = did_you_mean(name, folders).rstrip() or f"It has {_listed(folders)}."
        raise SkillNotFound(f"The source has no skill {shown(name)!r}.", hint=hint, name=name)
    return same


def plan_install(
    scope: TenantScope,
    guard: Guard,
    person: Person,
    candidate: Candidate,
    resolved: Resolved,
    *,
    terms: InstallTerms,
    lock: LockFile,
    library: SkillLookup,
) -> InstallPlan:
    """Read, scan and judge a skill that was fetched.

    Raises where it can never be installed: it is no skill, or its place is taken by something that is not to be lost.
    """
    asked, resolved = resolved, candidate.resolved or resolved
    files = candidate.files()
    require_sound(files)
    skill = _skill(files, candidate)
    if candidate.folder not in ("", skill.name, skill.declared_name):
        called = f"Its folder is {shown(candidate.folder)!r}; the skill calls itself {shown(skill.name)!r}."
        candidate = replace(candidate, notes=(*candidate.notes, called))
    digest = digest_of_files(files)
    home = new_location(terms.folder, skill.name)
    require_unlinked(home, lock.root)
    recover(os.path.dirname(home.folder))
    there = digest_at(home.folder)
    locked = lock.at(lock.relative(home.location))
    _require_free(scope, home, there, digest, resolved, locked)
    effective = guard.governance.effective
    package = package_of(files)
    found = infer(package, network=effective.network_tools, write=effective.write_tools).names
    known = capabilities_of(scope.revisions.get(there) if there is not None else None)
    others = [
        entry
        for entry in library.entries(all=True)
        if entry.name == skill.name and os.path.dirname(entry.location) != home.location
    ]
    judged = judge_signature(
        files,
        effective,
        resolved.address.name,
        previous=locked.signer if locked is not None else "",
        allow_unsigned=terms.allow_unsigned,
        accept_signer=terms.accept_signer,
    )
    started = time.process_time()
    report = scan(package, packs=effective.scan.packs)
    scan_seconds = time.process_time() - started
    action = Action(
        point="install" if there is None else "update",
        skill=subject_in(home, files, digest),
        by="user",
        path=home.location,
        source=resolved.address.name,
        pinned=resolved.is_exact or terms.is_pinned,
        signature=judged.signature.kind,
        signer=judged.signature.signer,
        unsigned_because=judged.unsigned_because,
        rivals=frozenset(entry.layer for entry in others) if guard.governance.looks_at_rivals else frozenset(),
    )
    decision = judged.against or _settle(guard, action, actor_of(person, scope), asked)
    if decision.is_allowed and judged.exceptions and not is_approver(person, effective.approval.approvers):
        reason = f"{shown(person.name)!r} may not make an exception from signatures."
        hint = "Ask one of the approvers that policy names."
        decision = refuse("signature", reason, code="not-permitted", hint=hint)
    if decision.is_allowed:
        decision = against(report, terms.accept_findings) or decision
    packages = NO_PACKAGES
    if decision.is_allowed:
        # Packages that are locked for a content stay what they are while it does.
        lines = locked.packages if locked is not None and locked.digest == digest else ()
        packages = plan_packages(files, found, effective, locked=lines, progress=terms.progress)
    stronger = [entry for entry in others if LAYERS.index(entry.layer) < LAYERS.index(home.layer)]
    return InstallPlan(
        candidate=candidate,
        resolved=resolved,
        skill=skill,
        files=files,
        digest=digest,
        home=home,
        there=there,
        capabilities=found,
        new_capabilities=tuple(name for name in found if name not in known),
        report=report,
        shadows=tuple(entry.reference for entry in others if entry not in stronger),
        shadowed_by=stronger[0].reference if stronger else "",
        judged=judged,
        action=action,
        decision=decision,
        packages=packages,
        terms=terms,
        lock_path=lock.path,
        scan_seconds=scan_seconds,
    )


def _settle(guard: Guard, action: Action, actor: Actor, asked: Resolved) -> Decision:
    """The decision about a skill of a source, and about the marketplace that led to that source."""
    if asked.address.name != action.source:
        first = guard.settle(replace(action, source=asked.address.name, pinned=asked.is_exact), actor)
        if not first.is_allowed:
            return first
    return guard.settle(action, actor)


def _skill(files: Files, candidate: Candidate) -> Skill:
    """The skill that files make, by a name that a folder can have."""
    file = skill_file(files)
    skill = parse(files[file][1], folder=candidate.folder, file=file).skill
    wrong = [note for note in skill.diagnostics if note.severity == "error"]
    if wrong:
        raise SkillInvalid(
            f"{shown(candidate.path or candidate.folder)!r} cannot be loaded. {list_diagnostics(wrong)}",
            hint="Ask its author to mend it.",
            findings=[note.as_json() for note in wrong],
        )
    if not is_valid_name(skill.name) or not is_portable_name(skill.name):
        raise SkillInvalid(
            f"{shown(skill.name)!r} is no name that a skill can be installed by.",
            hint="Ask its author for a name of a-z, 0-9 and single hyphens, at most 64, that every system can store.",
            name=skill.name,
        )
    return skill


def _require_free(
    scope: TenantScope,
    home: SkillLocation,
    there: str | None,
    digest: str,
    resolved: Resolved,
    locked: LockedSkill | None,
) -> None:
    """Raise unless what lies in the place is nothing, the same, or what this source put there and nobody changed."""
    if there is None or there == digest:
        return
    known = scope.installs.get(home.location)
    if locked is None:
        raise SkillExists(
            f"{shown(home.location, 300)} is there already, and was not installed by `metier add`.",
            hint="Move it away first, or add the skill to another place with --to.",
            name=home.name,
        )
    if locked.source != resolved.address.name:
        raise SkillExists(
            f"{shown(home.name)!r} is installed from {shown(locked.source, 300)}.",
            hint=for_people("Remove it first: `metier remove {name}`.", name=home.name),
            name=home.name,
        )
    if there not in (known and known.digest, *locked.digests):
        raise SkillChanged(
            f"{shown(home.name)!r} was changed by hand since it was installed, and would be lost.",
            hint=for_people("`metier lock --check` shows what changed. Keep what you need, and remove it first."),
            name=home.name,
        )
