"""`metier.Session`: one conversation with skills, composed of the parts of `metier.session`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import fields, replace
from metier._suggest import suggestion
from metier.errors import InvalidArgument
from metier.guard import Actor, Guard
from metier.guard.guard import current_user
from metier.library.clients import PROJECT_FOLDERS
from metier.session.context import Options, SessionContext, SessionParts, checked_id
from metier.session.events import SKILL_EVENTS
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self, Unpack

    from metier._library import Library
    from metier.dialect import Dialect, DialectName, SkillTool, Spawn
    from metier.guard import Policy
    from metier.run import Outcome, Runner
    from metier.session import ActiveSkill, Invocation, Lineage, Receipt, Resource, SecretProvider, Vocabulary
    from metier.session.active_skills import ActiveSkills
    from metier.session.calls import Calls
    from metier.session.context import By
    from metier.session.events import Listener, View
    from metier.session.files import ReadOptions
    from metier.session.loader import LoadMode
    from metier.session.prompt import Prompt
    from metier.session.runs import RunOptions, Runs
    from metier.store import Feedback
    from metier.tools import Executor, Tool


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
    parts: SessionParts
    """The parts that it is composed of, for adapters and tools that are built on sessions."""

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
        settings = _checked_options(options)
        self.library = library
        own_id = checked_id(id) if id else os.urandom(16).hex()
        caller = library.caller
        context = SessionContext(
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
            options=settings,
            given_lineage=lineage,
        )
        self.parts = SessionParts(context, runner, secrets)
        self._is_released = False
        if on_event is not None:
            self.listen(on_event)
        if isinstance(bound, str) or bound:
            self.parts.loader.bind(bound)
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
    def context(self) -> SessionContext:
        """The actor, the workspace, the settings and the listeners."""
        return self.parts.context

    @property
    def guard(self) -> Guard:
        """The guard that decides what it may do."""
        return self.context.guard

    @property
    def active(self) -> tuple[ActiveSkill, ...]:
        """The active skills, the most recently loaded last, without those that are gone or blocked by now."""
        return self.parts.loaded.open

    @property
    def loaded(self) -> ActiveSkills:
        """The skills that are active, kept true to the library and the guard: `session.loaded.one("deploy")`."""
        return self.parts.loaded

    @property
    def prompt(self) -> Prompt:
        """The texts for its model: rules, catalog, contents of skills."""
        return self.parts.prompt

    @property
    def calls(self) -> Calls:
        """The admission of tool calls: the gate of its executors."""
        return self.parts.calls

    @property
    def runs(self) -> Runs:
        """Runs of scripts and commands, and the virtual shell."""
        return self.parts.runs

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
        return self.parts.loader.load(names, mode, args=args, by=by, make_room=make_room)

    def unload(self, names: str | Sequence[str] = (), *, all: bool = False, by: By = "host") -> Receipt:  # noqa: A002
        """Unload some skills, or all; one that is not loaded does not matter."""
        return self.parts.loader.unload(names, all=all, by=by)

    def invoke(
        self, text: str, *, words: Vocabulary | None = None, make_room: bool = False, by: By = "user"
    ) -> Invocation | None:
        """Invoke the skill that a person asks for by `/name arguments`; None when the text is no such thing.

        Whoever types a name agrees by that to a skill that nobody vouches for. Where a program says that somebody did,
        it is `by="client"`, and is asked about. The skill is loaded beside those that are active. One whose `insert`
        is `user-message` is not loaded: it is the text of a message that the user need not type.
        """
        from metier.session.prompt import RUNTIME

        return self.parts.loader.invoke(text, words=words or RUNTIME, make_room=make_room, by=by)

    def read(self, path: str, skill: str | None = None, *, by: By = "host", **options: Unpack[ReadOptions]) -> Resource:
        """Return a file of an active skill; of the most recently loaded one when none is named."""
        return self.parts.files.read(path, skill, by=by, **options)

    async def run(
        self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Unpack[RunOptions]
    ) -> Outcome:
        """Run a script of an active skill."""
        return await self.runs.script(script, args, skill, **options)

    def run_blocking(
        self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Unpack[RunOptions]
    ) -> Outcome:
        """`run`, for programs without an event loop."""
        return self.runs.script_blocking(script, args, skill, **options)

    def feedback(self, skill: str, *, helped: bool, comment: str = "", by: By = "host") -> Feedback:
        """Say that a skill helped, or did not: it counts in `metier stats`, and reviewers of changes read it.

        It is kept in the store, with the content that is loaded, or else the one that is there now.
        """
        from metier.hub import give_feedback
        from metier.session.active_skills import subject_of

        self.context.require_open()
        loaded = next((one for one in self.active if one.name == skill), None)
        if loaded is None:
            entry = self.parts.known.find(skill, by=by)
            subject = subject_of(entry, self.library.digest(entry))
        else:
            subject = loaded.subject
        actor = self.context.actor
        agent, model = (actor.agent or "agent", actor.model) if by == "model" else (None, None)
        actor = replace(actor, agent=agent, model=model)
        scope = self.guard.governance.scope(actor)
        return give_feedback(scope, subject, helped, comment, actor=actor)

    def instructions(self, prompt: str | None = None, *, dialect: DialectName | Dialect = "runtime") -> str:
        """Return the top-level text for the next model call; empty when there is nothing to say.

        `prompt` is the user's request: where the library is larger than the catalog, skills that fit it come in.
        """
        return _dialect(dialect).instructions(self, prompt)

    def tools(self, dialect: DialectName | Dialect = "runtime", *, spawn: Spawn | None = None) -> list[SkillTool]:
        """Return the tools by which a model uses skills: name, description, JSON schema and async call.

        `spawn` starts an agent for a skill that asks for one of its own (`context: fork`). Where the session has the
        option `proposals`, there are those too by which a model proposes changes to skills, and with `feedback` the one
        by which it says whether a skill helped.
        """
        found = _dialect(dialect).tools(self, spawn)
        if self.context.options.proposals:
            from metier.dialect.skill_proposals import proposal_tools

            found = [*found, *proposal_tools(self)]
        if self.context.options.feedback:
            from metier.dialect.skill_feedback import feedback_tool

            found = [*found, feedback_tool(self)]
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
            self.parts.known.set_tools(tool.name for tool in given)
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
            readable=lambda: [one.root for one, _ in self.parts.copies.verified(self.active)],
            allows=lambda tool, path: self.may_call(tool, {"file_path": path}),
            access=self.calls.file_access,
        )
        runner = self.parts.sandbox.runner_for_commands() if "Bash" in names else None
        hosts = self.parts.sandbox.reachable_hosts if "WebFetch" in names else None
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
        context.actor = replace(before, task=id or os.urandom(16).hex())
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
        given = {field.name: getattr(context.options, field.name) for field in fields(Options)} | options
        child = type(self)(
            self.library if library is None else library,
            guard=self.guard,
            runner=self.parts.runner,
            secrets=self.parts.secrets,
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
        entry = self.parts.known.find(name, by=by)
        # It is there from the first call on, before any tool could have told the sub-agent of it.
        child = self.child(entry.name, delivery="instructions")
        child.loaded.forked_for = entry.name
        try:
            child.load([child.parts.known.handle(entry)], args=args, by=by)
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
        session.parts.loader.restore(found.resume(session.parts), found.delivered)
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
            self.parts.close()

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


def _dialect(chosen: DialectName | Dialect) -> Dialect:
    from metier.dialect import dialect

    return dialect(chosen)
