"""One turn of an agent: from what it is asked to its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent as Engine
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage, UsageLimits

from metier._exporting import agent_instrumentation
from metier.agent.answer import Answer, Usage
from metier.agent.budget import Budget
from metier.agent.forking import forks
from metier.agent.instructions import OwnInstructions
from metier.agent.streaming import Telling
from metier.agent.team import team
from metier.dialect import Kit
from metier.errors import AgentFailed, MetierError
from metier.guard import redact
from metier.session import Event
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.agent import AgentRun
    from pydantic_ai.messages import ModelMessage, ModelRequestPart
    from pydantic_ai.models import Model

    from metier import Session
    from metier.agent.agent import Agent
    from metier.agent.streaming import Pace

_EMPTY_ANSWERS = 2
"""How often a model that says nothing is asked again."""
INTERRUPTED = "The call was interrupted; nobody knows what it did."


class Turn:
    """An agent at work in a session: its model is asked until it answers, or may not be asked again."""

    def __init__(
        self,
        agent: Agent,
        session: Session,
        *,
        model: Model,
        under: Turn | None = None,
        is_itself: bool = True,
    ) -> None:
        """`under` is the turn that starts this one; without `is_itself`, it has nothing of what the agent is told."""
        self.agent = agent
        self.session = session
        self.model = model
        self.messages: list[ModelMessage] = []
        """The conversation as it stands, also when there was no answer."""
        self.spent = Usage()
        """What the agents took that it started, also those that came to no answer."""
        self.budget: Budget = Budget(agent.manifest) if under is None else under.budget
        self._under = under
        self._pace: Pace | None = None if under is None else under._pace
        self._used = RunUsage()
        self._turns = 0
        self._own = OwnInstructions(agent, session) if is_itself else None
        self._kit = _Kit(
            session,
            agent.dialect,
            spawn=forks(self),
            builtin=agent.builtin,
            tools=(*agent.tools(session), *team(self)),
        )

    @property
    def usage(self) -> Usage:
        """What it took so far, with everything that the agents took which it started."""
        return Usage.of(self._used) + self.spent

    async def answer(self, prompt: str, history: Sequence[ModelMessage] = (), *, pace: Pace | None = None) -> Answer:
        """Ask until there is an answer; raises `AgentFailed`. With `pace`, what the model says is told as it comes."""
        engine = self._engine()
        self._pace = pace or self._pace
        self.messages = completed(history)
        asked: str | None = prompt
        try:
            while (text := await self._attempt(engine, asked, is_streamed=pace is not None)) is None:
                # What was asked stands in the messages by now.
                asked = None
        finally:
            if self._under is not None:
                self._under.spent += self.usage
        return Answer(
            text=text,
            agent=self.agent.manifest.id,
            turns=self._turns,
            usage=self.usage,
            session=self.session.id,
            history=tuple(self.messages),
        )

    def _engine(self) -> Engine[None, str]:
        manifest = self.agent.manifest
        return Engine(
            self.model,
            instructions=None if self._own is None else self._own.text,
            capabilities=[*agent_instrumentation(), self.agent.skills.in_run(self._kit)],
            name=manifest.id,
            # A model that calls what is not there is told so, as often as it may be asked at all.
            retries={"tools": manifest.max_turns, "output": _EMPTY_ANSWERS},
        )

    async def _attempt(self, engine: Engine[None, str], prompt: str | None, *, is_streamed: bool) -> str | None:
        """The answer; None where the model failed that a skill had asked for, and the agent's own is to go on."""
        before = self.messages
        run: AgentRun[None, str] | None = None
        try:
            # One call after the other: what a skill forbids is forbidden for the very next call.
            with Engine.parallel_tool_call_execution_mode("sequential"):
                async with engine.iter(
                    prompt,
                    message_history=list(before),
                    usage=self._used,
                    usage_limits=UsageLimits(request_limit=self.agent.manifest.max_turns),
                    conversation_id=self.session.id,
                ) as run:
                    try:
                        await self._driven(run, Telling(self.session, self._pace), is_streamed=is_streamed)
                    finally:
                        asked = [] if prompt is None else [ModelRequest(parts=[UserPromptPart(prompt)])]
                        self.messages = [*before, *(completed(run.new_messages()) or asked)]
            assert run.result is not None
        except MetierError:
            raise
        except Exception as error:
            # A provider's library may raise anything.
            if run is not None and self._goes_on_without(run.ctx.deps.model, error):
                return None
            raise self._failed(error) from error
        return run.result.output

    async def _driven(self, run: AgentRun[None, str], telling: Telling, *, is_streamed: bool) -> None:
        async for node in run:
            if Engine.is_model_request_node(node):
                self._turns += 1
                if self._turns <= self.agent.manifest.max_turns:
                    self.budget.take()
                    await telling.iteration(self._turns)
                if is_streamed:
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            await telling.happened(event)
            elif Engine.is_call_tools_node(node):
                await telling.response(node.model_response)
                async with node.stream(run.ctx) as made:
                    async for one in made:
                        await telling.happened(one)

    def _goes_on_without(self, model: Model, error: Exception) -> bool:
        """Whether a model failed that is not the agent's own: what a skill asks for must not end a conversation."""
        name = self._kit.model
        if name is None or model is self.model or isinstance(error, UsageLimitExceeded):
            return False
        self._kit.without.add(name)
        skill = next((one.name for one in reversed(self.session.active) if one.skill.model == name), "")
        why = shown(redact(str(error)), 200).rstrip(".")
        message = f"The model {shown(name, 100)!r} of skill {skill!r} failed, and the agent's own goes on: {why}."
        self.session.emit(Event(kind="refused", skill=skill, code="model-failed", message=message))
        while self.messages and isinstance(self.messages[-1], ModelResponse):
            self.messages.pop()
        return bool(self.messages)

    def _failed(self, error: Exception) -> AgentFailed:
        manifest = self.agent.manifest
        if isinstance(error, UsageLimitExceeded):
            return AgentFailed(
                f"Agent {manifest.id!r} came to no answer in {manifest.max_turns} turns (limits.max_turns).",
                hint="Ask for less at a time, or raise `limits.max_turns` in its agent.yaml.",
                agent=manifest.id,
                limit="max_turns",
            )
        hint = "Try again; if it stays so, try another model."
        if isinstance(error, ModelHTTPError) and error.status_code in (401, 403):
            hint = "Check the key of the model's provider."
        elif isinstance(error, ModelHTTPError) and error.status_code == 404:
            hint = "Check the name of the model."
        why = str(error)
        if not isinstance(error, AgentRunError | UserError):
            why = f"{type(error).__name__}: {why}" if why else type(error).__name__
        why = shown(redact(why), 500).rstrip(".")
        return AgentFailed(f"Agent {manifest.id!r} came to no answer: {why}.", hint=hint, agent=manifest.id)


class _Kit(Kit):
    """The kit of one turn: without the models that failed in it, and with calls that end when it is ended."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.without: set[str] = set()

    @property
    def model(self) -> str | None:
        wanted = super().model
        return None if wanted in self.without else wanted


def exchange(asked: str, said: str) -> tuple[ModelMessage, ...]:
    """What somebody asked and what was said, as messages."""
    return ModelRequest(parts=[UserPromptPart(asked)]), ModelResponse(parts=[TextPart(said)])


def plain(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Messages without the instructions that went with them, which are made anew for every call."""
    return tuple(replace(one, instructions=None) if isinstance(one, ModelRequest) else one for one in messages)


def completed(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Messages that a conversation can go on from: every call in them has a result."""
    found: list[ModelMessage] = []
    calls: list[ToolCallPart] = []
    for message in plain(messages):
        if calls:
            answered = {getattr(part, "tool_call_id", None) for part in _asked(message)}
            missing = [
                ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, outcome="failed")
                for call in calls
                if call.tool_call_id not in answered
            ]
            if missing and isinstance(message, ModelRequest):
                message = replace(message, parts=[*missing, *message.parts])
            elif missing:
                found.append(ModelRequest(parts=missing))
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if message.parts:
            found.append(message)
    if calls:
        found.append(
            ModelRequest(
                parts=[
                    ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, outcome="failed") for call in calls
                ]
            )
        )
    return found


def _asked(message: ModelMessage) -> Sequence[ModelRequestPart]:
    return message.parts if isinstance(message, ModelRequest) else ()
