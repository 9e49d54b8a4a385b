"""Installed skills and their sources: which have a newer state, and the skills as a lock file has them.

Each source is asked once, however many of its skills are installed, and fetched only where its state is another one.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source of installed skills, as it is now."""

    address: SourceAddress
    skills: tuple[InstalledSkill, ...]
    """Those that were installed from it."""
    resolved: Resolved | None = None
    """Its state; None where it could not be asked."""
    problem: str = ""

    @property
    def newer(self) -> tuple[InstalledSkill, ...]:
        """The skills that were taken from another state; all of them where a source has no states."""
        if self.resolved is None:
            return ()
        states = [(one, self.resolved.revision_of(one.locked.path)) for one in self.skills]
        return tuple(one for one, revision in states if not revision or one.locked.revision != revision)


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
            from metier._suggest import suggestions

            close = suggestions(name, [one.locked.name for one in every], 2)
            meant = f"Did you mean {' or '.join(map(repr, map(shown, close)))}? " if close else ""
            raise SkillNotFound(
                f"No skill {shown(name)!r} was installed by `metier add`.",
                hint=for_people("{meant}`metier lock` lists what is.", meant=meant),
                name=name,
            )
    return [one for one in every if not names or one.locked.name in names]


def source_states(skills: Iterable[InstalledSkill], transfer: Transfer) -> Iterator[SourceState]:
    """The sources of skills as they are now, by at most one request for each of them."""
    groups: dict[tuple[str, str], list[InstalledSkill]] = {}
    for one in skills:
        groups.setdefault((one.locked.source, one.locked.ref), []).append(one)
    for (source, ref), members in groups.items():
        address = replace(parse_address(source), ref=ref)
        try:
            yield SourceState(address=address, skills=tuple(members), resolved=resolve(address, transfer))
        except MetierError as error:
            yield SourceState(address=address, skills=tuple(members), problem=error.message)


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
    return is_same_version and digest_of_files(candidate.files()) != locked.digest


@contextlib.contextmanager
def locked_candidates(
    scope: TenantScope, skills: Iterable[InstalledSkill], transfer: Transfer
) -> Iterator[list[tuple[InstalledSkill, Candidate | MetierError, Resolved]]]:
    """Skills with exactly the content that the lock file says, kept on this machine or fetched and verified.

    In place of one that cannot be had there is the error that says why.
    """
    found: list[tuple[InstalledSkill, Candidate | MetierError, Resolved]] = []
    waiting: dict[tuple[str, str], list[InstalledSkill]] = {}
    for one in skills:
        locked = one.locked
        address = replace(parse_address(locked.source), ref=locked.ref)
        files = _files_here(scope, one)
        if files:
            kept = Candidate(
                folder=locked.name,
                path=locked.path,
                skill_file=lambda files=files: files["SKILL.md"][1],  # type: ignore[misc]
                files=lambda files=files: files,  # type: ignore[misc]
                package=locked.package,
                version=locked.version,
            )
            found.append((one, kept, Resolved(address=address, revision=locked.revision, is_exact=True)))
        else:
            ref = locked.revision if address.kind in _BY_REVISION and locked.revision else locked.ref
            waiting.setdefault((locked.source, ref), []).append(one)
    with contextlib.ExitStack() as stack:
        for (source, ref), members in waiting.items():
            address = replace(parse_address(source), ref=ref)
            try:
                resolved = resolve(address, transfer)
                candidates = stack.enter_context(fetch(resolved, transfer)).candidates
            except MetierError as error:
                found += [(one, error, Resolved(address=address, revision="")) for one in members]
                continue
            for one in members:
                candidate = candidate_for(one.locked, candidates)
                kept_ref = Resolved(
                    address=replace(address, ref=one.locked.ref), revision=one.locked.revision, is_exact=True
                )
                found.append((one, _verified(one.locked, candidate), kept_ref))
        yield found


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


def changed_in_folder(state: SourceState, one: InstalledSkill) -> bool:
    """Whether a folder, which has no states, has another content of a skill by now."""
    from metier.hub.sources.fetch import Transfer

    if state.resolved is None:
        return False
    try:
        with fetch(state.resolved, Transfer()) as fetched:
            candidate = candidate_for(one.locked, fetched.candidates)
            return candidate is not None and digest_of_files(candidate.files()) != one.locked.digest
    except MetierError:
        return False
