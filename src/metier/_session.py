"""`metier.Session`: one conversation with skills, composed of the parts of `metier.session`."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from metier._suggest import suggestion
from metier.errors import InvalidArgument
from metier.guard import Actor, Guard
from metier.guard.guard import current_user
from metier.library.clients import PROJECT_FOLDERS
from metier.session.active_skills import ActiveSkills
from metier.session.context import SessionContext, checked_id
from metier.session.events import SKILL_EVENTS
from metier.session.known_skills import KnownSkills
from metier.session.prompt import Prompt
from metier.skill.listing import Listings
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from metier._library import Library
    from metier.dialect import Dialect, DialectName, SkillTool, Spawn
    from metier.guard import Policy
    from metier.run import Outcome, Runner
    from metier.session import ActiveSkill, Invocation, Lineage, Receipt, Resource, SecretProvider, Vocabulary
    from metier.session.calls import Calls
    from metier.session.context import By
    from metier.session.copies import Copies
    from metier.session.events import Listener, View
    from metier.session.files import SkillFiles
    from metier.session.hooks import HookRunner
    from metier.session.job_sandbox import JobSandbox
    from metier.session.loader import Loader, LoadMode
    from metier.session.prompt import Delivery
    from metier.session.runs import Runs
    from metier.session.shell import SessionShell
    from metier.skill.listing import ListingMode
    from metier.tools import Executor, Tool

Part = TypeVar("Part")

MAX_ACTIVE = 8
DEFAULT_BUDGET = 5_120
LEAST_BUDGET = 512
"""Bytes that hold the shortest rules of every dialect, the counts of any library and a way to search it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a session. All of them are given to `Library.session`."""

    max_active: int = MAX_ACTIVE
    """The number of skills that may be active at once; 1 gives one skill at a time."""
    delivery: Delivery = "result"
    """The way of a skill's instructions to a model: in the result of the call that loads it, or at the top level."""
    budget: int = DEFAULT_BUDGET
    """Bytes of the catalog together with the text that stands around it, at least 512."""
    listing: Mapping[str, ListingMode] = field(default_factory=dict)
    """Listing modes by name or pattern: `{"pdf-*": "pinned"}`; what policy files keep from models stays so."""
    names: frozenset[str] | None = None
    """The only skills that this session may know of."""
    dependencies: Literal["hint", "load"] = "hint"
    """Whether the skills that one requires are named to the model, or loaded before it."""
    script_folders: tuple[str, ...] = ("scripts",)
    """The folders of a skill whose files may be run."""
    mount: str = "/.sandbox/skills"
    """The folder of the virtual shell that has the files of skills, each in a folder of its name."""
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


class _part(Generic[Part]):  # noqa: N801  (it is written like `property`)
    """A part of a session that is made when it is first used, once, whatever threads use it."""

    def __init__(self, make: Callable[[Any], Part]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, session: Session, owner: type) -> Part:
        if session is None:
            return self  # type: ignore[unreachable]
        with session.loaded.lock:
            parts = session.__dict__
            if self._name not in parts:
                parts[self._name] = self._make(session)
            made: Part = parts[self._name]
            return made


class Session:
    """One conversation: the skills that it has loaded, and the tools by which a model uses them.

    Safe to use from several threads; never share one between conversations.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> session = library.session()
    >>> [tool.name for tool in session.tools()]
    ['skills_load', 'skills_unload', 'skills_read', 'skills_run', 'skills_search']
    >>> session.load("greet").active[0].name
    'greet'
    >>> session.unload(all=True).active
    ()
    """

    library: Library
    """The library that its skills come from."""
    options: Options
    """Its settings."""
    context: SessionContext
    """The actor, the workspace, the guard and the listeners."""
    known: KnownSkills
    """The skills that it may know of, and how its model sees each."""
    loaded: ActiveSkills
    """The skills that are active, kept true to the library and the guard."""

    def __init__(
        self,
        library: Library,
        *,
        skills: Sequence[str] = (),
        bound: Sequence[str] = (),
        id: str | None = None,  # noqa: A002
        guard: Guard | None = None,
        policy: Policy | None = None,
        runner: Runner | None = None,
        secrets: SecretProvider | None = None,
        workspace: Path | str | None = None,
        user: str | None = None,
        correlation_id: str | None = None,
        lineage: Lineage | None = None,
        on_event: Listener | None = None,
        **options: Any,
    ) -> None:
        """Begin a conversation with `skills` loaded; `options` are the fields of `Options`.

        Skills in `bound` are part of what the agent is: their text stands in its own instructions, they stay loaded to
        the end whatever anybody unloads, beside as many others as may be active, and what they restrict stays so.
        What it may do is decided by `guard`, which several sessions can share, or by a guard of its own with `policy`.
        Scripts run by `runner`, by default in the strongest sandbox that this machine has; `secrets` is where those
        come from that policy grants them. `workspace` is the folder that they work in, by default the current one;
        `user` and `correlation_id` go into every audit record. `on_event` is told each event from the first on, as by
        `listen`.
        """
        guard = _checked_guard(guard, policy, workspace if workspace is not None else _project_of(library))
        self.options = _checked_options(options)
        self.library = library
        own_id = checked_id(id) if id else uuid.uuid4().hex
        caller = library.caller
        self.context = SessionContext(
            id=own_id,
            workspace=os.path.abspath(workspace if workspace is not None else os.getcwd()),
            index=library.index,
            guard=guard,
            actor=Actor(
                agent=caller.agent,
                tenant=caller.tenant,
                environment=caller.environment,
                user=user or current_user(),
                session=own_id,
                correlation_id=correlation_id,
            ),
            given_lineage=lineage,
        )
        self.known = KnownSkills(self.context, self.options.names, self.options.listing)
        self.loaded = ActiveSkills(self.context, self.known)
        self._runner = runner
        self._secrets = secrets
        self._is_released = False
        if on_event is not None:
            self.listen(on_event)
        if isinstance(bound, str) or bound:
            self.loader.bind(bound)
        if isinstance(skills, str) or skills:
            from metier.session.loader import checked_names

            names = checked_names(skills)
            if len(names) != len(skills) and not isinstance(skills, str):
                raise InvalidArgument("A skill is named twice.", hint="Name each skill once.")
            self.load(names)

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self.loaded.held)
        return f"<Session {self.id[:8]} with {names or 'nothing loaded'}>"

    @property
    def id(self) -> str:
        """The id of the conversation, in records and for scripts."""
        return self.context.id

    @property
    def guard(self) -> Guard:
        """The guard that decides what it may do."""
        return self.context.guard

    @property
    def active(self) -> tuple[ActiveSkill, ...]:
        """The active skills, the most recently loaded last, without those that are gone or blocked by now."""
        return self.loaded.open

    # The parts below are made when they are first used.

    @_part
    def prompt(self) -> Prompt:
        """The texts for its model: rules, catalog, contents of skills."""
        options = self.options
        return Prompt(
            self.context,
            self.library.finder,
            self.known,
            self.loaded,
            budget=options.budget,
            delivery=options.delivery,
            mount=options.mount,
        )

    @_part
    def loader(self) -> Loader:
        """The loader of its skills, with nested activations."""
        from metier.session.loader import Loader

        return Loader(
            self.context,
            self.known,
            self.loaded,
            self._copies,
            prompt=lambda: self.prompt,
            calls=lambda: self.calls,
            sandbox=lambda: self._sandbox,
            hooks=lambda: self._hooks,
            max_active=self.options.max_active,
            dependencies=self.options.dependencies,
        )

    @_part
    def calls(self) -> Calls:
        """The admission of tool calls: the gate of its executors."""
        from metier.session.calls import Calls

        return Calls(self.context, self.loaded, self._hooks)

    @_part
    def files(self) -> SkillFiles:
        """The files of its active skills."""
        from metier.session.files import SkillFiles

        return SkillFiles(self.context, self.loaded, self._copies)

    @_part
    def runs(self) -> Runs:
        """Runs of scripts and commands, and the virtual shell."""
        from metier.session.runs import Runs

        folders = self.options.script_folders
        return Runs(self.context, self.loaded, self._copies, self._sandbox, lambda: self._shell, script_folders=folders)

    @_part
    def _copies(self) -> Copies:
        from metier.session.copies import Copies

        return Copies()

    @_part
    def _sandbox(self) -> JobSandbox:
        from metier.session.job_sandbox import JobSandbox

        return JobSandbox(
            self.context,
            self.loaded,
            self._copies,
            runner=self._runner,
            provider=self._secrets,
            mount=self.options.mount,
        )

    @_part
    def _hooks(self) -> HookRunner:
        from metier.session.hooks import HookRunner

        return HookRunner(self.context, self._copies, self._sandbox)

    @_part
    def _shell(self) -> SessionShell:
        from metier.session.shell import SessionShell

        return SessionShell(
            self.context,
            self.known,
            self.loaded,
            self.calls,
            self._copies,
            self._sandbox,
            mount=self.options.mount,
            script_folders=self.options.script_folders,
        )

    def load(
        self,
        names: str | Sequence[str],
        mode: LoadMode | Literal[""] = "replace",
        *,
        args: str = "",
        by: By = "host",
        make_room: bool = False,
    ) -> Receipt:
        """Load skills: instead of those that are active, or in addition to them. A load that fails changes nothing.

        A skill that is loaded already moves to the end. `args` are the arguments that its instructions ask for. Where
        there would be too many, it is an error, or with `make_room` those go that were loaded longest ago.
        """
        return self.loader.load(names, mode, args=args, by=by, make_room=make_room)

    def unload(self, names: str | Sequence[str] = (), *, all: bool = False, by: By = "host") -> Receipt:  # noqa: A002
        """Unload some skills, or all; one that is not loaded does not matter."""
        return self.loader.unload(names, all=all, by=by)

    def invoke(
        self, text: str, *, words: Vocabulary | None = None, make_room: bool = False, by: By = "user"
    ) -> Invocation | None:
        """Invoke the skill that a person asks for by `/name arguments`; None when the text is no such thing.

        Whoever types a name agrees by that to a skill that nobody vouches for. Where a program says that somebody did,
        it is `by="client"`, and is asked about. The skill is loaded beside those that are active. One whose `insert`
        is `user-message` is not loaded: it is the text of a message that the user need not type.
        """
        from metier.session.prompt import RUNTIME

        return self.loader.invoke(text, words=words or RUNTIME, make_room=make_room, by=by)

    def read(self, path: str, skill: str | None = None, **options: Any) -> Resource:
        """Return a file of an active skill; of the most recently loaded one when none is named.

        Options are `encoding` (text or base64), `start` and `end` (lines from 1), `limit` (bytes) and `by`.
        """
        return self.files.read(path, skill, **options)

    async def run(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """Run a script of an active skill; options are `env`, `folder`, `seconds`, `stdin`, `by` and `on_output`.

        `on_output` is told each line as it comes, perhaps from another thread.
        """
        return await self.runs.script(script, args, skill, **options)

    def run_blocking(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """`run`, for programs without an event loop."""
        return self.runs.script_blocking(script, args, skill, **options)

    def instructions(self, prompt: str | None = None, *, dialect: DialectName | Dialect = "runtime") -> str:
        """Return the top-level text for the next model call; empty when there is nothing to say.

        `prompt` is the user's request: where the library is larger than the catalog, skills that fit it come in.
        """
        return _dialect(dialect).instructions(self, prompt)

    def tools(self, dialect: DialectName | Dialect = "runtime", *, spawn: Spawn | None = None) -> list[SkillTool]:
        """Return the tools by which a model uses skills: name, description, JSON schema and async call.

        `spawn` starts an agent for a skill that asks for one of its own (`context: fork`). Where the session has the
        option `proposals`, there are those too by which a model proposes changes to skills.
        """
        found = _dialect(dialect).tools(self, spawn)
        if self.options.proposals:
            from metier.dialect.skill_proposals import proposal_tools

            found = [*found, *proposal_tools(self)]
        return found

    def executor(
        self,
        tools: Iterable[Tool] = (),
        *,
        dialect: DialectName | Dialect = "runtime",
        builtin: Sequence[str] = (),
        spawn: Spawn | None = None,
        is_all: bool = True,
    ) -> Executor:
        """Return what calls tools under this session's rules: those of the dialect, an agent's own, and built-in ones.

        `builtin` names those of Read, Write, Edit, Glob, Grep, Bash and WebFetch that the agent is to have. They work
        in the session's workspace; WebFetch reaches the hosts that policy grants. Skills that require other tools are
        not shown, unless `is_all=False` says that the agent has more than these.
        """
        from metier.tools import Executor, ToolRegistry

        given = [*self.tools(dialect, spawn=spawn), *tools, *self._built_in(builtin)]
        if is_all:
            self.known.set_tools(tool.name for tool in given)
        return Executor(ToolRegistry(given), self.calls, words=_dialect(dialect).words.tools)

    def _built_in(self, names: Sequence[str]) -> list[Tool]:
        from metier.tools import Workspace, builtin_tools

        if isinstance(names, str):
            raise InvalidArgument("builtin is a list of names.", hint=f"Write builtin=[{names!r}].")
        if not names:
            return []
        # The files of loaded skills can be read too, wherever they lie; they cannot be written.
        folder = self.context.workspace
        os.makedirs(folder, exist_ok=True)
        workspace = Workspace(
            folder,
            # At the root of one whose copy is gone, and cannot be made again, is nothing to be read.
            readable=lambda: [one.root for one, _ in self._copies.verified(self.active)],
            allows=lambda tool, path: self.may_call(tool, {"file_path": path}),
            access=self.calls.file_access,
        )
        runner = self._sandbox.runner_for_commands() if "Bash" in names else None
        hosts = self._sandbox.reachable_hosts if "WebFetch" in names else None
        made = builtin_tools(workspace, runner, unsearched=self._unread_scripts, hosts=hosts)
        known = {tool.name: tool for tool in made}
        unknown = [name for name in names if name not in known]
        if unknown:
            every = ", ".join(dict.fromkeys((*known, "Bash", "WebFetch")))
            raise InvalidArgument(f"There is no built-in tool {unknown[0]!r}.", hint=f"They are {every}.")
        return [known[name] for name in names]

    def _unread_scripts(self) -> frozenset[str]:
        """The scripts of active skills, where policy has them run and not read."""
        if self.guard.policy.script_reads == "allow":
            return frozenset()
        return frozenset(os.path.realpath(path) for one in self.active for path in one.ceiling.scripts)

    def may_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a tool call would be allowed now, without asking anybody; nothing is recorded."""
        return self.calls.may_call(tool, arguments)

    def listen(self, listener: Listener, view: View = "full") -> Callable[[], None]:
        """Call `listener` with every event as it happens; the returned function stops it."""
        if view not in ("summary", "full"):
            raise InvalidArgument(f"There is no view {view!r}.", hint="Views are summary and full.")
        return self.context.listeners.add(listener, view)

    @contextlib.contextmanager
    def task(self, id: str | None = None) -> Iterator[Self]:  # noqa: A002
        """One task: at its end everything is unloaded, also when it fails or is cancelled."""
        context = self.context
        context.require_open()
        before = context.actor
        context.actor = replace(before, task=id or uuid.uuid4().hex)
        try:
            yield self
        finally:
            try:
                if not context.is_closed:
                    self.loaded.stack.clear()
                    self.unload(all=True)
            finally:
                context.actor = before

    def child(self, name: str, library: Library | None = None, **options: Any) -> Self:
        """Return a session for an agent that this conversation starts; `name` stands for it in the lineage.

        It has nothing of this conversation, and whatever restricts this one restricts it too. `library` is that of
        another caller; other options are those of a session, by default as they are here.
        """
        context = self.context
        context.require_open()
        given = {field.name: getattr(self.options, field.name) for field in fields(Options)} | options
        child = type(self)(
            self.library if library is None else library,
            guard=self.guard,
            runner=self._runner,
            secrets=self._secrets,
            workspace=context.workspace,
            user=context.actor.user,
            correlation_id=context.actor.correlation_id or self.id,
            lineage=context.lineage.child(name),
            **given,
        )
        loaded = child.loaded
        loaded.above = (*self.loaded.above, *(one.ceiling for one in self.loaded.live()), *loaded.above)
        child.context.actor = replace(child.context.actor, parent=self.id, model=context.actor.model)
        # Whoever listens here is told what the agent does that this conversation starts, and not what it says.
        child.listen(lambda event: context.listeners.tell(event) if event.kind in SKILL_EVENTS else None)
        return child

    def fork(self, name: str, *, args: str = "", by: By = "host") -> Self:
        """Return a session for a sub-agent that has this one skill and nothing else of this conversation."""
        self.context.require_open()
        entry = self.known.find(name, by=by)
        # It is there from the first call on, before any tool could have told the sub-agent of it.
        child = self.child(entry.name, delivery="instructions")
        child.loaded.forked_for = entry.name
        try:
            child.load([child.known.handle(entry)], args=args, by=by)
            # That agent is there for this skill alone: nothing that it reads may talk it out of what the skill
            # restricts.
            child.loaded.fix([child.loaded.one()])
        except BaseException:
            child.close()
            raise
        return child

    def save(self, *, seal: bool = False) -> dict[str, Any]:
        """Return its state as JSON holds it, for `Library.resume`.

        With `seal`, nothing can be done with it from now on: whatever happens meanwhile is in the state or is refused.
        `close` is still due.
        """
        from metier.session.saved_state import saved

        loaded = self.loaded
        active = loaded.held if seal else self.active
        with loaded.lock:
            if seal:
                self.context.require_open()
                self.context.is_closed = True
                active = loaded.held
            return saved(self.context, active, loaded.stack.frames, self.prompt.delivered.copy())

    @classmethod
    def resume(cls, library: Library, state: Mapping[str, Any] | str | bytes, **options: Any) -> Self:
        """Go on with a saved session; skills that are gone or blocked by now are left out."""
        from metier.session.active_skills import ActivationStack
        from metier.session.saved_state import SavedState

        if options.get("skills"):
            raise InvalidArgument("A resumed session has its own skills.", hint="Load others once it is resumed.")
        found = SavedState(state)
        session = cls(library, **({"id": found.id} | options))
        session.context.actor = replace(session.context.actor, task=found.task)
        session.loader.restore(found.resume(session.loader), found.delivered)
        names = {one.name for one in session.loaded.held}
        session.loaded.stack = ActivationStack(frame for frame in found.frames if frame[0] in names)
        return session

    def close(self) -> None:
        """Unload everything and end; nothing can be done with it afterwards."""
        loaded = self.loaded
        with loaded.lock:
            if self._is_released:
                return
            gone = loaded.clear()
            self.context.is_closed = self._is_released = True
        loaded.stack.clear()
        try:
            loaded.end(gone, "host", "closed")
        finally:
            # Parts that were never used have nothing to close.
            for part in (vars(self).get("_shell"), vars(self).get("_copies")):
                if part is not None:
                    part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _project_of(library: Library) -> str | None:
    """The folder of the project that a library was discovered in, which may not be the working folder."""
    for place in library.places:
        if place.layer == "project" and isinstance(place.source, FolderSource):
            root = os.fspath(place.source.root).replace(os.sep, "/")
            found = next((name for name in PROJECT_FOLDERS if root.endswith(f"/{name}")), None)
            if found is not None:
                return root.removesuffix(f"/{found}")
    return None


def _checked_guard(guard: Guard | None, policy: Policy | None, project: str | os.PathLike[str] | None) -> Guard:
    if guard is not None and policy is not None:
        raise InvalidArgument("A guard has a policy of its own.", hint="Give a guard or a policy.")
    if guard is not None and not isinstance(guard, Guard):
        raise InvalidArgument(
            f"guard is {type(guard).__name__}.", hint="Write guard=Guard(...), or policy=Policy(...)."
        )
    return guard or Guard(policy, project=project)


def _checked_options(given: Mapping[str, Any]) -> Options:
    known = {field.name for field in fields(Options)}
    unknown = [name for name in given if name not in known]
    if unknown:
        import inspect

        accepted = sorted(known | {*inspect.signature(Session).parameters} - {"library", "options"})
        meant = suggestion(unknown[0], accepted)
        raise InvalidArgument(
            f"A session has no option {unknown[0]!r}.",
            hint=(f"Did you mean {meant}? " if meant else "") + f"Options are {', '.join(accepted)}.",
        )
    lists: dict[str, Any] = {}
    for name in ("names", "script_folders"):
        value = given.get(name)
        if isinstance(value, str):
            raise InvalidArgument(f"`{name}` is a list, not text.", hint=f"Write {name}=[{value!r}].")
        if value is not None:
            lists[name] = frozenset(value) if name == "names" else tuple(value)
    return Options(**{**given, **lists})


def _is_mount(path: str) -> bool:
    return path.startswith("/") and path.isprintable() and os.path.normpath(path) == path and path.strip("/") != ""


def _dialect(chosen: DialectName | Dialect) -> Dialect:
    from metier.dialect import dialect

    return dialect(chosen) if isinstance(chosen, str) else chosen
