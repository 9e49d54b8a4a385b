"""One turn of an agent: from what it is asked to its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic_ai import Agent as Engine
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import UsageLimits

from metier._exporting import agent_instrumentation
from metier.agent.answer import Answer, Usage
from metier.agent.forking import forks
from metier.agent.streaming import Telling
from metier.agent.team import team
from metier.dialect import Kit
from metier.errors import AgentFailed
from metier.guard import redact
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pydantic_ai.agent import AgentRun
    from pydantic_ai.messages import ModelMessage, ModelRequestPart
    from pydantic_ai.models import Model

    from metier import Session
    from metier.agent.agent import Agent

_EMPTY_ANSWERS = 2
"""How often a model that says nothing is asked again."""
INTERRUPTED = "The call was interrupted; nobody knows what it did."


class Turn:
    """An agent at work in a session: its model is asked until it answers, or may not be asked again."""

    def __init__(self, agent: Agent, session: Session, *, instructions: str, model: Model) -> None:
        self.agent = agent
        self.session = session
        self.model = model
        self.messages: list[ModelMessage] = []
        """The conversation as it stands, also when there was no answer."""
        self.spent = Usage()
        """What the agents took that it started."""
        self._instructions = instructions
        self._kit = Kit(
            session,
            agent.dialect,
            spawn=forks(self),
            builtin=agent.builtin,
            tools=(*agent.tools(session), *team(self)),
        )

    async def answer(
        self,
        prompt: str,
        history: Sequence[ModelMessage] = (),
        *,
        pace: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        """Ask until there is an answer; raises `AgentFailed`. With `pace`, what the model says is told as it comes."""
        manifest = self.agent.manifest
        engine = Engine(
            self.model,
            instructions=self._instructions or None,
            capabilities=[*agent_instrumentation(), self.agent.skills.in_run(self._kit)],
            name=manifest.id,
            # A model that calls what is not there is told so, as often as it may be asked at all.
            retries={"tools": manifest.max_turns, "output": _EMPTY_ANSWERS},
        )
        self.messages = list(history)
        limits = UsageLimits(request_limit=manifest.max_turns)
        try:
            # One call after the other: what a skill forbids is forbidden for the very next call.
            with Engine.parallel_tool_call_execution_mode("sequential"):
                async with engine.iter(
                    prompt, message_history=list(history), usage_limits=limits, conversation_id=self.session.id
                ) as run:
                    try:
                        turns = await self._driven(run, Telling(self.session, pace), is_streamed=pace is not None)
                    finally:
                        self.messages = [*history, *completed(run.new_messages(), prompt)]
        except (AgentRunError, UserError) as error:
            raise self._failed(error) from None
        assert run.result is not None
        return Answer(
            text=run.result.output,
            agent=manifest.id,
            turns=turns,
            usage=Usage.of(run.usage) + self.spent,
            session=self.session.id,
            history=tuple(self.messages),
        )

    async def _driven(self, run: AgentRun[None, str], telling: Telling, *, is_streamed: bool) -> int:
        turns = 0
        async for node in run:
            if Engine.is_model_request_node(node):
                turns += 1
                if turns <= self.agent.manifest.max_turns:
                    await telling.iteration(turns)
                if is_streamed:
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            await telling.happened(event)
            elif Engine.is_call_tools_node(node):
                await telling.response(node.model_response)
                async with node.stream(run.ctx) as made:
                    async for one in made:
                        await telling.happened(one)
                        if isinstance(one, FunctionToolCallEvent) and not self._kit.owns(one.part.tool_name):
                            # What is not there was asked for all the same, and leaves a record.
                            await self._kit.execute(one.part.tool_name, one.part.args)
        return turns

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
        why = shown(redact(str(error)), 500).rstrip(".")
        return AgentFailed(f"Agent {manifest.id!r} came to no answer: {why}.", hint=hint, agent=manifest.id)


def exchange(asked: str, said: str) -> tuple[ModelMessage, ...]:
    """What somebody asked and what was said, as messages."""
    return ModelRequest(parts=[UserPromptPart(asked)]), ModelResponse(parts=[TextPart(said)])


def plain(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Messages without the instructions that went with them, which are made anew for every call."""
    return tuple(replace(one, instructions=None) if isinstance(one, ModelRequest) else one for one in messages)


def completed(messages: Sequence[ModelMessage], prompt: str) -> list[ModelMessage]:
    """A conversation that can go on: what was asked is in it, and every call in it has a result."""
    found = [message for message in plain(messages) if message.parts]
    if not found:
        return [ModelRequest(parts=[UserPromptPart(prompt)])]
    for index, message in enumerate(found):
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        after = found[index + 1 : index + 2]
        results = {getattr(part, "tool_call_id", None) for request in after for part in request.parts}
        missing = [
            ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, outcome="failed")
            for call in calls
            if call.tool_call_id not in results
        ]
        if missing:
            # Only the last calls can be without: a model is not asked again before all have a result.
            return [
                *found[: index + 1],
                ModelRequest(parts=[*missing, *(part for one in after for part in _asked(one))]),
            ]
    return found


def _asked(message: ModelMessage) -> Sequence[ModelRequestPart]:
    return message.parts if isinstance(message, ModelRequest) else ()
