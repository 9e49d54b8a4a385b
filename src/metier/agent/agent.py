"""An agent: what is declared of it, at work with a model, tools and skills."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from metier._lazy import logger
from metier.agent.authoring_tools import skill_authoring_tools
from metier.agent.delegates import lineage_name, root_lineage
from metier.agent.manifest import BUILDING, BUILT_IN
from metier.agent.models import choose_model
from metier.agent.streaming import stream_events
from metier.agent.subagents import AgentSession
from metier.agent.turn import Turn
from metier.dialect.context import SkillContext, TurnContext, enriched_prompt_async
from metier.dialect.dialects import dialect as dialect_of
from metier.dialect.pydantic_ai import Skills
from metier.dialect.skills import MAX_FORKS
from metier.errors import AgentInvalid, InvalidArgument
from metier.session import Event
from metier.skill import shown
from metier.tools import FunctionTool, Tool
from metier.tools.thread_handoff import ThreadHandoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

    from metier import Entry, Guard, Policy, Session
    from metier.agent.agents import Agents
    from metier.agent.answer import Answer
    from metier.agent.conversation import Conversation
    from metier.agent.manifest import Manifest
    from metier.dialect import Dialect, DialectName
    from metier.dialect.context import AnyProvider
    from metier.dialect.pydantic_ai import Models
    from metier.guard import AuditLog
    from metier.guard.question import Approve
    from metier.session.events import View

log = logger("metier.agent")


class Agent:
    """An agent that is declared, ready to work.

    Each task runs in a session of its own, with the agent's skills and rules; at its end everything is unloaded,
    whatever happened.

    >>> from metier import Library
    >>> from metier.agent import Agents
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> agents = Agents.discover(library)
    >>> agent = Agent(agents.get("orchestrator"), agents, model="test")
    >>> agent.run_blocking("Please greet Ada.").turns
    3
    """

    def __init__(
        self,
        manifest: Manifest,
        agents: Agents,
        *,
        model: Model | str | None = None,
        models: Models | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        context: Sequence[AnyProvider | Callable[[Session], AnyProvider]] = (),
        dialect: DialectName | Dialect = "runtime",
        policy: Policy | None = None,
        guard: Guard | None = None,
        audit: AuditLog | str | None = None,
        approve: Approve | None = None,
        suspend: bool | None = None,
        **options: Any,
    ) -> None:
        """An agent of `agents`, on the model that is given, declared, or named by METIER_MODEL, in this order.

        `tools` are what the host has: tools or Python functions; the agent gets those that its `uses_tools` names.
        `models` are those that skills may switch to, by default those of the provider of its own. `context` says things
        before every prompt: providers, or what makes one of a session, such as `SkillContext`. What may happen is
        decided by `guard`, or by one made of `policy`, `audit` and `approve`, which the agents share that it starts.
        Where a person has to agree and nobody here can be asked, the run is suspended with `suspend`, and the call is
        refused without; left out, it is suspended where there is no `approve`.
        Other options are those of every session: `workspace`, `user`, `runner` and more.
        """
        self.manifest = manifest
        self.agents = agents
        self._given = model
        self._host = _by_name(tools)
        self._context = tuple(context)
        self._options = options
        self._models = models
        self.skills = Skills(
            agents.library_for(manifest),
            models=models,
            dialect=dialect,
            policy=policy,
            guard=guard,
            audit=audit,
            approve=approve,
        )
        """Its skills, as pydantic-ai has them."""
        self.guard = self.skills.seam.guard
        self._dialect = dialect
        self._suspend = suspend
        wanted = agents.tools_for(manifest)
        self.builtin = tuple(name for name in wanted if name in BUILT_IN)
        """The built-in tools that it has."""
        self._wanted = tuple(name for name in wanted if name not in BUILT_IN)
        self._require_tools()
        # What is wrong with it is said here, and not in the first run.
        agents.skills_for(manifest)

    def __repr__(self) -> str:
        return f"<Agent {self.manifest.id}>"

    @functools.cached_property
    def model(self) -> Model:
        """The model that it runs on; raises `ModelMissing`."""
        return choose_model(self._given, self.manifest.model)

    @functools.cached_property
    def dialect(self) -> Dialect:
        """The dialect in which its model sees skills."""
        chosen = dialect_of(self._dialect)
        return _Unsaid(chosen) if SkillContext in self._context else chosen

    @property
    def suspends(self) -> bool:
        """Whether a run waits, suspended, for what nobody here can be asked now."""
        return not self.guard.may_ask if self._suspend is None else self._suspend

    async def run(self, task: str, *, history: Sequence[ModelMessage] = ()) -> Answer:
        """Run a task to its end; raises `AgentFailed` where there is no answer. `history` is what was said before.

        An answer that `is_suspended` waits for somebody: `resume` goes on from its `state`.
        """
        async with self.begun() as turn:
            return await turn.answer(await self.enriched(turn.session, task), history)

    def run_blocking(self, task: str, *, history: Sequence[ModelMessage] = ()) -> Answer:
        """`run`, for programs without an event loop."""
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidArgument("An event loop is running in this thread.", hint="Use `await agent.run(...)`.")
        return anyio.run(functools.partial(self.run, task, history=history))

    async def resume(self, state: Mapping[str, Any] | str | bytes, answers: Mapping[str, bool] | None = None) -> Answer:
        """Go on with a run that was suspended, here or in another process, by the `state` of its answer.

        The calls that wait are made again. `answers` are by the ids of the questions; what an approver has granted
        meanwhile needs none, and what still has no answer suspends it again.
        """
        made: ThreadHandoff[Conversation] = ThreadHandoff(lambda one: one.close(), self.guard.in_thread)
        conversation = await made.fetch(lambda: self.conversation(state))
        try:
            return await conversation.resumed(answers)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(conversation.close)

    async def stream(
        self,
        task: str,
        *,
        history: Sequence[ModelMessage] = (),
        view: View = "full",
        on_suspended: Callable[[Answer], object] | None = None,
    ) -> AsyncGenerator[Event]:
        """Run a task and tell what happens: text as it comes, skills, tool calls, and last the answer.

        Whoever stops iterating ends the run: use `contextlib.aclosing` where the loop may be left early. Where it is
        suspended, the last event is `suspended`, and `on_suspended` is given what `resume` goes on from.
        """
        async with contextlib.AsyncExitStack() as ending:
            turn = await ending.enter_async_context(self.begun())

            async def work(pace: Any) -> None:
                # What the run has loaded is unloaded before its answer, which is the last that is told.
                async with ending:
                    answer = await turn.answer(await self.enriched(turn.session, task), history, pace=pace)
                if answer.is_suspended and on_suspended is not None:
                    on_suspended(answer)
                turn.session.context.emit(answer_event(answer))

            async with contextlib.aclosing(stream_events(turn.session, work, view)) as events:
                async for event in events:
                    yield event

    def conversation(self, state: Mapping[str, Any] | str | bytes | None = None) -> Conversation:
        """A conversation with it, or one that goes on from what `Conversation.save` gave."""
        from metier.agent.conversation import Conversation

        return Conversation(self, state)

    @contextlib.asynccontextmanager
    async def begun(self, under: Turn | None = None) -> AsyncIterator[Turn]:
        """A turn in a session of its own, which is closed at the end, whatever happens.

        `under` is the turn of the agent that starts this one.
        """
        made: ThreadHandoff[AgentSession] = ThreadHandoff(lambda session: session.close(), self.guard.in_thread)
        session = await made.fetch(lambda: self.session(None if under is None else under.session))
        ending = contextlib.ExitStack()
        ending.enter_context(session)
        try:
            ending.enter_context(session.task())
            yield Turn(self, session, model=self.model, under=under)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ending.close)

    def session(
        self,
        parent: Session | None = None,
        state: Mapping[str, Any] | None = None,
        forked: Entry | None = None,
    ) -> AgentSession:
        """A session of this agent: its own, that of an agent which another one starts, or one that goes on.

        `forked` is the skill that it is started for.
        """
        agents, manifest = self.agents, self.manifest
        agents.library.refresh()
        library, names = agents.library_for(manifest), agents.names_for(manifest)
        options: dict[str, Any] = {"names": names, "bound": agents.skills_for(manifest)}
        if parent is None:
            options |= {"guard": self.guard, "lineage": root_lineage(manifest, MAX_FORKS), **self._options}
            begun = (
                AgentSession(library, **options) if state is None else AgentSession.resume(library, state, **options)
            )
        else:
            name = lineage_name(manifest)
            if forked is not None:
                # It is there from the first call on, before any tool could have told the agent of it.
                options |= {"delivery": "instructions", "names": None if names is None else names | {forked.name}}
                # An agent that runs already may run a skill in another of its kind, but not the same skill again.
                name = forked.name if getattr(parent, "agent", None) is self else name
            begun = cast("AgentSession", parent.child(name, library, **options))
        begun.agent = self
        return begun

    async def instructions(self, session: Session) -> str:
        """The instructions of the agent, the same for every task."""
        variables: dict[str, Any] = {
            "user": session.context.actor.user or "",
            "workspace": session.context.workspace,
        }
        return await anyio.to_thread.run_sync(functools.partial(self.agents.instructions, self.manifest, **variables))

    async def enriched(self, session: Session, prompt: str) -> str:
        """A prompt with the context before it."""
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidArgument("Nothing was asked.", hint="Say what the agent is to do.")
        if not self._context:
            return prompt
        turn = TurnContext(agent_id=self.manifest.id, session_id=session.id, user=session.context.actor.user)
        return await enriched_prompt_async(self._providers(session), prompt, turn)

    def _providers(self, session: Session) -> list[AnyProvider]:
        found = []
        for one in self._context:
            try:
                found.append(one(session) if callable(one) else one)
            except Exception:
                # What has nothing to say must not cost the turn.
                log.exception("a context provider could not be made")
        return found

    def other(self, manifest: Manifest) -> Agent:
        """Another agent beside it, under the same guard and with the same tools to choose from."""
        # A model that somebody chose by hand is for all of them; else each has its own, and who has none that of this.
        model = self._given if self._given is not None or manifest.model else self.model
        return Agent(
            manifest,
            self.agents,
            model=model,
            models=self._models,
            tools=self._host.values(),
            dialect=self._dialect,
            guard=self.guard,
            **self._options,
        )

    def tools(self, session: Session) -> list[Tool]:
        """Its tools that are not built in: those of the host, and those by which it writes and proposes skills."""
        known: dict[str, Tool] = {}
        if any(name in BUILDING for name in self._wanted):
            from metier.dialect.skill_proposals import proposal_tools

            os.makedirs(session.context.workspace, exist_ok=True)
            tools = (*skill_authoring_tools(session.context.workspace, session=session), *proposal_tools(session))
            known = {tool.name: tool for tool in tools}
        known |= self._host
        return [known[name] for name in self._wanted]

    def _require_tools(self) -> None:
        known = (*BUILT_IN, *BUILDING, *self._host)
        for name in self._wanted:
            if name not in known:
                raise AgentInvalid(
                    f"Agent {self.manifest.id!r} uses tool {shown(name)!r}, which is not here.",
                    hint=f"Tools are {', '.join(known)}; other agents are named by their ids.",
                    agent=self.manifest.id,
                    tool=name,
                )


class _Unsaid:
    """A dialect whose text stands elsewhere: before the prompt."""

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self.words = dialect.words
        self.tools = dialect.tools

    def instructions(self, session: Any, prompt: str | None = None) -> str:
        return ""


def answer_event(answer: Answer) -> Event:
    """An answer as an event, or that it has to be waited for."""
    used = answer.usage
    data = {"turns": answer.turns, "input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
    if answer.is_suspended:
        waiting = [{"id": one.id, "text": one.text, "request": one.request} for one in answer.questions]
        message = " ".join(one.text for one in answer.questions)
        return Event(kind="suspended", message=message, data={"agent": answer.agent, **data, "questions": waiting})
    return Event(kind="answer", message=answer.text, data={"agent": answer.agent, **data})


def _by_name(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for given in tools:
        tool = given if isinstance(given, Tool) else FunctionTool(given)
        if tool.name in found or tool.name in BUILT_IN:
            raise InvalidArgument(f"There are two tools {tool.name!r}.", hint="Give each tool a name of its own.")
        found[tool.name] = tool
    return found
