"""What a session knows: on whose behalf it acts, what is active, and who listens."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._log import logger
from metier._telemetry import current_call
from metier.errors import InvalidArgument, MetierError, SessionNotFound, SkillNotActive, SkillNotFound
from metier.find.visibility import listing_rule
from metier.guard import Action, Actor, Subject, canonical_tool, current_user
from metier.hints import Hint, find_skill, load_skill
from metier.library import Machine
from metier.session.active_skills import Receipt, is_same, is_same_load, receipt_item, subject_of
from metier.session.copies import Copies
from metier.session.events import Event, Listeners
from metier.session.hooks import HookRunner
from metier.session.job_sandbox import JobSandbox
from metier.session.lineage import Lineage
from metier.session.mounts import skill_folders
from metier.session.runs import SCRIPT_FOLDERS
from metier.session.shell import SessionShell
from metier.session.stack import Stack
from metier.session.usage import TokenUsage, describe
from metier.skill import shown
from metier.skill.listing import Listings
from metier.skill.names import is_taken_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from metier.find.library import SkillLibrary
    from metier.guard import AuditedAction, Ceiling, Decision, Guard
    from metier.guard.files.file_access import FileAccess
    from metier.library import Entry
    from metier.run import Runner
    from metier.session.active_skills import ActiveSkill
    from metier.session.events import Listener, View
    from metier.session.secrets import SecretProvider
    from metier.skill.listing import ListingMode, ListingRule

log = logger("metier.session")

By: TypeAlias = Literal["model", "user", "host", "client"]
Delivery: TypeAlias = Literal["result", "instructions"]

MAX_ACTIVE = 8
DEFAULT_BUDGET = 5_120
LEAST_BUDGET = 512
"""Bytes that hold the shortest rules of every dialect, the counts of any library and a way to search it."""
_SUGGESTED_AMONG = 2_000
_NAMING = ("skills", "skill", "skill_name", "skill_id")
"""The arguments by which tools that control skills name them."""
MAX_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a session works. All of it is given to `Library.session`."""

    max_active: int = MAX_ACTIVE
    """How many skills may be active at once; 1 gives one skill at a time."""
    delivery: Delivery = "result"
    """How a model gets a skill's instructions: in the result of the call that loads it, or at the top level."""
    budget: int = DEFAULT_BUDGET
    """Bytes of the catalog together with the text that stands around it, at least 512."""
    listing: Mapping[str, ListingMode] = field(default_factory=dict)
    """Listing modes by name or pattern: `{"pdf-*": "pinned"}`; what policy files keep from models stays so."""
    names: frozenset[str] | None = None
    """The only skills that this session may know of."""
    dependencies: Literal["hint", "load"] = "hint"
    """Whether the skills that one requires are named to the model, or loaded before it."""
    script_folders: tuple[str, ...] = SCRIPT_FOLDERS
    """The folders of a skill whose files may be run."""
    mount: str = "/.sandbox/skills"
    """Where the virtual shell has the files of skills, each in a folder of its name."""
    proposals: bool = False
    """Whether a model gets the tools by which it proposes changed and new skills, for others to decide about."""

    def __post_init__(self) -> None:
        if not isinstance(self.budget, int) or self.budget < LEAST_BUDGET:
            raise InvalidArgument(
                f"A budget of {self.budget!r:.40} bytes is too small for a catalog and how to use it.",
                hint=f"Give at least {LEAST_BUDGET}; {DEFAULT_BUDGET:,} is the default.",
            )
        Listings.of(self.listing)
        if self.max_active < 1:
            raise InvalidArgument(f"max_active is {self.max_active}.", hint="At least one skill can be active.")
        if self.delivery not in ("result", "instructions"):
            raise InvalidArgument(f"There is no delivery {self.delivery!r}.", hint="Use result or instructions.")
        if self.dependencies not in ("hint", "load"):
            raise InvalidArgument(f"dependencies is {self.dependencies!r}.", hint="Use hint or load.")
        if not isinstance(self.mount, str) or not _is_mount(self.mount):
            raise InvalidArgument(
                f"mount is {self.mount!r:.80}.", hint="Give an absolute path inside the virtual shell, such as /skills."
            )


class State:
    """The part of a session that the rest of it stands on. Safe to use from several threads."""

    def __init__(
        self,
        library: SkillLibrary,
        guard: Guard,
        options: Options,
        *,
        id: str | None,  # noqa: A002
        runner: Runner | None,
        secrets: SecretProvider | None,
        workspace: str,
        user: str | None,
        correlation_id: str | None,
        lineage: Lineage | None,
    ) -> None:
        self.library = library
        self.guard = guard
        self.options = options
        self._own_listings = Listings.of(options.listing, "the session")
        self.id = _checked_id(id) if id else uuid.uuid4().hex
        self.workspace = workspace
        self.lineage = lineage or Lineage()
        self.forked_for = ""
        """The skill that it was made for, in a session for a sub-agent."""
        self.copies = Copies()
        """What its scripts and hooks run from."""
        self.cage = JobSandbox(self, secrets)
        """What they run in."""
        self._shell = SessionShell(self)
        self._runner = runner
        self._actor = Actor(
            agent=library.caller.agent,
            tenant=library.caller.tenant,
            environment=library.caller.environment,
            user=user or current_user(),
            session=self.id,
            correlation_id=correlation_id,
        )
        self._lock = threading.RLock()
        self._active: tuple[ActiveSkill, ...] = ()
        self._stack = Stack()
        self._version = 0
        self._epoch = 0
        self._seen: tuple[object, int] = (library.latest(), guard.version_for(self._actor))
        self._is_closed = False
        self._is_released = False
        self._listeners = Listeners()
        self._hook_runner: HookRunner | None = None
        self._above: tuple[Ceiling, ...] = ()
        self._tools: frozenset[str] | None = None
        self._bound: frozenset[str] = frozenset()
        self._fixed: frozenset[str] = frozenset()
        self.spending = TokenUsage()
        """What models have spent while its skills were active."""

    @property
    def active(self) -> tuple[ActiveSkill, ...]:
        """The active skills, the most recently loaded last, without those that are gone or blocked by now."""
        self.require_open()
        return self.live()

    @property
    def bound(self) -> frozenset[str]:
        """The names of the skills that are part of what the agent is."""
        return self._bound

    @property
    def actor(self) -> Actor:
        """On whose behalf it acts."""
        return self._actor

    @property
    def is_nested(self) -> bool:
        """Whether what is loaded now is loaded inside of another skill's activation."""
        return len(self._stack.frames) > 1

    @property
    def runner(self) -> Runner:
        """What runs scripts and hooks: unless another was given, the strongest sandbox that this machine has."""
        with self._lock:
            if self._runner is None:
                self._runner = _default_runner()
            return self._runner

    @property
    def hook_runner(self) -> HookRunner:
        """What runs the hooks of its skills."""
        with self._lock:
            if self._hook_runner is None:
                self._hook_runner = HookRunner(self)
            return self._hook_runner

    @property
    def version(self) -> int:
        """Changes with every change of what is active."""
        return self._version

    @property
    def epoch(self) -> int:
        """Changes when the library or the guard was seen to have changed."""
        return self._epoch

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._is_closed

    @property
    def machine(self) -> Machine:
        """The programs, variables and tools that its skills find here; no tool is missed while nobody named them."""
        return Machine(tools=self._tools, tool_name=canonical_tool)

    def set_tools(self, names: Iterable[str] | None) -> None:
        """Name all tools that the agent has: skills that require another one are not shown. None: nobody knows."""
        tools = None if names is None else frozenset(names)
        with self._lock:
            if tools != self._tools:
                self._tools = tools
                # What models were told depends on it.
                self._epoch += 1

    def require_open(self) -> None:
        """Raise unless it goes on."""
        if self._is_closed:
            raise SessionNotFound(
                f"Session {self.id} was closed.",
                hint=Hint("Begin another with library.session().", person="Begin another one.", model="Tell the user."),
            )

    def listen(self, listener: Listener, view: View = "full") -> Callable[[], None]:
        """Be told of every event as it happens; the returned function stops it."""
        if view not in ("summary", "full"):
            raise InvalidArgument(f"There is no view {view!r}.", hint="Views are summary and full.")
        return self._listeners.add(listener, view)

    def emit(self, event: Event) -> None:
        """Tell the listeners something."""
        call = current_call()
        if call is not None and event.kind in ("loaded", "read", "ran"):
            describe(call, self._active, event.skill)
        self._listeners.tell(event if event.session else replace(event, session=self.id))

    def find(self, name: str, *, by: By = "host") -> Entry:
        """The skill of a name, if this session may know of it; raises `SkillNotFound`.

        For a model, one that is turned off is not there.
        """
        self.library.latest()
        try:
            entry = self.library.get(name)
        except SkillNotFound as error:
            # The library would name skills that this session must not know of.
            raise self._not_found(name) from error
        if self.options.names is not None and entry.name not in self.options.names:
            raise self._not_found(name)
        listings = self.listings if by == "model" else self._own_listings
        if listings and listings.mode(entry.name, entry.source) == "off":
            raise self._not_found(name)
        return entry

    @property
    def listings(self) -> Listings:
        """The listing modes of policy files and of this session."""
        return self.guard.governance.listings + self._own_listings

    def listing_of(self, entry: Entry) -> ListingRule:
        """The listing mode of a skill, and what sets it."""
        return listing_rule(entry, self.listings)

    def _not_found(self, name: object) -> SkillNotFound:
        import difflib

        wanted = str(name).partition("@")[0].lower()[:80]
        known = [one for one in self.library.snapshot.view(self.library.caller).active if self._may_be_named(one)]
        if len(known) > _SUGGESTED_AMONG:
            known = [one for one in known if one[:2] == wanted[:2]][:_SUGGESTED_AMONG]
        close = difflib.get_close_matches(wanted, known, 3, 0.6)
        meant = next((one for one in close if not self.library.get(one).is_hidden_from_models), None)
        names = self.options.names
        hint = find_skill() if names is None else f"This agent has {', '.join(sorted(names)) or 'none'}."
        guess = f" Did you mean {meant!r}?" if meant else ""
        return SkillNotFound(
            f"Skill {shown(str(name))!r} was not found.{guess}", hint=hint, name=name, suggestion=meant
        )

    def _may_be_named(self, name: str) -> bool:
        names = self.options.names
        return (names is None or name in names) and not self.is_hidden(self.library.get(name))

    def is_hidden(self, entry: Entry) -> bool:
        """Whether models must not be told of a skill."""
        is_hidden = self.hiding()
        return is_hidden is not None and is_hidden(entry)

    def hiding(self, *, by: Literal["model", "host"] = "model") -> Callable[[Entry], bool] | None:
        """What tells of each skill whether models must not be told of it; None where they may be told of all.

        For the `host`: whether people must not be, either.
        """
        has_reserved = self.library.snapshot.view(self.library.caller).has_reserved
        barred = self.guard.barred_skills(self._actor, by=by, has_reserved=has_reserved)
        own, kept = self._own_listings, ("manual", "off") if by == "model" else ("off",)
        if barred is None and not own:
            return None
        library = self.library

        def is_hidden(entry: Entry) -> bool:
            if own and own.mode(entry.name, entry.source) in kept:
                return True
            try:
                digest = library.digest(entry) if barred is not None and barred.looks_inside else ""
            except MetierError:
                return True  # what cannot be read might be what is barred
            # No more of the skill than that has to be read: there may be thousands.
            named = Subject(name=entry.name, digest=digest, layer=entry.layer, source=entry.source, entry=entry)
            return barred is not None and barred(named if entry.trusted else replace(named, trusted=False))

        return is_hidden

    def rivals(self, entry: Entry) -> frozenset[str]:
        """The layers that have another skill of the same name, or one it is taken for, where policy wants to know."""
        if not self.guard.governance.looks_at_rivals:
            return frozenset()
        entries = self.library.snapshot.entries
        return frozenset(one.layer for one in entries if is_taken_for(entry.name, one.name) and not is_same(one, entry))

    def load_action(self, entry: Entry, digest: str, by: By, *, nested: bool | None = None) -> Action:
        """A load as the guard is asked about it, by whatever way it comes: what is then read must have this digest.

        Whether it is `nested` is told by the stack, unless that is still to be restored.
        """
        subject = subject_of(entry, digest)
        if self._own_listings and self._own_listings.mode(entry.name, entry.source) == "manual":
            subject = replace(subject, for_models=False)
        return Action(
            point="load",
            skill=subject,
            by=by,
            nested=self.is_nested if nested is None else nested,
            rivals=self.rivals(entry),
        )

    def description(self, entry: Entry) -> str:
        """The description of a skill in a list for models; empty where only its name is listed."""
        listings = self.listings
        return "" if listings and listings.mode(entry.name, entry.source) == "name-only" else entry.description

    def handle(self, entry: Entry) -> str:
        """What the library finds exactly this skill by: its name, or name and folder where another answers to it."""
        with contextlib.suppress(MetierError):
            if is_same(self.library.get(entry.name), entry):
                return entry.name
        return f"{entry.name}@{os.path.dirname(entry.location)}"

    def one(self, name: str | None = None, *, by: By = "host") -> ActiveSkill:
        """An active skill: the one of this name, or the one that was loaded last."""
        self.library.latest()
        active = self.active
        if name is None or name == "":
            if not active:
                raise SkillNotActive("No skill is loaded.", hint=load_skill())
            return active[-1]
        found = next((one for one in active if one.name == name), None)
        if found is None:
            entry = self.find(name, by=by)
            found = next((one for one in active if one.name == entry.name), None)
            if found is None:
                raise SkillNotActive(
                    f"Skill {entry.name!r} is not loaded.", hint=load_skill(entry.name), name=entry.name
                )
        return found

    def receipt(self, changed: tuple[str, ...] = (), gone: Sequence[ActiveSkill] = ()) -> Receipt:
        """The skills that are loaded, after a change by which some are `gone`."""
        active = self.active
        names = {one.name for one in active}
        missing = {
            one.name: needed
            for one in active
            if one.name in changed and (needed := tuple(name for name in one.skill.requires if name not in names))
        }
        return Receipt(
            active=tuple(receipt_item(one) for one in active),
            changed=changed,
            requires=missing,
            unloaded=tuple(one.name for one in gone if one.name not in names),
            inline=tuple(one.name for one in active if one.name in changed and self.is_inline(one.entry)),
        )

    def is_inline(self, entry: Entry) -> bool:
        """Whether a skill that is loaded here asks for an agent of its own, and this is none that was made for it."""
        return entry.skill.context == "fork" and entry.name != self.forked_for

    def call_of(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        active: Sequence[ActiveSkill],
        *more: Ceiling,
        is_control: bool = False,
    ) -> Action:
        """A tool call as the guard is asked about it: under what restricts each active skill, and whatever is above."""
        return Action(
            point="call",
            tool=tool,
            arguments=arguments,
            ceilings=() if is_control else (*self._above, *(one.ceiling for one in active), *more),
            workspace=self.workspace,
            skill_folders=functools.partial(skill_folders, self.library, active),
            skill_names=functools.partial(self._names_in, arguments) if is_control else None,
            is_control=is_control,
        )

    def _names_in(self, arguments: Mapping[str, Any]) -> list[str]:
        """The names of the skills that a call is about: by another case, a folder, or with their source."""
        found: list[str] = []
        for value in (arguments.get(key) for key in _NAMING):
            names = value if isinstance(value, list | tuple) else (value,)
            for name in dict.fromkeys(name for name in names if isinstance(name, str)):
                with contextlib.suppress(MetierError):
                    found.append(self.library.get(name).name)
        return found

    def file_access(self) -> FileAccess:
        """The files that are closed to tools in its workspace now."""
        return self.guard.files.access(self.workspace, skill_folders(self.library, self.live()))

    def decide_call(self, tool: str, arguments: Mapping[str, Any], *more: Ceiling) -> Decision:
        """What would be decided about a tool call now; nobody is asked and nothing is recorded."""
        return self.guard.decide(self.call_of(tool, arguments, self.active, *more), self._actor)

    # --- what is active ---------------------------------------------------------------------------------------------

    def live(self) -> tuple[ActiveSkill, ...]:
        """The active skills, after a look at whether the library or the guard has changed under them."""
        snapshot, version = self.library.snapshot, self.guard.version_for(self._actor)
        if snapshot is self._seen[0] and version == self._seen[1]:
            return self._active
        with self._lock:
            pairs = [(one, *self._as_it_is_now(one)) for one in self._active]
            self._set(tuple(now for _, now, _ in pairs if now is not None))
            self._epoch += 1
            # Last: whoever sees that nothing changed must find what is active already put right.
            self._seen = (snapshot, version)
        for one, now, why in pairs:
            if now is None:
                self._ended([one], "host", why)
        for one, now, _ in pairs:
            if now is not None and now.is_stale and not one.is_stale:
                self._tell_stale(now)
        return self._active

    async def current(self) -> tuple[ActiveSkill, ...]:
        """`live`, without holding up the event loop: hooks of a skill that is gone are run, and may be asked about."""
        if self.library.latest() is self._seen[0] and self.guard.version_for(self._actor) == self._seen[1]:
            return self._active
        return await self.guard.in_thread(self.live)

    def is_stale(self, one: ActiveSkill) -> bool:
        """Whether the files of a skill have changed since it was loaded; flags it if so."""
        if one.is_stale:
            return True
        try:
            changed = self.library.digest(one.entry) != one.digest
        except MetierError:
            changed = True
        if changed:
            with self._lock:
                before = self._active
                self._set(
                    tuple(replace(other, is_stale=True) if is_same_load(other, one) else other for other in before)
                )
                is_news = self._active is not before
            if is_news:
                self._tell_stale(one)
        return changed

    def _as_it_is_now(self, one: ActiveSkill) -> tuple[ActiveSkill | None, str]:
        """A skill as the library has it now, or None and why it is not active any more."""
        try:
            entry = self.library.get(self.handle(one.entry))
            if is_same(entry, one.entry):
                changed = entry.identity != one.entry.identity and self.library.digest(entry) != one.digest
                # Its name may belong to a skill by now that was not there when it was loaded.
                ceiling = one.ceiling.under(self.guard.enforcement_of(entry.place, entry.folder))
                now = replace(one, entry=entry, is_stale=one.is_stale or changed, ceiling=ceiling)
                return (None, "blocked") if self.guard.is_barred(now.subject, self._actor) else (now, "")
        except MetierError:
            pass
        return None, "blocked" if self.guard.is_barred(one.subject, self._actor) else "no longer available"

    def _set(self, active: tuple[ActiveSkill, ...]) -> None:
        if active != self._active:
            self._active = active
            self._version += 1

    def _ended(self, gone: Sequence[ActiveSkill], by: By, why: str, *, rule: str = "default") -> None:
        """What follows when skills are no longer active: their hooks, a record and an event each."""
        for one in gone:
            action = Action(point="unload", skill=one.subject, by=by)
            audited = self.guard.observe(action, self._actor, rule, f"It was {why}.")
            try:
                if one.skill.hooks is not None:
                    self.hook_runner.after_unload(one, self._actor)
            finally:
                self._shell.follow()
                self.forget_copies([one])
                self.spending.end(one.name)
                audited.close(success=True)
            log.info("deactivated %s (%s)", one.name, why)
            because = "" if why == "unloaded" else f": {why}"
            message, data = f"Unloaded {one.name}{because}.", {"reason": why, "rule": rule}
            self.emit(Event(kind="unloaded", skill=one.name, message=message, data=data))
        # What is not active is not activated either; a skill that was loaded anew still is.
        self._stack.end({one.name for one in gone} - {one.name for one in self._active})

    def forget_copies(self, gone: Sequence[ActiveSkill]) -> None:
        """Remove the copies of skills, but for what is active still or again, perhaps from elsewhere."""
        used = {(one.name, one.digest) for one in self._active}
        for one in gone:
            if (one.name, one.digest) not in used:
                self.copies.forget(one)

    def _tell_stale(self, one: ActiveSkill) -> None:
        message = f"The files of {one.name} have changed since it was loaded."
        self.emit(Event(kind="stale", skill=one.name, message=message))

    async def entered(self, action: Action) -> AuditedAction:
        """Into the guard, without holding up the event loop while somebody is asked."""
        return await self.guard.enter_async(action, self._actor)

    @contextlib.contextmanager
    def passing(self, action: Action, audited: AuditedAction | None = None) -> Iterator[AuditedAction]:
        """Through the guard and back, with a record at the end; raises `Refused` when it is not allowed."""
        with audited or self.guard.enter(action, self._actor) as audited:
            if not audited.decision.is_allowed:
                decision = audited.decision
                name = action.skill.name if action.skill is not None else ""
                self.emit(Event(kind="refused", skill=name, code=decision.code, message=decision.reason))
                raise decision.as_error()
            yield audited


@functools.cache
def _default_runner() -> Runner:
    """One for all sessions of this process, as it keeps what it found out about the machine."""
    from metier.run.selection import AutoRunner

    return AutoRunner()


def _is_mount(path: str) -> bool:
    return path.startswith("/") and path.isprintable() and os.path.normpath(path) == path and path.strip("/") != ""


def _checked_id(id: object) -> str:  # noqa: A002
    """An id that can stand in records and in the environment of a script."""
    if not isinstance(id, str) or not id.isprintable() or len(id) > MAX_ID:
        raise InvalidArgument(
            f"{id!r:.80} is no id of a session.", hint=f"Use printable text of at most {MAX_ID} characters."
        )
    return id
