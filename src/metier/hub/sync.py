"""The skills of a library as plain folders, for clients that read nothing but disk."""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass, replace
from metier._paths import is_inside
from metier.errors import InvalidArgument, MetierError, PackageTooLarge, SkillChanged
from metier.guard import Action, Actor, Guard, Subject
from metier.guard.governance import Governance
from metier.guard.guard import current_user
from metier.guard.policy.files import Policies
from metier.hints import for_people
from metier.hub.scan_findings import against, is_bad
from metier.hub.sync_origins import Origins, origin_of
from metier.hub.sync_record import Copy
from metier.hub.target_folder import File, TargetFolder, is_folder_name, stranded
from metier.session.active_skills import is_same, subject_of
from metier.skill import shown
from metier.skill.names import is_taken_for, readings
from metier.skill.package import MAX_PACKAGE_BYTES, digest_of_files, files_of
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard import Decision
    from metier.library import Entry, SkillLookup

Done: TypeAlias = Literal[
    "added", "updated", "removed", "unchanged", "kept", "left out", "refused", "conflict", "failed"
]

_LOADERS: tuple[Literal["model", "user"], ...] = ("model", "user")
_CHANGED = "It was changed here since it was written, and stays as it is."
_THEIRS = "Something of that name is there that was not written by sync, and stays as it is."
_MOVE = "Move it away, and sync again."
_TRUST = for_people("`metier trust` trusts the skills of this project.")
_NAMED = "Policy lets models know no more than its name, and other clients would tell them all of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result for one skill."""

    skill: str
    done: Done
    reason: str = ""
    """The reason why it was left out, or not written."""
    hint: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether somebody has to do something about it."""
        return self.done in ("refused", "conflict", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The results for all skills in one folder."""

    folder: str
    steps: tuple[Step, ...]

    @property
    def is_fine(self) -> bool:
        """Whether everything is as it should be."""
        return not any(step.is_problem for step in self.steps)


def sync_to(
    library: SkillLookup,
    to: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    guard: Guard | None = None,
    dry_run: bool = False,
    accept_findings: str = "",
    remove: bool = False,
) -> Synced:
    """Write the skills of a library into a folder, each as a folder of its own, and keep them as the library has them.

    Only what sync itself wrote is changed or removed, and only while nobody changed it since; that is on record in the
    user's configuration folder. A copy is removed where its origin is gone or must not be used any more. Where that
    cannot be told, as the origin's folder is not mounted, not readable or no part of this library, the copy is kept.

    Where the copies are, nothing of ours decides any more: what `guard` would not let models and people load is not
    written, nor are skills that nobody vouches for, or of which policy tells models the name alone. What is written
    anew is scanned first, and findings of severity high keep it out unless `accept_findings` says why they do not
    matter. With `only`, other skills stay as they are. Raises `InvalidArgument` for a folder that is part of a skill.
    `remove` takes away what sync wrote, and the folder too where nothing else is in it.

    >>> import tempfile
    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> folder = os.path.realpath(tempfile.mkdtemp())
    >>> [(step.skill, step.done) for step in sync_to(library, folder).steps]
    [('greet', 'added')]
    """
    target = TargetFolder(to)
    target.check()
    _require_outside(library, target)
    with contextlib.nullcontext() if dry_run else target.locked():
        # A project that one merely stands in denies nothing in a folder of the user's.
        there = Guard(governance=Governance(Policies.discover(target.path))) if guard is None else guard
        run = _Run(library, target, guard or Guard(), there, () if remove else only, dry_run, accept_findings)
        done = Synced(folder=target.path, steps=run.removals(only) if remove else run.steps())
    if remove and not dry_run:
        with contextlib.suppress(OSError):  # somebody else has something in it
            os.rmdir(target.path)
    return done


def _require_outside(library: SkillLookup, target: TargetFolder) -> None:
    """Raise where skills would become files of another one."""
    for entry in library.snapshot.entries:
        home = os.path.realpath(os.path.dirname(entry.location))
        below = os.path.relpath(target.path, home) if is_inside(target.path, home) else ".."
        # A project that is a skill as a whole has the hidden folders of every project.
        if not below.startswith(".") or below == ".":
            raise InvalidArgument(
                f"{target.path} is part of the skill {shown(entry.name)!r}.",
                hint=f"Name a folder beside it, such as {os.path.dirname(home)}.",
                path=target.path,
            )


class _Run:
    """One look at everything that is to be in a folder, and at everything that is."""

    def __init__(
        self,
        library: SkillLookup,
        target: TargetFolder,
        guard: Guard,
        there: Guard,
        only: Sequence[str],
        dry_run: bool,
        accepted: str,
    ) -> None:
        self._library, self._target, self._guard, self._there, self._only = library, target, guard, there, only
        self._dry_run, self._accepted = dry_run, accepted.strip()
        self._origins = Origins(library)
        found, self._broken = self._origins.found(target)
        self._copies: Mapping[str, Copy] = target.record.copies
        self._wanted = found
        if only:
            known = {*self._broken, *self._copies}
            chosen = [found.get(name) or library.get(name) for name in only if name in found or name not in known]
            self._wanted = {entry.name: entry for entry in chosen}
        caller = library.caller
        self._actor = Actor(
            agent=caller.agent, tenant=caller.tenant, environment=caller.environment, user=current_user()
        )

    def steps(self) -> tuple[Step, ...]:
        everything = {*self._wanted, *self._broken, *self._copies}
        names = {*self._wanted, *(everything & {*self._only})} if self._only else everything
        return tuple(self._step(name) for name in sorted({*names, *self._target.stranded}))

    def removals(self, only: Sequence[str]) -> tuple[Step, ...]:
        """Take away the copies that are on record here, or those of these names."""
        names = {*self._copies} & {*only} if only else self._copies
        return tuple(self._step(name, is_removal=True) for name in sorted(names))

    def _step(self, name: str, *, is_removal: bool = False) -> Step:
        try:
            if is_removal:
                return self._removed(name, Step(skill=name, done="removed"))
            return self._settled(name, self._wanted.get(name))
        except SkillChanged as error:
            return Step(skill=name, done="conflict", reason=error.message, hint=error.hint)
        except MetierError as error:
            return Step(skill=name, done="failed", reason=error.message, hint=error.hint)
        except OSError as error:
            reason = f"It cannot be written: {error.strerror or error}."
            return Step(skill=name, done="failed", reason=reason, hint="Check the disk and the permissions.")

    def _settled(self, name: str, entry: Entry | None) -> Step:
        if name in self._target.stranded:
            raise stranded(name, os.path.join(self._target.path, self._target.stranded[name]))
        if entry is None:
            return self._absent(name)
        home = os.path.realpath(os.path.dirname(entry.location))
        if is_inside(home, self._target.path) and _is_read_from(entry, home, self._target.path):
            return Step(skill=name, done="unchanged", reason="It lies there itself.")
        if is_inside(self._target.path, home):
            return Step(skill=name, done="left out", reason="The folder to write to is a part of it.")
        if not is_folder_name(name):
            return Step(skill=name, done="left out", reason="No folder can have its name.", hint="Give it a plain one.")
        if entry.is_stale:
            return Step(
                skill=name, done="left out", reason="Its file cannot be read now.", hint=for_people("`metier doctor`")
            )
        digest = self._library.digest(entry)
        subject = subject_of(entry, digest)
        decision = self._guard.decide(Action(point="install", skill=subject, by="user"), self._actor)
        if decision.is_allowed and not subject.trusted and self._guard.policy.untrusted != "allow":
            # The place may be trusted again: a copy that was written before stays, unlike one that policy denies.
            reason = "It comes from a place that nobody vouches for."
            return Step(skill=name, done="left out", reason=reason, hint=_TRUST)
        against = self._against(name, entry, subject, decision)
        if against is None:
            return self._written(name, entry, subject)
        if name in self._copies and self._is_allowed_there(entry, subject):
            reason = f"{against.reason} That is said by the policy of a project which the folder is no part of."
            return replace(against, done="kept", reason=reason)
        return self._removed(name, against)

    def _absent(self, name: str) -> Step:
        """The step for a name that no skill of the library can be written for."""
        if name in self._broken:
            entry = self._broken[name]
            errors = [one.message for one in entry.diagnostics if one.severity == "error"]
            reason = errors[0] if errors else "It has no description."
            return Step(skill=name, done="left out", reason=reason, hint=f"Mend {entry.location}.")
        copy = self._copies[name]
        if self._origins.is_hidden(name, copy):
            return self._removed(
                name, Step(skill=name, done="left out", reason="Its scope leaves out who this is for.")
            )
        reason = self._origins.against_removal(name, copy)
        if reason:
            if self._target.digest(name) is None:
                if not self._dry_run:
                    self._target.record.settle(name, None)
                return Step(skill=name, done="left out", reason=reason)
            path = os.path.join(self._target.path, name)
            return Step(skill=name, done="kept", reason=reason, hint=f"Remove {path} if it is not needed.")
        return self._removed(name, Step(skill=name, done="removed", reason="It is gone from the library."))

    def _against(self, name: str, entry: Entry, subject: Subject, decision: Decision) -> Step | None:
        if not decision.is_allowed:
            return Step(skill=name, done="left out", reason=decision.reason, hint=decision.hint)
        if self._guard.governance.listings.mode(subject.name, subject.source) == "name-only":
            hint = for_people("`metier listing {name}` says which file.", name=name)
            return Step(skill=name, done="left out", reason=_NAMED, hint=hint)
        decision = self._loading(entry, subject)
        if not decision.is_allowed:
            return Step(skill=name, done="left out", reason=decision.reason, hint=decision.hint)
        return None

    def _is_allowed_there(self, entry: Entry, subject: Subject) -> bool:
        """Whether the policy that holds in the folder itself has nothing against a skill."""
        usable = replace(subject, for_models=True, for_people=True)
        rivals = self._rivals(entry)
        actions = [Action(point="load", skill=usable, by=by, rivals=rivals) for by in _LOADERS]
        return self._there.governance.listings.mode(subject.name, subject.source) != "name-only" and all(
            self._there.decide(action, self._actor).is_allowed
            for action in (Action(point="install", skill=subject, by="user"), *actions)
        )

    def _loading(self, entry: Entry, subject: Subject) -> Decision:
        """The decisions about loading a skill where its copy is: by a model, and by a user."""
        # For whom a skill says itself that it is, its copy says too.
        subject = replace(subject, for_models=True, for_people=True)
        rivals = self._rivals(entry)
        for by in _LOADERS:
            action = Action(point="load", skill=subject, by=by, rivals=rivals)
            decision = self._guard.decide(action, self._actor)
            if not self._dry_run:
                # What has to be approved is asked for, as in a session.
                decision = self._guard.follow_up(action, self._actor, decision, decision)
            if not decision.is_allowed:
                break
        return decision

    def _rivals(self, entry: Entry) -> frozenset[str]:
        """The layers that have another skill that it is taken for, where policy wants to know; copies are none."""
        if not self._guard.governance.looks_at_rivals:
            return frozenset()
        read_as = {reading.casefold() for reading in readings(entry.name)}
        near = (one for reading in read_as for one in self._entries_by_name.get(reading, ()))
        return frozenset(one.layer for one in near if is_taken_for(entry.name, one.name) and not is_same(one, entry))

    @cached_property
    def _entries_by_name(self) -> dict[str, list[Entry]]:
        """The skills by all that their names may be read as."""
        found: dict[str, list[Entry]] = {}
        for entry in self._library.snapshot.entries:
            if self._origins.is_copy(entry):
                continue
            for reading in {reading.casefold() for reading in readings(entry.name)}:
                found.setdefault(reading, []).append(entry)
        return found

    def _removed(self, name: str, step: Step) -> Step:
        """Take away what was written of a skill that must not be there any more."""
        copy = self._copies.get(name)
        if copy is None:
            return step
        there = self._target.digest(name)
        if there is not None and there not in copy.written:
            return Step(skill=name, done="conflict", reason=f"{step.reason} {_CHANGED}".lstrip(), hint=_MOVE)
        if not self._dry_run:
            if there is not None:
                # What is blocked may always be taken away, as it may be unloaded.
                with self._passing("unload", Subject(name=name, digest=copy.digest)):
                    self._target.remove(name, there)
            self._target.record.settle(name, None)
        return replace(step, done="removed")

    def _written(self, name: str, entry: Entry, subject: Subject) -> Step:
        copy, there = self._copies.get(name), self._target.digest(name)
        origin, root = origin_of(entry)
        if copy is not None and there == copy.written[-1] and copy.digest == subject.digest:
            if not self._dry_run:
                self._target.record.settle(name, replace(copy, origin=origin, root=root))
            return Step(skill=name, done="unchanged")
        if there is not None and (copy is None or there not in copy.written):
            # What is byte for byte what would be written may as well have been, on another machine perhaps.
            if there != _written_digest(_files_of(entry, subject.digest)):
                hint = _MOVE
                if entry.layer in ("personal", "project") and os.path.isfile(entry.location):
                    hint = f"Move it away, or copy it over {os.path.dirname(entry.location)}, and sync again."
                return Step(skill=name, done="conflict", reason=_THEIRS if copy is None else _CHANGED, hint=hint)
            if not self._dry_run:
                own = Copy(digest=subject.digest, written=(there,), origin=origin, root=root)
                self._target.record.settle(name, own)
            return Step(skill=name, done="unchanged")
        report = self._guard.context(self._action("install", subject), self._actor).report
        decision = against(report, self._accepted)
        if decision is not None:
            self._record(subject, decision)
            return self._removed(name, Step(skill=name, done="refused", reason=decision.reason, hint=decision.hint))
        if not self._dry_run:
            with self._passing("install", subject, f"Findings accepted: {self._accepted}" if is_bad(report) else ""):
                files = _files_of(entry, subject.digest)
                self._target.put(name, files, over=there, digest=subject.digest, origin=origin, root=root)
        return Step(skill=name, done="added" if there is None else "updated")

    def _record(self, subject: Subject, decision: Decision) -> None:
        if not self._dry_run:
            audited = self._guard.audit(self._action("install", subject), self._actor, decision)
            audited.close(success=False, code=decision.code)

    def _action(self, point: Literal["install", "unload"], subject: Subject) -> Action:
        return Action(point=point, skill=subject, by="user", path=os.path.join(self._target.path, subject.name))

    @contextlib.contextmanager
    def _passing(self, point: Literal["install", "unload"], subject: Subject, note: str = "") -> Iterator[None]:
        with self._guard.enter(self._action(point, subject), self._actor) as audited:
            if note:
                audited.runs_with(notes=[note])
            audited.require()
            yield


def _is_read_from(entry: Entry, home: str, folder: str) -> bool:
    """Whether a folder is where a skill is looked for anyway, and not merely somewhere above it."""
    source = entry.place.source
    root = os.path.realpath(source.root) if isinstance(source, FolderSource) else home
    return os.path.dirname(home) == folder or is_inside(folder, root)


def _files_of(entry: Entry, digest: str) -> dict[str, File]:
    """The files of a skill, which together are what was decided about; links become copies of what they lead to."""
    from metier.hub.skill_files import without_links

    package = entry.package
    listing = package.listing()
    if listing.stopped_at is not None:
        raise PackageTooLarge(
            f"Skill {entry.name!r} has more than {listing.stopped_at}.", hint="Remove files that it does not need."
        )
    read = files_of(package, digest, limit=MAX_PACKAGE_BYTES)
    files = {path: File(data=data, executable=mode == "exec") for path, (mode, data) in without_links(read).items()}
    # Clients look for this very name, and a skill may have it in small letters.
    return {"SKILL.md" if path == entry.key.rpartition("/")[2] else path: file for path, file in files.items()}


def _written_digest(files: Mapping[str, File]) -> str:
    """The digest that a folder with these files has."""
    return digest_of_files({path: ("exec" if file.executable else "file", file.data) for path, file in files.items()})
