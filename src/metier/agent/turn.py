"""One turn of an agent: from what it is asked to its answer."""

from __future__ import annotations

import contextlib
import itertools
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
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_ai.usage import RunUsage, UsageLimits

from metier._lazy import replace
from metier._otel_setup import agent_instrumentation
from metier.agent.answer import Answer, ModelUsage
from metier.agent.delegates import delegate_tools
from metier.agent.instructions import OwnInstructions
from metier.agent.streaming import EventEmitter
from metier.agent.subagents import subagent_spawner
from metier.dialect import Kit
from metier.dialect.pydantic_ai import Suspension
from metier.errors import AgentFailed, MetierError
from metier.guard import Answers
from metier.guard.audit.redaction import redact
from metier.guard.question import ASKING, consent_from
from metier.session import Event
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.agent import AgentRun
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

    from metier.agent.agent import Agent
    from metier.agent.manifest import Manifest
    from metier.agent.streaming import Pace
    from metier.agent.subagents import AgentSession

_EMPTY_ANSWERS = 2
"""The number of times that a model with an empty answer is asked again."""
TEAM = 10
"""All agents together may take this many times the turns of the agent that was asked."""
INTERRUPTED = "The call was interrupted; nobody knows what it did."
NOT_MADE = "The call was not made: somebody had to agree first, and nobody did."


class Turn:
    """An agent at work in a session: its model is asked until it answers, or may not be asked again."""

    def __init__(
        self,
        agent: Agent,
        session: AgentSession,
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
        self.spent = ModelUsage()
        """The usage of the agents that it started, also of those that gave no answer."""
        self.budget: Budget = Budget(agent.manifest) if under is None else under.budget
        self._under = under
        self._pace: Pace | None = None if under is None else under._pace
        self._suspension: Suspension | None = None
        self._used = RunUsage()
        self._turns = 0
        self._kit = _Kit(
            session,
            agent.dialect,
            spawn=subagent_spawner(self),
            builtin=agent.builtin,
            tools=(*agent.tools(session), *delegate_tools(self)),
        )
        self._own = OwnInstructions(agent, session, self._kit) if is_itself else None

    @property
    def usage(self) -> ModelUsage:
        """The usage so far, with that of the agents which it started."""
        return ModelUsage.of(self._used) + self.spent

    async def answer(self, prompt: str, history: Sequence[ModelMessage] = (), *, pace: Pace | None = None) -> Answer:
        """Ask until there is an answer; raises `AgentFailed`. With `pace`, what the model says is told as it comes."""
        self.messages = complete_calls(history)
        # Nobody can be waited for inside a call of the agent around it: what has to be asked is asked now, or refused.
        is_inside = self._under is not None and isinstance(ASKING.get(), Answers)
        with consent_from(None) if is_inside else contextlib.nullcontext():
            return await self._answer(prompt, pace, Suspension())

    async def resume(
        self, history: Sequence[ModelMessage], answers: Mapping[str, bool] | None = None, *, pace: Pace | None = None
    ) -> Answer:
        """Make the calls again that a turn was suspended at, which `history` ends in, and go on."""
        self.messages = complete_calls(history, leaves_last=True)
        return await self._answer(None, pace, Suspension(answers, open_calls(history)))

    async def _answer(self, prompt: str | None, pace: Pace | None, suspension: Suspension) -> Answer:
        self._suspension = suspension if self._under is None and self.agent.suspends else None
        engine = self._engine()
        self._pace = pace or self._pace
        asked: str | None = prompt
        try:
            while (text := await self._attempt(engine, asked, is_streamed=pace is not None)) is None:
                # What was asked stands in the messages by now.
                asked = None
        finally:
            self.session.calls.usage.record()
            if self._under is not None:
                self._under.spent += self.usage
        answer = Answer(
            text=text,
            agent=self.agent.manifest.id,
            turns=self._turns,
            usage=self.usage,
            session=self.session.id,
            history=tuple(self.messages),
        )
        if self._suspension is None or not self._suspension.open:
            return answer
        from metier.agent.serialisation import save_conversation

        questions = tuple(self._suspension.open)
        return replace(
            answer, questions=questions, state=save_conversation(answer.agent, self.session, self.messages, questions)
        )

    def _engine(self) -> Engine[None, str | DeferredToolRequests]:
        manifest = self.agent.manifest
        suspension = self._suspension
        return Engine(
            self.model,
            output_type=str if suspension is None else [str, DeferredToolRequests],
            instructions=None if self._own is None else self._own.text,
            capabilities=[*agent_instrumentation(), self.agent.skills.in_run(self._kit, suspension=suspension)],
            name=manifest.id,
            # A model that calls what is not there is told so, as often as it may be asked at all.
            retries={"tools": manifest.max_turns, "output": _EMPTY_ANSWERS},
        )

    async def _attempt(
        self, engine: Engine[None, str | DeferredToolRequests], prompt: str | None, *, is_streamed: bool
    ) -> str | None:
        """The answer, which is empty where it was suspended.

        None where the model failed that a skill had asked for, and the agent's own is to go on.
        """
        before = self.messages
        # What comes of a call that is made again is up to the guard: this only says that it is made.
        again = dict.fromkeys(open_calls(before), True)
        run: AgentRun[None, str | DeferredToolRequests] | None = None
        try:
            # One call after the other: what a skill forbids is forbidden for the very next call.
            with Engine.parallel_tool_call_execution_mode("sequential"):
                async with engine.iter(
                    prompt,
                    message_history=list(before),
                    usage=self._used,
                    usage_limits=UsageLimits(request_limit=self.agent.manifest.max_turns),
                    conversation_id=self.session.id,
                    deferred_tool_results=DeferredToolResults(approvals={**again}) if again else None,
                ) as run:
                    try:
                        await self._driven(run, EventEmitter(self.session, self._pace), is_streamed=is_streamed)
                    finally:
                        asked = [] if prompt is None else [ModelRequest(parts=[UserPromptPart(prompt)])]
                        waits = self._suspension is not None and bool(self._suspension.open)
                        new = complete_calls(run.new_messages(), leaves_last=waits) or asked
                        self.messages = complete_calls([*before, *new], leaves_last=waits)
            assert run.result is not None
        except MetierError:
            raise
        except Exception as error:
            # A provider's library may raise anything.
            if run is not None and self._goes_on_without(run.ctx.deps.model, error):
                return None
            raise self._failed(error) from error
        output = run.result.output
        return output if isinstance(output, str) else ""

    async def _driven(
        self, run: AgentRun[None, str | DeferredToolRequests], telling: EventEmitter, *, is_streamed: bool
    ) -> None:
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
        self.session.context.emit(Event(kind="refused", skill=skill, code="model-failed", message=message))
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


class Budget:
    """The requests that an agent may make for one task, together with all agents that it starts.

    Each agent keeps to its own `limits.max_turns`; this bounds what they start among themselves.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._agent = manifest.id
        self.limit = TEAM * manifest.max_turns
        """The number of requests that are allowed."""
        self.left = self.limit
        """The number of requests that are left."""

    def take(self) -> None:
        """One more request; raises `AgentFailed` where there may be none."""
        if self.left <= 0:
            raise AgentFailed(
                f"Agent {self._agent!r} and the agents it started came to no answer in {self.limit} turns together "
                f"({TEAM} times its limits.max_turns).",
                hint="Ask for less at a time, or raise `limits.max_turns` in its agent.yaml.",
                agent=self._agent,
                limit="team",
            )
        self.left -= 1


class _Kit(Kit):
    """The kit of one turn: without the models that failed in it, and with calls that end when it is ended."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.without: set[str] = set()

    @property
    def model(self) -> str | None:
        wanted = super().model
        return None if wanted in self.without else wanted


def message_pair(asked: str, said: str) -> tuple[ModelMessage, ...]:
    """A question and its answer, as messages."""
    return ModelRequest(parts=[UserPromptPart(asked)]), ModelResponse(parts=[TextPart(said)])


def without_system_parts(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Messages without the instructions that went with them, which are made anew for every call."""
    return tuple(replace(one, instructions=None) if isinstance(one, ModelRequest) else one for one in messages)


def open_calls(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """The ids of the calls at the end of a conversation that have no result yet."""
    answered: set[object] = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            calls = (part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart))
            return tuple(call for call in calls if call not in answered)
        answered |= {getattr(part, "tool_call_id", None) for part in message.parts}
    return ()


def complete_calls(
    messages: Sequence[ModelMessage], why: str = INTERRUPTED, *, leaves_last: bool = False
) -> list[ModelMessage]:
    """Messages that a conversation can go on from: every call in them has a result, which may be `why` it has none.

    With `leaves_last`, those of the last response may have none yet.
    """
    found: list[ModelMessage] = []
    calls: list[ToolCallPart] = []
    said = without_system_parts(messages)
    last = max((place for place, one in enumerate(said) if isinstance(one, ModelResponse)), default=-1)
    for place, message in enumerate(said):
        if calls:
            # The results of calls that waited come after those of the calls that did not.
            results = itertools.takewhile(lambda one: isinstance(one, ModelRequest), said[place:])
            answered = {getattr(part, "tool_call_id", None) for one in results for part in one.parts}
            missing = [
                ToolReturnPart(call.tool_name, why, call.tool_call_id, outcome="failed")
                for call in calls
                if call.tool_call_id not in answered
            ]
            if missing and isinstance(message, ModelRequest):
                message = replace(message, parts=[*missing, *message.parts])
            elif missing:
                found.append(ModelRequest(parts=missing))
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if leaves_last and place == last:
            calls = []
        if message.parts:
            found.append(message)
    if calls:
        found.append(
            ModelRequest(
                parts=[ToolReturnPart(call.tool_name, why, call.tool_call_id, outcome="failed") for call in calls]
            )
        )
    return found
