"""A release of a skill: one version of it, valid and looked at by the scanner, as others are to get it."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, pattern
from metier._paths import is_inside, write_file
from metier.errors import FileRefused, InvalidArgument, SkillInvalid, SourceUnavailable
from metier.guard.signatures import SIGNATURE_FILE, verify
from metier.guard.signers import TrustedSigners
from metier.hub.deployment import name_in, read_skill_folder
from metier.hub.publish.pack import kind_of_archive, pack, without_links
from metier.hub.scan_findings import against
from metier.hub.signatures import sign_files
from metier.hub.skill_files import package_of, require_skill, require_sound
from metier.scan import scan
from metier.scan.capabilities import infer
from metier.skill import parse, shown
from metier.skill.package import digest_of_files
from metier.skill.skill_requirement import version_of
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from metier.scan import ScanReport
    from metier.skill import Skill
    from metier.skill.package import Files

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
    capabilities: tuple[str, ...]

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

    def scan(self) -> ScanReport:
        """The findings of the scanner."""
        return scan(package_of(self.files))

    def require_clean(self, accept_findings: str = "") -> ScanReport:
        """Raise `Refused` where the scanner found something of severity high that nobody answers for."""
        report = self.scan()
        decision = against(report, accept_findings)
        if decision is not None:
            raise decision.as_error()
        return report


def read_release(source: str | os.PathLike[str] | Files, *, version: str = "", key: str = "") -> Release:
    """The release in a folder, or of files; raises where it has anything in it that loading would have to forgive.

    `version` is the one that it is kept as; raises `SkillInvalid` where it says another of itself. It is signed by the
    private key in the file `key`. Raises `SignatureRefused` where it has a signature of other content.
    """
    files = read_skill_folder(source) if isinstance(source, str | os.PathLike) else source
    name = name_in(files)
    require_sound(files)
    plain, copied = without_links(files)
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
    plain = dict(sign_files(plain, key, name=name)) if key else plain
    if SIGNATURE_FILE in plain:
        verify(plain, TrustedSigners())
    return Release(
        skill=skill,
        version=found,
        files=plain,
        digest=digest_of_files(plain),
        copied=copied,
        capabilities=infer(package_of(plain)).names,
    )


def require_version(version: str) -> None:
    """Raise `SkillInvalid` unless a version can be compared with others, and be part of a file's name and of a tag."""
    if not _VERSION.fullmatch(version) or version_of(version) is None or ".." in version or version.endswith("."):
        raise SkillInvalid(f"{shown(version)!r} is no version.", hint="Write it as 1.2.0 or 2.0.0rc1.")


def pack_skill(
    path: str | os.PathLike[str], to: str | os.PathLike[str], *, accept_findings: str = "", key: str = ""
) -> tuple[Release, dict[str, Any]]:
    """Write the archive of the skill in a folder; the release, and what is to be said of the file.

    `key` is the file of a private key that signs it.
    """
    target = absolute(expanded(os.fspath(to)))
    kind = kind_of_archive(os.path.basename(target))
    folder = os.path.realpath(absolute(expanded(os.fspath(path))))
    if is_inside(os.path.realpath(target), folder):
        raise InvalidArgument(
            "The archive would become a part of the skill that it is made of.", hint="Name a file elsewhere."
        )
    release = read_release(path, key=key)
    release.require_clean(accept_findings)
    data = pack(release.files, kind)
    if os.path.isdir(target):
        raise FileRefused(f"{shown(target, 300)} is a folder.", hint="Name the file to write.", path=target)
    try:
        write_file(target, data, mode=0o666)
    except OSError as error:
        raise SourceUnavailable(
            f"{shown(target, 300)} cannot be written: {error.strerror}.", hint="Check its folder.", path=target
        ) from None
    told = {
        "file": target,
        "sha256": hashlib.sha256(data).hexdigest(),
        "digest": release.digest,
        "bytes": len(data),
        "files": len(release.files),
        "name": release.name,
        "version": release.version or None,
        "copied": list(release.copied),
        "signed": SIGNATURE_FILE in release.files,
    }
    return release, told
