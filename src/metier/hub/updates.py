"""Installed skills and their sources: which have a newer state, and the skills as a lock file has them.

Each source is asked once, however many of its skills are installed, and fetched only where its state is another one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier._suggest import did_you_mean
from metier.errors import IntegrityFailed, LockInvalid, MetierError, SkillNotFound
from metier.hints import for_people
from metier.hub.deployment import enterprise_folder
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Candidate, Resolved, fetch, resolve
from metier.library.clients import PROJECT_FOLDERS
from metier.library.places import personal_folders
from metier.skill import FolderPackage, shown
from metier.skill.package import digest_of_files, files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer
    from metier.library.lock_file import LockedSkill, LockFile
    from metier.library.places import Layer
    from metier.skill.package import Files
    from metier.store import TenantScope

_BY_REVISION = frozenset({"git", "apm", "pypi", "oci", "well-known"})
"""Kinds of sources that an earlier state can be asked of."""
_REGISTRIES = frozenset({"apm", "pypi", "well-known"})
"""Kinds of sources in which a version never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSkill:
    """A skill of a lock file, together with the lock file."""

    lock: LockFile
    locked: LockedSkill

    @property
    def location(self) -> str:
        """The folder that it lies in."""
        return self.lock.folder_of(self.locked)

    @property
    def layer(self) -> Layer:
        """The layer that the lock file is of."""
        return "personal" if os.path.basename(self.lock.root) == ".metier" else "project"

    @property
    def add_command(self) -> str:
        """The command that brings it again once it was removed."""
        ref = ("--ref", self.locked.ref) if self.locked.ref else ()
        return shlex.join(("metier", "add", self.locked.source, self.locked.name, *ref, "--to", self.layer))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source of installed skills, as it is now."""

    address: SourceAddress
    resolved: Resolved | None = None
    """Its state; None where it could not be asked."""
    newer: tuple[InstalledSkill, ...] = ()
    """The skills that were taken from another state of it."""
    notices: tuple[str, ...] = ()
    """Sentences about skills that it calls deprecated, and about installed versions that were withdrawn."""
    problem: str = ""


def installed_skills(locks: Iterable[LockFile], names: Sequence[str] = ()) -> list[InstalledSkill]:
    """The skills of lock files, or those with some names; raises `SkillNotFound` for a name that none has.

    A lock file comes with a project, and is not believed about folders that would be replaced or removed: `LockInvalid`
    for one that is no folder of a skill.
    """
    every = [InstalledSkill(lock=lock, locked=locked) for lock in locks for locked in lock.skills]
    own, of_projects = {*personal_folders(), enterprise_folder()}, tuple(f"/{place}" for place in PROJECT_FOLDERS)
    for one in every:
        folder, name = os.path.split(one.location)
        if name != one.locked.name or not (folder in own or folder.replace(os.sep, "/").endswith(of_projects)):
            raise LockInvalid(
                f"{shown(one.lock.path, 300)} has {shown(one.locked.name)!r} in {shown(one.locked.folder, 300)!r}, "
                "which is no folder of that skill.",
                hint="Restore it from version control, or delete it and add the skills again.",
                path=one.lock.path,
            )
    for name in names:
        if not any(one.locked.name == name for one in every):
            meant = did_you_mean(name, [one.locked.name for one in every])
            raise SkillNotFound(
                f"No skill {shown(name)!r} was installed by `metier add`.",
                hint=for_people("{meant}`metier lock` lists what is.", meant=meant),
                name=name,
            )
    return [one for one in every if not names or one.locked.name in names]


def source_states(skills: Iterable[InstalledSkill], transfer: Transfer) -> Iterator[SourceState]:
    """The sources of skills as they are now, by at most one request for each of them."""
    groups: dict[SourceAddress, list[InstalledSkill]] = {}
    for one in skills:
        groups.setdefault(_address(one.locked), []).append(one)
    for address, members in groups.items():
        try:
            resolved = _resolved(address, members, transfer)
            newer, notices = _newer(members, resolved, transfer), tuple(_withdrawal_warnings(members, resolved))
            yield SourceState(address=address, resolved=resolved, newer=newer, notices=notices)
        except MetierError as error:
            yield SourceState(address=address, problem=error.message)


def _resolved(address: SourceAddress, skills: Iterable[InstalledSkill], transfer: Transfer) -> Resolved:
    return replace(resolve(address, transfer), known=tuple(one.locked.path for one in skills))


def _newer(skills: Iterable[InstalledSkill], resolved: Resolved, transfer: Transfer) -> tuple[InstalledSkill, ...]:
    """The skills that were taken from another state of their source; by their files where it has no states."""
    if resolved.revision:
        return tuple(one for one in skills if one.locked.revision != resolved.revision_of(one.locked.path))
    with fetch(resolved, transfer) as fetched:
        found = [(one, candidate_for(one.locked, fetched.candidates)) for one in skills]
        return tuple(one for one, candidate in found if not _has_content(candidate, one.locked.digest))


def _withdrawal_warnings(skills: Iterable[InstalledSkill], resolved: Resolved) -> Iterator[str]:
    for one in (one.locked for one in skills):
        if deprecated := (resolved.deprecated or {}).get(one.path):
            yield f"{one.name}: {deprecated}"
        if yanked := (resolved.yanked or {}).get(one.revision):
            yield f"{one.name}: The installed version {one.version} was withdrawn by its author: {yanked}"


def _has_content(candidate: Candidate | None, digest: str) -> bool:
    try:
        return candidate is not None and digest_of_files(candidate.files()) == digest
    except MetierError:
        return False


def candidate_for(locked: LockedSkill, candidates: Sequence[Candidate]) -> Candidate | None:
    """The skill of a source that a locked one was taken from: by its path, else by its folder's name."""
    candidates = [one for one in candidates if not one.is_plugin]
    by_path = [one for one in candidates if one.path == locked.path]
    if len(by_path) > 1 and locked.version:
        by_path = [one for one in by_path if not one.yanked] or by_path
    found = next(iter(by_path), None) or next((one for one in candidates if one.folder == locked.name), None)
    # The marketplace that led to a source may be all that names its package.
    return found if found is None or found.package else replace(found, package=locked.package)


def is_rewritten(locked: LockedSkill, candidate: Candidate, address: SourceAddress) -> bool:
    """Whether a registry has another content for the version that is installed."""
    is_same_version = bool(candidate.version) and candidate.version == locked.version and address.kind in _REGISTRIES
    return is_same_version and not _has_content(candidate, locked.digest)


@contextlib.contextmanager
def locked_candidates(
    scope: TenantScope, skills: Iterable[InstalledSkill], transfer: Transfer, *, is_source_proven: bool = False
) -> Iterator[list[tuple[InstalledSkill, Candidate | MetierError, Resolved]]]:
    """Skills with exactly the content that the lock file says, kept on this machine or fetched and verified.

    In place of one that cannot be had there is the error that says why. With `is_source_proven`, which policies about
    sources want, a lock file that came with a project is not believed about where the content beside it is from: it is
    fetched from there, unless it is on record as installed.
    """
    found: list[tuple[InstalledSkill, Candidate | MetierError]] = []
    waiting: dict[SourceAddress, list[InstalledSkill]] = {}
    for one in skills:
        recorded = scope.installs.get(one.location) if is_source_proven else None
        is_believed = not is_source_proven or (recorded is not None and recorded.digest == one.locked.digest)
        if files := _files_here(scope, one) if is_believed else {}:
            found.append((one, _stored_candidate(one.locked, files)))
        else:
            address = _address(one.locked)
            ref = one.locked.revision if address.kind in _BY_REVISION else ""
            waiting.setdefault(replace(address, ref=ref or address.ref), []).append(one)
    with contextlib.ExitStack() as stack:
        for address, members in waiting.items():
            try:
                candidates = stack.enter_context(fetch(_resolved(address, members, transfer), transfer)).candidates
            except MetierError as error:
                found += [(one, error) for one in members]
            else:
                found += [(one, _verified(one.locked, candidate_for(one.locked, candidates))) for one in members]
        yield [
            (one, what, Resolved(address=_address(one.locked), revision=one.locked.revision, is_exact=True))
            for one, what in found
        ]


def other_sources(lock: LockFile, source: str, transfer: Transfer, stack: contextlib.ExitStack) -> Iterator[Candidate]:
    """The skills of all other sources of a lock file that can be had, each of which is asked when its turn comes."""
    for other, ref in dict.fromkeys((skill.source, skill.ref) for skill in lock.skills if skill.source != source):
        with contextlib.suppress(MetierError):
            resolved = resolve(parse_address(other, ref=ref), transfer)
            for one in stack.enter_context(fetch(resolved, transfer)).candidates:
                yield replace(one, resolved=one.resolved or resolved)


def _address(locked: LockedSkill) -> SourceAddress:
    return parse_address(locked.source, ref=locked.ref)


def _stored_candidate(locked: LockedSkill, files: Files) -> Candidate:
    """A locked skill whose content is on this machine."""
    return Candidate(
        folder=locked.name,
        path=locked.path,
        skill_file=lambda: files["SKILL.md"][1],
        files=lambda: files,
        package=locked.package,
        version=locked.version,
    )


def _files_here(scope: TenantScope, one: InstalledSkill) -> Files:
    """The locked content as this machine has it: kept by the store, or in its place, as in a clone of a project."""
    digest = one.locked.digest
    files: Files = scope.revisions.files(digest) if scope.revisions.has(digest) else {}
    if digest_of_files(files) != digest:
        try:
            files = files_of(FolderPackage(one.location))
        except (MetierError, OSError):
            return {}
    return files if digest_of_files(files) == digest else {}


def _verified(locked: LockedSkill, candidate: Candidate | None) -> Candidate | MetierError:
    if candidate is None:
        return IntegrityFailed(
            f"{shown(locked.source, 300)} has no {shown(locked.path or locked.name)!r} any more.",
            hint="Restore its folder from version control, or remove it.",
        )
    try:
        digest = digest_of_files(candidate.files())
    except MetierError as error:
        return error
    if digest != locked.digest:
        return IntegrityFailed(
            f"{shown(locked.name)!r} is locked as {locked.digest[:19]}…, and {shown(locked.source, 300)} gives "
            f"{digest[:19]}…",
            hint=for_people(
                "The source changed, or the skill was changed here; `metier update` takes what the source has now."
            ),
            name=locked.name,
            expected=locked.digest,
            actual=digest,
        )
    return candidate
