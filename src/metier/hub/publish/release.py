"""A release of a skill: one version of it, valid, and judged before others get it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, pattern
from metier.errors import SkillExists, SkillInvalid
from metier.guard import Action
from metier.guard.audit.governance_events import governance_record
from metier.guard.signatures import SIGNATURE_FILE, verify
from metier.guard.signers import TrustedSigners
from metier.hub.deployment import name_in, read_skill_folder
from metier.hub.scan_findings import against, is_bad
from metier.hub.signatures import judge_signature, sign_files
from metier.hub.skill_files import package_of, require_skill, require_sound, without_links
from metier.hub.skill_location import SkillLocation, subject_in
from metier.scan import scan
from metier.skill import parse, shown
from metier.skill.package import digest_of_files
from metier.skill.skill_requirement import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard import Actor, Decision, Guard
    from metier.scan import ScanReport
    from metier.skill import Skill
    from metier.skill.package import Files
    from metier.store import RegistryRelease

_VERSION = pattern(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a skill, with copies in place of its links."""

    skill: Skill
    version: str
    """Empty where its author gave none."""
    files: Files
    digest: str
    """Of its content, as whoever installs it has it."""
    copied: tuple[str, ...]
    """Links that became copies of the files that they lead to."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.skill.name

    @property
    def label(self) -> str:
        """The name with the version: the name of its archive and of its tag.

        >>> read_release({"SKILL.md": ("file", b"---\\nname: a\\ndescription: Do it.\\nversion: 1.2\\n---\\n")}).label
        'a-1.2'
        """
        return f"{self.name}-{self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The decision about a release, with its grounds."""

    report: ScanReport
    decision: Decision
    signer: str = ""

    def notes(self, accept_findings: str) -> tuple[str, ...]:
        """The sentences about it for the audit log."""
        accepted = f"Findings accepted: {accept_findings.strip()}" if is_bad(self.report) else ""
        return tuple(filter(None, (accepted, self.signer and f"signed by {self.signer}")))


def read_release(source: str | os.PathLike[str] | Files, *, version: str = "", key: str = "") -> Release:
    """The release in a folder, or of files; raises where it has anything in it that loading would have to forgive.

    `version` is the one that it is kept as; raises `SkillInvalid` where it says another of itself. It is signed by the
    private key in the file `key`. Raises `SignatureRefused` where it has a signature of other content.
    """
    files = read_skill_folder(source) if isinstance(source, str | os.PathLike) else source
    name = name_in(files)
    require_sound(files)
    plain = without_links(files)
    require_skill(plain, name, deployable=True)
    skill = parse(plain["SKILL.md"][1], folder=name).skill
    own = (skill.version or "").strip()
    if version and own and own != version:
        raise SkillInvalid(
            f"{shown(name)!r} says that it is version {shown(own)!r}, and it is kept as {shown(version)!r}.",
            hint="Let both say the same.",
        )
    found = own or version
    if found:
        require_version(found)
    signed = sign_files(plain, key, name=name) if key else plain
    if SIGNATURE_FILE in signed:
        verify(signed, TrustedSigners())
    copied = tuple(sorted(path for path, (mode, _) in files.items() if mode == "link"))
    return Release(skill=skill, version=found, files=signed, digest=digest_of_files(signed), copied=copied)


def require_version(version: str) -> None:
    """Raise `SkillInvalid` unless a version can be compared with others, and be part of a file's name and of a tag."""
    if not _VERSION.fullmatch(version) or version_of(version) is None or ".." in version or version.endswith("."):
        raise SkillInvalid(f"{shown(version)!r} is no version.", hint="Write it as 1.2.0 or 2.0.0rc1.")


def require_new(release: Release | RegistryRelease, published: Iterable[str]) -> None:
    """Raise `SkillExists` where a version is among those that were published, in whatever spelling."""
    for version in published:
        if version_of(version) == version_of(release.version):
            raise SkillExists(
                f"{shown(release.name)} {shown(version)} is published already, and a version never changes.",
                hint="Publish it under a new version.",
                name=release.name,
            )


def judge_release(
    release: Release, target: str, guard: Guard, actor: Actor, *, accept_findings: str = "", asks: bool = True
) -> Judgement:
    """Let its signature, the scanner and policy decide whether a release is given to others; records nothing.

    `target` is called as sources are, and is the `source` that rules for the point `publish` name. It `asks` whoever
    the guard would ask.
    """
    effective = guard.governance.effective
    signed = judge_signature(release.files, effective, target)
    report = scan(package_of(release.files), packs=effective.scan.packs)
    home = SkillLocation(location="", name=release.name, source="release", layer="project")
    action = Action(
        point="publish",
        skill=subject_in(home, release.files, release.digest),
        by="user",
        source=target,
        signature=signed.signature.kind,
        signer=signed.signature.signer,
    )
    refusal = signed.against or against(report, accept_findings)
    decision = refusal or (guard.settle if asks else guard.decide)(action, actor)
    return Judgement(report=report, decision=decision, signer=signed.signature.signer)


def record_made(type: str, by: tuple[Guard, Actor], **fields: Any) -> None:  # noqa: A002
    """Record that something was made of releases, where anything is recorded: no store is made for that alone."""
    guard, actor = by
    governance = guard.governance
    if os.environ.get("METIER_AUDIT") or governance.insists_on_records or governance.store() is not None:
        guard.record(governance_record(type, actor=actor, policy=governance.effective.digest, **fields))
