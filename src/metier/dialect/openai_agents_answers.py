"""Answers of a model in the OpenAI Agents SDK: its tokens, and the calls that the provider made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from agents import AgentHooks, ShellTool
from openai.types.responses import ResponseFunctionShellToolCall

from metier.dialect.call_order import CallTurn
from metier.dialect.responses import calls_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from agents import Agent, Model, ModelResponse, RunContextWrapper

    from metier.dialect.skills import Kit


MAX_WAIT = 30.0
"""Seconds in which a call that changes the active skills has to begin, for others of the same answer to be made."""


class AnswerChanges:
    """The calls of an answer that change which skills are active; what a skill restricts holds for the others.

    The SDK begins calls of shells, editors and computers before those of functions, whatever the model wrote first.
    """

    def __init__(self) -> None:
        self._turns: dict[str, CallTurn] = {}

    def announce(self, response: ModelResponse, kit: Kit) -> None:
        """Say which there are in an answer."""
        calls = calls_of(response.output, "openai-responses")
        self._turns |= {call.id: CallTurn() for call in calls if not call.is_made and kit.changes(call.name)}

    def under_way(self, call: str) -> AbstractContextManager[None]:
        """Meanwhile a call is made that may be one of them."""
        return self._turns.get(call, CallTurn()).taken()

    async def are_over(self) -> bool:
        """Wait until they are; False where one never begins, such as a call that the SDK takes for a repetition."""
        deadline = anyio.current_time() + MAX_WAIT
        return all([await turn.over(deadline) for turn in self._turns.values()])


class Listening(AgentHooks[Any]):
    """The hooks of an agent, with somebody who hears of every answer first."""

    def __init__(
        self, own: AgentHooks[Any] | None, heard: Callable[[RunContextWrapper[Any], ModelResponse], Awaitable[None]]
    ) -> None:
        self.own = own
        self._heard = heard
        others = [name for name in dir(own) if name.startswith("on_") and name != "on_llm_end"]
        vars(self).update({name: getattr(own, name) for name in others})

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Told before any tool is called."""
        await self._heard(context, response)
        if self.own is not None:
            await self.own.on_llm_end(context, agent, response)


def name_of(model: Model | str | None) -> str:
    """Return the name of a model in records; empty for the default of the SDK."""
    if model is None or isinstance(model, str):
        return model or ""
    named = getattr(model, "model", None)
    return named if isinstance(named, str) and named else type(model).__name__


def made_elsewhere(response: ModelResponse, agent: Agent[Any]) -> Iterator[tuple[str, Any]]:
    """The calls in an answer that the provider made on its own side: tools and arguments."""
    for call in calls_of(response.output, "openai-responses"):
        if call.is_made:
            yield call.name, call.arguments
    shell = next((tool for tool in agent.tools if isinstance(tool, ShellTool)), None)
    if shell is not None and shell.executor is None:
        for item in response.output:
            if isinstance(item, ResponseFunctionShellToolCall):
                yield shell.name, {"commands": item.action.commands}
