"""Skills for the OpenAI Agents SDK: an agent with tools, instructions for every turn, and a gate before all tools."""

from __future__ import annotations

import copy
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import anyio.to_thread

from metier._extras import optional

with optional("Skills for the OpenAI Agents SDK", "openai-agents", extra="openai-agents"):
    from agents import Agent, FunctionTool, Model, Runner

from metier.dialect import skills as seam
from metier.dialect.models import Switch
from metier.dialect.openai_agents_answers import AnswerChanges, Listening, made_elsewhere, name_of
from metier.dialect.openai_agents_gate import gated, gated_handoff
from metier.dialect.providers import as_text

if TYPE_CHECKING:
    from agents import AgentHooks, ModelResponse, RunContextWrapper, Tool
    from agents.tool_context import ToolContext

    from metier import Session
    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill

Models: TypeAlias = Mapping[str, Model | str] | Callable[[str], Model | str | None]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""

Naming: TypeAlias = "Callable[[RunContextWrapper[Any]], str | None]"
"""Finds the id of a conversation in the context of a run."""

AnyAgent = TypeVar("AnyAgent", bound=Agent[Any])

MAX_TURNS = 50
"""The turns of an agent that runs one skill."""


class _Turn(NamedTuple):
    """An agent that is about to call its model."""

    agent: Agent[Any]
    kit: Kit
    changes: AnswerChanges


_turn: ContextVar[_Turn | None] = ContextVar("metier_turn", default=None)
_calling: ContextVar[ToolContext[Any]] = ContextVar("metier_calling")


class Skills:
    """Gives an agent skills: `agent = Skills("skills").equip(Agent(...))`.

    Every conversation has a session of its own for each agent. The SDK does not tell an agent which conversation a run
    belongs to, so `equip` is told; otherwise each run has a session that ends with it. All tools of the agent are under
    the rules of the active skills.
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        models: Models | None = None,
        spawn: Spawn | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `metier.dialect.Skills`: `policy`, `approve`, `workspace` and more.

        `models` says what models skills may switch to, without it to none; a model in the `RunConfig` is always kept.
        `spawn` runs skills with `context: fork`; by default an agent does that has the model and tools of this one.
        """
        self.seam = seam.Skills(library, **options)
        self.switch: Switch[Model] = Switch(models)
        self._spawn = spawn
        self._runs: weakref.WeakKeyDictionary[RunContextWrapper[Any], str] = weakref.WeakKeyDictionary()
        self._over: deque[str] = deque()

    def equip(self, agent: AnyAgent, *, conversation: Naming | str | None = None) -> AnyAgent:
        """The same agent with skills; the given one stays as it is.

        `conversation` is the id of the conversation that its runs belong to, or a function that finds it in a run's
        context: `conversation=lambda run: run.context.thread_id`.
        """
        return _equipped(agent, self, conversation)

    def kit(self, agent: _Equipped, run: RunContextWrapper[Any], spawn: Spawn, *, is_turn: bool = True) -> Kit:
        """Return the kit of an agent in the conversation of a run, for its next turn or in the middle of one."""
        if agent.metier_session is not None:
            return self.seam.kit_in(agent.metier_session, spawn=self._spawn or spawn)
        while self._over:
            self.seam.end(self._over.popleft())
        [named] = agent.metier_conversation
        named = named(run) if callable(named) else named
        # Agents that work for one another in a conversation do not share what they have loaded.
        conversation = f"{named}|{agent.name}" if named else self._run(run)
        return self.seam.kit(conversation, spawn=self._spawn or spawn, is_turn=is_turn)

    def _run(self, run: RunContextWrapper[Any]) -> str:
        if run not in self._runs:
            self._runs[run] = uuid.uuid4().hex
            # Only noted: this is called wherever the run happens to be forgotten.
            weakref.finalize(run, self._over.append, self._runs[run]).atexit = False
        return self._runs[run]


class _Equipped(Agent[Any]):
    """An agent with skills. It is asked for its tools before each model call, and for its model afterwards."""

    metier: ClassVar[Skills]
    metier_conversation: ClassVar[tuple[Naming | str | None]]
    metier_session: ClassVar[Session | None]

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        kit = await self._metier_kit(run_context)
        changes = AnswerChanges()
        _turn.set(_Turn(self, kit, changes))
        all_tools = await super().get_all_tools(run_context)
        kit.set_others(tool.name for tool in all_tools)
        others = [await gated(tool, kit, changes, run_context) for tool in all_tools]
        # The SDK reads it next; more may have been added since the last turn. Clones have the old list too.
        self.handoffs = [gated_handoff(one, self, self._metier_kit) for one in self.handoffs]
        return [*(tool for tool in others if tool is not None), *(_own(tool, kit, changes) for tool in kit.tools)]

    async def get_system_prompt(self, run_context: RunContextWrapper[Any]) -> str | None:
        own = await super().get_system_prompt(run_context)
        kit = await self._metier_kit(run_context)
        instructions = await anyio.to_thread.run_sync(kit.instructions, _last_request(run_context))
        return "\n\n".join(text for text in (own, instructions) if text) or None

    @property
    def model(self) -> Model | str | None:
        own: Model | str | None = vars(self).get("model")
        turn = _turn.get()
        wanted = turn.kit.model if turn is not None and turn.agent is self else None
        return self.metier.switch.find(wanted) or own

    @model.setter
    def model(self, model: Model | str | None) -> None:
        vars(self)["model"] = model

    @property
    def hooks(self) -> AgentHooks[Any] | None:
        return Listening(vars(self).get("hooks"), self._metier_heard)

    @hooks.setter
    def hooks(self, hooks: AgentHooks[Any] | None) -> None:
        vars(self)["hooks"] = hooks.own if isinstance(hooks, Listening) else hooks

    async def _metier_heard(self, run: RunContextWrapper[Any], response: ModelResponse) -> None:
        kit = await self._metier_kit(run, is_turn=False)
        turn = _turn.get()
        # Not the same object: in a sandbox the SDK runs a clone of the agent.
        if turn is None or turn.agent.name != self.name:
            turn = _Turn(self, kit, AnswerChanges())
        turn.changes.announce(response, kit)
        used = response.usage
        kit.session.calls.answered_by(name_of(turn.agent.model), used.total_tokens, output=used.output_tokens)
        for tool, arguments in made_elsewhere(response, self):
            await kit.attempted(tool, arguments)

    async def _metier_kit(self, run: RunContextWrapper[Any], *, is_turn: bool = True) -> Kit:
        return await anyio.to_thread.run_sync(lambda: self.metier.kit(self, run, self._metier_spawn, is_turn=is_turn))

    async def _metier_spawn(self, skill: ActiveSkill, task: str, session: Session) -> str:
        """Run a skill in an agent of its own, which has the tools of this one and nothing of its conversation."""
        calling = _calling.get()
        alone: Any = {"instructions": None, "prompt": None, "handoffs": [], "output_type": None}
        plain = self.clone(name=skill.name, tool_use_behavior="run_llm_again", **alone)
        child = _equipped(plain, self.metier, None, session)
        done = await Runner.run(
            child, task or seam.BEGIN, context=calling.context, run_config=calling.run_config, max_turns=MAX_TURNS
        )
        return str(done.final_output)


def _equipped(
    agent: AnyAgent, skills: Skills, conversation: Naming | str | None, session: Session | None = None
) -> AnyAgent:
    # Class variables, as they outlast `clone` and are no part of the agent's data.
    kind = type(agent)
    plain = kind.__mro__[2] if issubclass(kind, _Equipped) else kind
    equipped = copy.copy(agent)
    equipped.handoffs = list(agent.handoffs)
    # In a tuple, as a function would become a method.
    about = {"metier": skills, "metier_conversation": (conversation,), "metier_session": session}
    equipped.__class__ = type(plain.__name__, (_Equipped, plain), about)
    return equipped


def _own(tool: Any, kit: Kit, changes: AnswerChanges) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        _calling.set(context)
        with changes.under_way(context.tool_call_id):
            return as_text(await kit.execute(tool.name, arguments))

    return FunctionTool(
        tool.name, tool.description, copy.deepcopy(dict(tool.parameters)), invoke, strict_json_schema=False
    )


def _last_request(run: RunContextWrapper[Any]) -> str | None:
    """The last request of the user, where it is plain text."""
    said = [item.get("content") for item in run.turn_input if isinstance(item, dict) and item.get("role") == "user"]
    return said[-1] if said and isinstance(said[-1], str) else None
