"""A run as it goes: what the model says and does, as events among those of the session, to whoever iterates."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
)

from metier.dialect.cancellation import ended_with_its_threads
from metier.guard.audit.redaction import Redactor
from metier.session import Event
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from pydantic_ai.messages import AgentStreamEvent, ModelResponse

    from metier import Session
    from metier.session.events import View

    Pace: TypeAlias = Callable[[], Awaitable[None]]
    """Awaited by a run after each event, so that it is never far ahead of its listener."""

MAX_WAITING = 64
"""The number of events that may wait for the consumer before the run waits too."""
_MAX_LINE = 200


class EventEmitter:
    """Tells the listeners of a session what a model says and does."""

    def __init__(self, session: Session, pace: Pace | None = None) -> None:
        """`pace` is waited for after each event: whoever listens may need time."""
        self._session = session
        self._pace = pace
        self._redactor = Redactor()
        self._turn = 0

    async def iteration(self, turn: int) -> None:
        """The model is asked for the so-manieth time."""
        self._turn = turn
        await self._tell(Event(kind="iteration", message=f"Turn {turn}.", data={"turn": turn}))

    async def response(self, response: ModelResponse) -> None:
        """Emit the thoughts of the model before its answer, where the response has them."""
        for part in response.parts:
            if isinstance(part, ThinkingPart) and part.content:
                await self._tell(Event(kind="thought", message=part.content, data={"turn": self._turn}))

    async def happened(self, event: AgentStreamEvent) -> None:
        """One event of pydantic-ai's."""
        if isinstance(event, FunctionToolCallEvent):
            call = event.part
            await self._tell(
                Event(
                    kind="action",
                    tool=shown(call.tool_name),
                    message=f"Calls {shown(call.tool_name)}.",
                    data={"id": call.tool_call_id, "arguments": _arguments(call.args)},
                )
            )
        elif isinstance(event, FunctionToolResultEvent):
            result = event.part
            text = result.content if isinstance(result.content, str) else result.model_response_str()
            data = {"id": result.tool_call_id, "success": result.outcome == "success", "result": text}
            tool = shown(result.tool_name)
            await self._tell(Event(kind="observation", tool=tool, message=shown(text, _MAX_LINE), data=data))
        elif isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            await self._text(self._redactor.feed(event.part.content))
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            await self._text(self._redactor.feed(event.delta.content_delta))
        elif isinstance(event, PartEndEvent) and isinstance(event.part, TextPart):
            await self._text(self._redactor.rest())

    async def _text(self, text: str) -> None:
        if text:
            await self._tell(Event(kind="text", message=text, data={"turn": self._turn}))

    async def _tell(self, event: Event) -> None:
        self._session.context.emit(event)
        if self._pace is not None:
            await self._pace()


async def stream_events(
    session: Session, work: Callable[[Pace], Awaitable[Any]], view: View = "full"
) -> AsyncGenerator[Event]:
    """The events of a session while some work is done; whoever stops iterating ends the work.

    `work` is given what it is to wait for after each event, so that it is never far ahead. What it raises is raised
    here, after the events that came before.
    """
    waiting = _Waiting()
    stop = session.listen(waiting.add, view)
    # A task of its own: an iterator may be left, and is then ended from anywhere.
    task = asyncio.ensure_future(ended_with_its_threads(lambda: work(waiting.room)))
    task.add_done_callback(waiting.ended)
    try:
        while (event := await waiting.next()) is not None:
            yield event
        await task
    finally:
        stop()
        waiting.close()
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # seen: whoever left does not want to know


class _Waiting:
    """Events that wait to be taken. Any thread may add some."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._space = asyncio.Event()
        self._has_ended = False

    def add(self, event: Event) -> None:
        self._events.append(event)
        self._loop.call_soon_threadsafe(self._news.set)

    def ended(self, _: object) -> None:
        self._has_ended = True
        self._news.set()

    def close(self) -> None:
        """Let whoever waits for room go on: nobody takes anything any more."""
        self._events.clear()
        self._space.set()

    async def next(self) -> Event | None:
        """The next event; None when there will be none."""
        while not self._events:
            if self._has_ended:
                return None
            self._news.clear()
            await self._news.wait()
        event = self._events.popleft()
        self._space.set()
        return event

    async def room(self) -> None:
        """Wait until not too many wait."""
        while len(self._events) >= MAX_WAITING:
            self._space.clear()
            await self._space.wait()


def _arguments(args: object) -> Any:
    if not isinstance(args, str):
        return args or {}
    import json

    try:
        return json.loads(args)
    except ValueError:
        return args
