"""A session: what one conversation has loaded, and what it may do with it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._log import logger
from metier.errors import InvalidArgument, MetierError
from metier.guard import Action, Decision, Guard, Passage, Policy
from metier.session.active import is_same_load, subject_of
from metier.session.content import skill_content
from metier.session.events import Event
from metier.session.gate import CallAdmission
from metier.session.invocation import Invocation, checked_arguments, parse_invocation
from metier.session.loading import Loading, too_many
from metier.session.prompting import Prompting
from metier.session.resources import MAX_BYTES, read_resource
from metier.session.running import CommandLine, Running
from metier.session.stack import Stack
from metier.session.state import Options, State
from metier.session.vocabulary import RUNTIME
from metier.skill import shown
from metier.skill.files import checked_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from metier.find.library import Library
    from metier.find.result import Result
    from metier.library import Entry
    from metier.run import Outcome, Runner
    from metier.session.active import ActiveSkill, Receipt
    from metier.session.lineage import Lineage
    from metier.session.resources import Resource
    from metier.session.state import By
    from metier.session.vocabulary import Vocabulary
    from metier.skill import Listing

log = logger("metier.session")

Mode: TypeAlias = Literal["replace", "add"]

MAX_NAMES = 1_000


class Session(State):
    """What one conversation has loaded. Safe to use from several threads; never share one between conversations.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> session = library.session()
    >>> session.load("greet").active[0].name
    'greet'
    >>> session.unload(all=True).active
    ()
    """

    def __init__(
        self,
        library: Library,
        *,
        skills: Sequence[str] = (),
        id: str | None = None,  # noqa: A002
        guard: Guard | None = None,
        policy: Policy | None = None,
        runner: Runner | None = None,
        workspace: Path | str | None = None,
        user: str | None = None,
        correlation_id: str | None = None,
        lineage: Lineage | None = None,
        **options: Any,
    ) -> None:
        """Begin a conversation with `skills` loaded; `options` are the fields of `Options`.

        What it may do is decided by `guard`, which several sessions can share, or by a guard of its own with `policy`.
        `workspace` is the folder that scripts work in, by default the current one; `user` and `correlation_id` go into
        every audit record.
        """
        super().__init__(
            library,
            _guard(guard, policy),
            _options(options),
            id=id,
            runner=runner,
            workspace=os.path.abspath(workspace if workspace is not None else os.getcwd()),
            user=user,
            correlation_id=correlation_id,
            lineage=lineage,
        )
        self._stack = Stack()
        self._delivered: set[tuple[str, str, str]] = set()
        self._prompting = Prompting()
        self._files_read: set[tuple[str, str]] = set()
        if isinstance(skills, str) or skills:
            names = _several(skills)
            if len(names) != len(skills) and not isinstance(skills, str):
                raise InvalidArgument("A skill is named twice.", hint="Name each skill once.")
            self.load(names)

    def __repr__(self) -> str:
        return f"<Session {self.id[:8]} with {', '.join(one.name for one in self._active) or 'nothing loaded'}>"

    # --- loading ------------------------------------------------------------------------------------------------

    def load(
        self,
        names: str | Sequence[str],
        mode: Mode | Literal[""] = "replace",
        *,
        args: str = "",
        by: By = "host",
        make_room: bool = False,
    ) -> Receipt:
        """Load skills: instead of those that are active, or in addition to them. A load that fails changes nothing.

        A skill that is loaded already moves to the end. `args` are the arguments that its instructions ask for. Where
        there would be too many, it is an error, or with `make_room` those go that were loaded longest ago.
        """
        self.require_open()
        wanted = _several(names)
        if mode not in ("", "replace", "add"):
            raise InvalidArgument(f"There is no mode {shown(str(mode), 40)!r}.", hint="Modes are replace and add.")
        loading = Loading(self, by, checked_arguments(args))
        loaded = loading.prepare(wanted)
        with loading.committed():
            self.live()
            with self._lock:
                self.require_open()
                before = self._active
                now = _after_loading(before, loaded, "add" if mode == "add" else "replace")
                if make_room and len(loaded) <= self.options.max_active:
                    now = now[-self.options.max_active :]
                if len(now) > self.options.max_active:
                    raise too_many(len(now), self.options.max_active)
                loading.require_unchanged(loaded)
                self._set(now)
        self._ended([one for one in before if not any(is_same_load(one, other) for other in now)], by, "replaced")
        for one in loaded:
            log.info("activated %s (%s)", one.name, one.digest)
            self.emit(Event(kind="loaded", skill=one.name, message=f"Loaded {one.name}.", data={"digest": one.digest}))
        return self.receipt(tuple(one.name for one in loaded))

    def unload(self, names: str | Sequence[str] = (), *, all: bool = False, by: By = "host") -> Receipt:  # noqa: A002
        """Unload some skills, or all; one that is not loaded does not matter."""
        self.require_open()
        wanted = () if all else _several(names)
        known = {one.name for one in self.live()}
        chosen = {name if name in known else self.find(name).name for name in wanted}
        with self._lock:
            gone = [one for one in self._active if all or one.name in chosen]
            self._set(tuple(one for one in self._active if not all and one.name not in chosen))
        self._ended(gone, by, "unloaded")
        return self.receipt(tuple(one.name for one in gone))

    def close(self) -> None:
        """Unload everything and end; nothing can be done with it afterwards."""
        with self._lock:
            if self._is_closed:
                return
            gone, self._active = self._active, ()
            self._is_closed = True
        self._stack.clear()
        try:
            self._ended(gone, "host", "closed")
        finally:
            self.copies.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- using --------------------------------------------------------------------------------------------------

    def files(self, skill: str | None = None) -> Listing:
        """The files of an active skill."""
        return self.one(skill).entry.package.listing()

    def read(
        self,
        path: str,
        skill: str | None = None,
        *,
        encoding: str = "text",
        start: int | None = None,
        end: int | None = None,
        limit: int = MAX_BYTES,
        by: By = "host",
        words: Vocabulary = RUNTIME,
    ) -> Resource:
        """A file of an active skill; of the most recently loaded one when none is named."""
        one = self.one(skill)
        where = path if isinstance(path, str) else ""
        instead = words.running(one.name, where) if by == "model" and one.listing.is_script(_plain(where)) else ""
        with self.passing(Action(point="read", skill=one.subject, path=where, command=instead, by=by)):
            resource = read_resource(one, path, encoding=encoding, start=start, end=end, limit=limit)
        self._files_read.add((one.name, resource.path))
        self.emit(Event(kind="read", skill=one.name, message=f"Read {shown(path)} of {one.name}."))
        return replace(resource, is_stale=True) if self.is_stale(one) else resource

    @property
    def files_read(self) -> frozenset[tuple[str, str]]:
        """The files that were read, each with the skill it belongs to."""
        return frozenset(self._files_read)

    async def run(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """Run a script of an active skill; options are `env`, `folder`, `seconds` and `by`."""
        running = Running(self, self.one(skill), script, args, **options)
        with self.passing(running.action, await self.entered(running.action)) as passage:
            outcome = await running.run()
            passage.close(success=outcome.is_success, exit_code=outcome.exit_code)
        return self._ran(running, outcome)

    def run_blocking(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """`run`, for programs without an event loop."""
        running = Running(self, self.one(skill), script, args, **options)
        with self.passing(running.action) as passage:
            outcome = running.run_blocking()
            passage.close(success=outcome.is_success, exit_code=outcome.exit_code)
        return self._ran(running, outcome)

    async def execute(self, command: str, *, seconds: float | None = None, by: By = "host") -> Outcome:
        """Run a command of bash in the workspace, where policy and the runner at hand allow it."""
        self.require_open()
        line = CommandLine(self, command, seconds=seconds, by=by)
        with self.passing(line.action, await self.entered(line.action)) as passage:
            outcome = await self.runner.run(line.job)
            passage.close(success=outcome.is_success, exit_code=outcome.exit_code)
        message = f"Ran {shown(command)}: exit code {outcome.exit_code}."
        self.emit(Event(kind="ran", message=message, data={"exit_code": outcome.exit_code}))
        return outcome

    def _ran(self, running: Running, outcome: Outcome) -> Outcome:
        self.is_stale(running.active)
        message = f"Ran {running.path} of {running.active.name}: exit code {outcome.exit_code}."
        data = {"exit_code": outcome.exit_code, "duration_ms": outcome.duration_ms}
        self.emit(Event(kind="ran", skill=running.active.name, message=message, data=data))
        return outcome

    @property
    def may_take_long(self) -> bool:
        """Whether loading or unloading a skill may take a while: hooks, commands, or somebody to be asked."""
        policy = self.guard.policy
        return policy.hooks != "deny" or policy.injection != "deny" or self.guard.may_ask

    def invoke(self, text: str, *, words: Vocabulary = RUNTIME) -> Invocation | None:
        """What a person asks for by `/name arguments`; None when the text is no such thing.

        The skill is loaded beside those that are active. One whose `insert` is `user-message` is not loaded: it is the
        text of a message that the user need not type.
        """
        self.require_open()
        found = parse_invocation(text)
        if found is None:
            return None
        name, arguments = found[0], checked_arguments(found[1])
        entry = self.find(name)
        if entry.skill.insert == "user-message":
            with self.passing(Action(point="load", skill=subject_of(entry, self.library.digest(entry)), by="user")):
                message = Loading(self, "user", arguments).render(entry)
            return Invocation(name=entry.name, arguments=arguments, text=message, is_user_message=True)
        receipt = self.load([self.handle(entry)], "add", args=arguments, by="user")
        content = self.content(entry.name, words=words)
        return Invocation(name=entry.name, arguments=arguments, text=content, receipt=receipt)

    # --- what a model is told -----------------------------------------------------------------------------------

    def content(self, name: str | None = None, *, words: Vocabulary = RUNTIME) -> str:
        """What a model is given of an active skill, once: the second time it is told where it has it already."""
        one = self.one(name)
        if self.options.delivery == "instructions":
            return f"Skill {one.name!r} is active; its instructions are in the top-level instructions."
        # What a body says may depend on more than its file: on arguments, the day, and what its commands print.
        key = (one.name, one.digest, hashlib.sha256(one.body.encode()).hexdigest())
        with self._lock:
            was_delivered = key in self._delivered
            self._delivered.add(key)
        if was_delivered:
            return f"Skill {one.name!r} is active; its instructions stand unchanged earlier in this conversation."
        return skill_content(one, run_tool=words.run, read_tool=words.read)

    def history_was_cut(self) -> None:
        """Say that earlier tool results are gone from the history: content is sent again when it is loaded again."""
        with self._lock:
            self._delivered.clear()

    def composed(self, prompt: str | None = None, *, words: Vocabulary = RUNTIME) -> str:
        """Rules, catalog and active skills as one text; empty when there are no skills.

        `prompt` is what the user asks for: where the library is larger than the catalog, what fits it comes in.
        """
        self.require_open()
        return self._prompting.instructions(self, self.live(), prompt, words)

    def catalog(self, prompt: str | None = None, *, words: Vocabulary = RUNTIME, **options: Any) -> str:
        """The skills that a model may load, within the session's budget; empty when there are none."""
        self.require_open()
        return self._prompting.catalog(self, self.live(), prompt, words, **options)

    def search(self, query: str, k: int = 10) -> list[Result]:
        """The skills that fit a query and that a model may load."""
        self.require_open()
        self.live()
        return self.library.search(query, k, names=self._prompting.names(self, ()))

    def listed(self, part: str = "") -> list[Entry]:
        """The skills that a model may load, by name; with `part`, those whose name or a tag contains it."""
        self.require_open()
        self.live()
        found = self.library.select(contains=part, names=self._prompting.names(self, ()))
        return [entry for entry in found if not entry.is_hidden_from_models and entry.readiness().is_ready]

    # --- tool calls ---------------------------------------------------------------------------------------------

    def admit(self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False) -> CallAdmission:
        """Decide about a tool call: inside what every active skill and the policy allow, or refused."""
        active = self.live()
        decided_under = self.rules_version
        action = self.call_of(tool, arguments, active, is_control=is_control)
        names = tuple(one.name for one in active)
        if self._is_closed:
            # Also what comes too late was asked for.
            passage = Passage(self.guard.keep, action, self._actor, _CLOSED, names)
        else:
            passage = self.guard.enter(action, self._actor, names)
        if not passage.decision.is_allowed:
            decision = passage.decision
            self.emit(Event(kind="refused", tool=tool, code=decision.code, message=decision.reason))
        return CallAdmission(self, passage, () if is_control else active, tool, arguments, decided_under)

    @property
    def may_wait(self) -> bool:
        """Whether deciding about a call may have to wait for somebody."""
        return self.guard.may_ask

    @property
    def rules_version(self) -> tuple[int, int]:
        """Changes with everything that decisions about tool calls depend on."""
        return (self.version, self.guard.version)

    def may_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a tool call would be allowed now, without asking anybody; nothing is recorded."""
        return self.decide_call(tool, arguments).is_allowed

    @property
    def allowed_tools(self) -> frozenset[str] | None:
        """The tools that every active skill with a list names; None when none has one."""
        ceilings = (*self._above, *(one.ceiling for one in self.active))
        lists = [frozenset(rule.tool for rule in one.allowed) for one in ceilings if one.allowed is not None]
        return frozenset.intersection(*lists) if lists else None

    # --- nesting and tasks --------------------------------------------------------------------------------------

    @property
    def stack(self) -> tuple[str, ...]:
        """The skills that are activated inside one another, the innermost last."""
        return self._stack.names

    def activate(self, name: str, *, args: str = "", by: By = "host") -> ActiveSkill:
        """Activate a skill inside those that are on the stack; `deactivate` ends it, the innermost first."""
        entry = self.find(name)
        frame = self._stack.push(entry.name, was_loaded=any(one.name == entry.name for one in self.active))
        try:
            self.load([self.handle(entry)], "add", args=args, by=by)
        except BaseException:
            self._stack.drop(frame)
            raise
        return self.one(entry.name)

    def deactivate(self, name: str) -> None:
        """End the innermost activation, which must be this skill's."""
        self.require_open()
        _, was_loaded = self._stack.pop(name)
        if not was_loaded and any(one.name == name for one in self.live()):
            self.unload([name])

    @contextlib.contextmanager
    def activation(self, name: str, *, args: str = "", by: By = "host") -> Iterator[ActiveSkill]:
        """`activate` and, whatever happens, `deactivate`."""
        active = self.activate(name, args=args, by=by)
        try:
            yield active
        finally:
            # Whatever was activated inside and not ended ends with it.
            while active.name in self.stack and not self._is_closed:
                self.deactivate(self.stack[-1])

    @contextlib.contextmanager
    def task(self, id: str | None = None) -> Iterator[Self]:  # noqa: A002
        """One task: at its end everything is unloaded, also when it fails or is cancelled."""
        self.require_open()
        before = self._actor
        self._actor = replace(before, task=id or uuid.uuid4().hex)
        try:
            yield self
        finally:
            try:
                if not self._is_closed:
                    self._stack.clear()
                    self.unload(all=True)
            finally:
                self._actor = before

    def fork(self, name: str, *, args: str = "", by: By = "host") -> Self:
        """A session for a sub-agent that has this one skill and nothing else of this conversation."""
        self.require_open()
        entry = self.find(name)
        options = {field.name: getattr(self.options, field.name) for field in fields(Options)}
        child = type(self)(
            self.library,
            guard=self.guard,
            runner=self._runner,
            workspace=self.workspace,
            user=self._actor.user,
            correlation_id=self._actor.correlation_id or self.id,
            lineage=self.lineage.child(entry.name),
            **options,
        )
        # Whatever restricts this conversation restricts what it starts.
        child._above = (*self._above, *(one.ceiling for one in self.live()))
        child.load([child.handle(entry)], args=args, by=by)
        return child

    # --- saving -------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Its state as JSON holds it, for `resume`."""
        from metier.session.saving import saved

        active = self.active
        with self._lock:
            return saved(self, active, self._stack.frames, self._delivered)

    @classmethod
    def resume(cls, library: Library, state: Mapping[str, Any] | str | bytes, **options: Any) -> Self:
        """Go on with a saved session; skills that are gone or blocked by now are left out."""
        from metier.session.saving import Saved

        if options.get("skills"):
            raise InvalidArgument("A resumed session has its own skills.", hint="Load others once it is resumed.")
        found = Saved(state)
        session = cls(library, **({"id": found.id} | options))
        session._actor = replace(session._actor, task=found.task)
        session._set(found.active_in(session))
        names = {one.name for one in session._active}
        session._stack = Stack(frame for frame in found.frames if frame[0] in names)
        session._delivered = found.delivered
        return session


_CLOSED = Decision(
    outcome="deny",
    reason="The session was closed.",
    rule="closed session",
    code="session-not-found",
    hint="Begin another one.",
)


def _guard(guard: Guard | None, policy: Policy | None) -> Guard:
    if guard is not None and policy is not None:
        raise InvalidArgument("A guard has a policy of its own.", hint="Give a guard or a policy.")
    if guard is not None and not isinstance(guard, Guard):
        raise InvalidArgument(
            f"guard is {type(guard).__name__}.", hint="Write guard=Guard(...), or policy=Policy(...)."
        )
    if policy is not None and not isinstance(policy, Policy):
        raise InvalidArgument(f"policy is {type(policy).__name__}.", hint="Write policy=Policy(...).")
    return guard or Guard(policy)


def _options(given: Mapping[str, Any]) -> Options:
    known = {field.name for field in fields(Options)}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidArgument(
            f"A session has no option {unknown[0]!r}.", hint=f"Options are {', '.join(sorted(known))}."
        )
    several = {}
    for name in ("pins", "names", "script_folders"):
        value = given.get(name)
        if isinstance(value, str):
            raise InvalidArgument(f"`{name}` is a list, not text.", hint=f"Write {name}=[{value!r}].")
        if value is not None:
            several[name] = frozenset(value) if name == "names" else tuple(value)
    return Options(**{**given, **several})


def _plain(path: str) -> str:
    """A path as listings have it; one that no listing could have stays as it is, and is refused when it is read."""
    try:
        return "/".join(checked_path(path))
    except MetierError:
        return path


def _several(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("Skills are named by a list of texts.", hint='Write ["name"].')
    if not names:
        raise InvalidArgument("No skill was named.", hint="Name at least one.")
    if len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names):,} skills were named at once.", hint=f"Name at most {MAX_NAMES}.")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _after_loading(
    before: tuple[ActiveSkill, ...], loaded: Sequence[ActiveSkill], mode: Mode
) -> tuple[ActiveSkill, ...]:
    """Who is active after a load: the loaded ones last, in the order they were asked for."""
    names = {one.name for one in loaded}
    kept = before if mode == "add" else ()
    return (*(one for one in kept if one.name not in names), *loaded)
