"""The order of the calls of one answer in LangGraph, which starts them all at once, in threads or tasks."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
from langchain_core.messages import AIMessage

from metier.dialect.call_order import CallTurn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain.tools.tool_node import ToolCallRequest

    from metier import Session
    from metier.dialect.skills import Kit

LATE = 5.0
"""Seconds that a call waits for one before it to begin, which it never does where another middleware answers it."""


class TurnOrder:
    """Lets a call begin when all calls before it in the same answer are over that change which skills are active."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[Session, tuple[Any, dict[str, CallTurn]]] = WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def turn(self, kit: Kit, request: ToolCallRequest) -> AsyncIterator[bool]:
        """The turn of a call; says whether all that it had to wait for was made here."""
        mine = str(request.tool_call["id"])
        answer, earlier = _before(kit, request)
        is_all = True
        for call in earlier:
            is_all &= await self._of(kit.session, answer, call).over(anyio.current_time() + LATE)
        with self._of(kit.session, answer, mine).taken():
            try:
                yield is_all
            except BaseException:
                # It is made again where the graph goes on later.
                self._forget(kit.session, answer, mine)
                raise

    def _of(self, session: Session, answer: Any, call: str) -> CallTurn:
        with self._lock:
            known = self._turns.get(session)
            if known is None or known[0] != answer:
                known = self._turns[session] = (answer, {})
            return known[1].setdefault(call, CallTurn())

    def _forget(self, session: Session, answer: Any, call: str) -> None:
        with self._lock:
            known = self._turns.get(session)
            if known is not None and known[0] == answer:
                known[1].pop(call, None)


def _before(kit: Kit, request: ToolCallRequest) -> tuple[Any, list[str]]:
    """The answer that a call is part of, and the calls before it there that change which skills are active."""
    state: Any = request.state
    messages = state.get("messages") or () if isinstance(state, dict) else ()
    mine = request.tool_call["id"]
    earlier: list[str] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                if call["id"] == mine:
                    return (message.id, len(messages)), earlier
                if kit.changes(call["name"]):
                    earlier.append(str(call["id"]))
            break
    return None, []
