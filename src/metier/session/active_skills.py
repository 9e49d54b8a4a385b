"""The skills that a session has loaded, kept true to the library and the guard."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import dataclass, logger, replace
from metier.errors import ActivationFailed, MetierError, SkillNotActive
from metier.guard import Action, Subject
from metier.guard.decision import declared_ceiling
from metier.hints import load_skill
from metier.run import skill_variables
from metier.session.events import Event
from metier.skill import shown
from metier.skill.script_packages import declared_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from metier.guard import Guard
    from metier.guard.decision import Ceiling
    from metier.library import Entry
    from metier.session.context import By, SessionContext
    from metier.session.known_skills import KnownSkills
    from metier.skill import PackageListing, Skill
    from metier.skill.script_packages import PackageKind

log = logger("metier.session")

MAX_NESTING = 5

Frame: TypeAlias = tuple[str, bool]
"""The name of a skill, and whether it was loaded already when it was activated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSkill:
    """A loaded skill, as it was when it was loaded, whatever happens to its files since."""

    skill: Skill
    entry: Entry
    digest: str
    """`sha256:` of the package that was loaded."""
    root: str
    """The folder that its relative paths start from: the verified copy of what was loaded, for every tool."""
    body: str
    """Its instructions, with arguments in their places."""
    arguments: str = ""
    by: By = "host"
    """The origin of the load."""
    ceiling: Ceiling
    listing: PackageListing
    label: str
    """The skill in audit records: its name, its source, and the beginning of its digest."""
    hooks_run: bool = False
    """Whether policy lets the hooks that it declares run."""
    is_stale: bool = False
    """Whether its files have changed since; loading it again takes the change over."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.entry.name

    @property
    def folder(self) -> str:
        """The folder that it was loaded from, whose files may have changed since; models are never told of it."""
        return os.path.dirname(self.entry.location)

    @property
    def subject(self) -> Subject:
        """The skill as the guard sees it."""
        return subject_of(self.entry, self.digest, copy=self.root)

    @property
    def package_kinds(self) -> frozenset[PackageKind]:
        """The languages that its scripts declare packages of."""
        return frozenset(declared_packages(self.entry.package, self.digest, self.root).values())


def is_same(one: Entry, other: Entry) -> bool:
    """Whether two entries are the same skill in the same place, whatever has become of its content."""
    return one.place is other.place and one.key == other.key


def is_same_load(one: ActiveSkill, other: ActiveSkill) -> bool:
    """Whether two are the same content of the same skill."""
    return one.digest == other.digest and is_same(one.entry, other.entry)


def subject_of(entry: Entry, digest: str = "", *, copy: str = "") -> Subject:
    """Return a skill of the library as the guard sees it."""
    return Subject(
        name=entry.name,
        digest=digest,
        layer=entry.layer,
        source=entry.source,
        trusted=entry.trusted,
        for_models=not entry.is_hidden_from_models,
        for_people=entry.skill.user_invocable,
        entry=entry,
        copy=copy,
    )


def script_paths(entry: Entry, root: str, listing: PackageListing) -> tuple[str, ...]:
    """The absolute paths of a skill's scripts: in its verified copy, and where it was loaded from."""
    roots = (root, os.path.dirname(entry.location))
    return tuple(os.path.join(root, *file.path.split("/")) for root in roots for file in listing.scripts())


def active_skill(
    entry: Entry,
    skill: Skill,
    digest: str,
    listing: PackageListing,
    guard: Guard,
    *,
    root: str,
    workspace: str,
    session: str,
) -> ActiveSkill:
    """Return a skill as it is active in a session, without its instructions; `root` has its files."""
    values = skill_variables(workspace=workspace, skill_dir=root, session_id=session)
    ceiling = declared_ceiling(
        skill,
        entry,
        guard.enforcement_of(entry.place, entry.folder),
        digest=digest,
        fill=lambda rule: fill_rule(rule, values),
        scripts=script_paths(entry, root, listing),
    )
    return ActiveSkill(
        skill=skill,
        entry=entry,
        digest=digest,
        root=root,
        body="",
        ceiling=ceiling,
        listing=listing,
        label=f"{entry.name}@{entry.source}#{digest.removeprefix('sha256:')[:12]}",
        hooks_run=guard.policy.hooks != "deny",
    )


def fill_rule(rule: str, values: dict[str, str]) -> str:
    """A tool rule with the skill's own folders in it: authors write `Bash(${CLAUDE_SKILL_DIR}/scripts/x.sh:*)`."""
    for name, value in values.items():
        rule = rule.replace(f"${{{name}}}", value)
    return rule


class ActiveSkills:
    """The skills that one session has loaded. Safe to use from several threads."""

    def __init__(self, context: SessionContext, known: KnownSkills) -> None:
        self._context = context
        self._known = known
        self._active: tuple[ActiveSkill, ...] = ()
        self._seen: tuple[object, int] = (context.index.latest(), context.guard.version_for(context.actor))
        self.lock = threading.RLock()
        """The lock that is held while what is loaded changes."""
        self.stack = ActivationStack()
        self.version = 0
        """A number that changes with every change of what is active."""
        self.epoch = 0
        """A number that changes when the library or the guard was seen to have changed."""
        self.bound: frozenset[str] = frozenset()
        """The names of the skills whose text stands in the agent's own instructions."""
        self.fixed: frozenset[str] = frozenset()
        """The names of the skills that stay loaded to the end."""
        self.above: tuple[Ceiling, ...] = ()
        """The ceilings that hold whatever is active: of fixed skills, and of the session that started this one."""
        self.forked_for = ""
        """The skill that a session for a sub-agent was made for."""
        self.on_end: list[Callable[[ActiveSkill], None]] = []
        """Functions that are called with each skill that is no longer active, before its record is written."""
        self.on_change: list[Callable[[], None]] = []
        """Functions that are called after what is active has changed."""

    @property
    def held(self) -> tuple[ActiveSkill, ...]:
        """The active skills as they were last seen, without a look at the library and the guard."""
        return self._active

    @property
    def open(self) -> tuple[ActiveSkill, ...]:
        """`live`, of a session that was not closed."""
        self._context.require_open()
        return self.live()

    @property
    def is_nested(self) -> bool:
        """Whether a skill that is loaded now is loaded inside of another skill's activation."""
        return len(self.stack.frames) > 1

    def live(self) -> tuple[ActiveSkill, ...]:
        """Return the active skills, the last loaded last, after a look at whether library or guard have changed."""
        context = self._context
        snapshot, version = context.index.snapshot, context.guard.version_for(context.actor)
        if snapshot is self._seen[0] and version == self._seen[1]:
            return self._active
        with self.lock:
            pairs = [(one, *self._refreshed(one)) for one in self._active]
            self.set(tuple(now for _, now, _ in pairs if now is not None))
            self.epoch += 1
            # Last: whoever sees that nothing changed must find what is active already put right.
            self._seen = (snapshot, version)
        for one, now, why in pairs:
            if now is None:
                self.end([one], "host", why)
        for one, now, _ in pairs:
            if now is not None and now.is_stale and not one.is_stale:
                self._emit_stale(now)
        return self._active

    def is_current(self, version: int) -> bool:
        """Whether `held` is what `live` would return, under a version of the guard that was just seen."""
        return version == self._seen[1] and self._context.index.latest() is self._seen[0]

    async def live_async(self) -> tuple[ActiveSkill, ...]:
        """`live` without blocking the event loop: hooks of a skill that is gone are run, and may be asked about."""
        context = self._context
        if self.is_current(context.guard.version_for(context.actor)):
            return self._active
        return await context.guard.in_thread(self.live)

    def one(self, name: str | None = None, *, by: By = "host") -> ActiveSkill:
        """Return an active skill: the one of this name, or the one that was loaded last."""
        self._context.index.latest()
        active = self.open
        if name is None or name == "":
            if not active:
                raise SkillNotActive("No skill is loaded.", hint=load_skill())
            return active[-1]
        found = next((one for one in active if one.name == name), None)
        if found is None:
            entry = self._known.find(name, by=by)
            found = next((one for one in active if one.name == entry.name), None)
            if found is None:
                raise SkillNotActive(
                    f"Skill {entry.name!r} is not loaded.", hint=load_skill(entry.name), name=entry.name
                )
        return found

    def is_inline(self, entry: Entry) -> bool:
        """Whether a skill asks for an agent of its own (`context: fork`), and this session was not made for it."""
        return entry.skill.context == "fork" and entry.name != self.forked_for

    def is_stale(self, one: ActiveSkill) -> bool:
        """Whether the files of a skill have changed since it was loaded; flags it if so."""
        if one.is_stale:
            return True
        try:
            changed = self._context.index.digest(one.entry) != one.digest
        except MetierError:
            changed = True
        if changed:
            with self.lock:
                before = self._active
                self.set(
                    tuple(replace(other, is_stale=True) if is_same_load(other, one) else other for other in before)
                )
                is_news = self._active is not before
            if is_news:
                self._emit_stale(one)
        return changed

    def set(self, active: tuple[ActiveSkill, ...]) -> None:
        """Replace what is active; called with the lock held."""
        if active != self._active:
            self._active = active
            self.version += 1

    def clear(self) -> tuple[ActiveSkill, ...]:
        """Forget what is active in a session that ends, and return it; calls that were admitted go on."""
        gone, self._active = self._active, ()
        return gone

    def fix(self, skills: Sequence[ActiveSkill]) -> None:
        """Keep skills loaded to the end."""
        self.fixed |= {one.name for one in skills}
        # What they restrict holds also when one is blocked or gone: what it said still stands before the model.
        self.above = (*self.above, *(one.ceiling for one in skills))

    def end(self, gone: Sequence[ActiveSkill], by: By, why: str, *, rule: str = "default") -> None:
        """Finish skills that are no longer active: their hooks, a record and an event each."""
        context = self._context
        for one in gone:
            action = Action(point="unload", skill=one.subject, by=by)
            audited = context.guard.observe(action, context.actor, rule, f"It was {why}.")
            with contextlib.ExitStack() as ending:
                # The last first: all are called, whatever one of them raises.
                ending.callback(audited.close, success=True)
                for follow in self.on_change:
                    ending.callback(follow)
                for finish in reversed(self.on_end):
                    ending.callback(finish, one)
            log.info("deactivated %s (%s)", one.name, why)
            because = "" if why == "unloaded" else f": {why}"
            message, data = f"Unloaded {one.name}{because}.", {"reason": why, "rule": rule}
            context.emit(Event(kind="unloaded", skill=one.name, message=message, data=data))
        # What is not active is not activated either; a skill that was loaded anew still is.
        self.stack.end({one.name for one in gone} - {one.name for one in self._active})

    def _refreshed(self, one: ActiveSkill) -> tuple[ActiveSkill | None, str]:
        """A skill as the library has it now, or None and why it is not active any more."""
        index, guard, actor = self._context.index, self._context.guard, self._context.actor
        try:
            entry = index.get(self._known.handle(one.entry))
            if is_same(entry, one.entry):
                changed = entry.identity != one.entry.identity and index.digest(entry) != one.digest
                # Its name may belong to a skill by now that was not there when it was loaded.
                ceiling = one.ceiling.under(guard.enforcement_of(entry.place, entry.folder))
                now = replace(one, entry=entry, is_stale=one.is_stale or changed, ceiling=ceiling)
                return (None, "blocked") if guard.is_excluded(now.subject, actor) else (now, "")
        except MetierError:
            pass
        return None, "blocked" if guard.is_excluded(one.subject, actor) else "no longer available"

    def _emit_stale(self, one: ActiveSkill) -> None:
        message = f"The files of {one.name} have changed since it was loaded."
        self._context.emit(Event(kind="stale", skill=one.name, message=message))


class ActivationStack:
    """The activations of one session, the innermost last. Safe to use from several threads.

    >>> stack = ActivationStack()
    >>> frame = stack.push("deploy", was_loaded=False)
    >>> stack.names
    ('deploy',)
    """

    def __init__(self, frames: Iterable[Frame] = ()) -> None:
        self.frames: tuple[Frame, ...] = tuple(frames)
        self._changing = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The skills, the innermost last."""
        return tuple(name for name, _ in self.frames)

    def push(self, name: str, *, was_loaded: bool) -> Frame:
        """Go one deeper; raises `ActivationFailed` for a cycle and where it is too deep."""
        with self._changing:
            chain = " -> ".join((*self.names, name))
            if name in self.names:
                raise ActivationFailed(
                    f"Skill {name!r} is active already: {chain} is a cycle.",
                    hint="Finish it before it is used again.",
                    name=name,
                )
            if len(self.frames) >= MAX_NESTING:
                raise ActivationFailed(
                    f"Skill {name!r} would be activated more than {MAX_NESTING} deep: {chain}.",
                    hint=f"At most {MAX_NESTING} may be inside one another.",
                    name=name,
                )
            frame = (name, was_loaded)
            self.frames = (*self.frames, frame)
            return frame

    def drop(self, frame: Frame) -> None:
        """Take back an activation that came to nothing."""
        with self._changing:
            self.frames = tuple(other for other in self.frames if other is not frame)

    def pop(self, name: str) -> Frame:
        """End the innermost activation, which must be this skill's."""
        with self._changing:
            if name not in self.names:
                raise ActivationFailed(f"Skill {shown(name)!r} is not activated.", hint="Activate it first.", name=name)
            innermost = self.frames[-1]
            if innermost[0] != name:
                raise ActivationFailed(
                    f"Skill {name!r} is not at top of stack: {' -> '.join(self.names)}.",
                    hint=f"Deactivate {innermost[0]} first.",
                    name=name,
                )
            self.frames = self.frames[:-1]
            return innermost

    def end(self, names: AbstractSet[str]) -> None:
        """End the activations of skills that are gone, wherever they stand."""
        with self._changing:
            self.frames = tuple(frame for frame in self.frames if frame[0] not in names)

    def clear(self) -> None:
        """End all of them."""
        with self._changing:
            self.frames = ()
