"""The order of calls that an agent makes at the same time: what changes which skills are active comes first."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Order:
    """Lets a call begin when every change that came before it is done, so that what a skill restricts holds for it.

    Frameworks make all calls of one answer at once; a model that loads a skill and calls a tool in the same answer
    means the one before the other. Calls that change nothing run side by side. Any thread may use it.

    >>> order = Order()
    >>> async def main() -> list[str]:
    ...     done: list[str] = []
    ...     async def call(name: str, seconds: float, changes: bool) -> None:
    ...         async with order.place(changes=changes):
    ...             await asyncio.sleep(seconds)
    ...             done.append(name)
    ...     await asyncio.gather(call("load", 0.01, True), call("web", 0, False))
    ...     return done
    >>> asyncio.run(main())
    ['load', 'web']
    """

    def __init__(self) -> None:
        self._changing: list[Future[None]] = []
        self._lock = threading.Lock()

    @contextlib.asynccontextmanager
    async def place(self, *, changes: bool) -> AsyncIterator[None]:
        """Wait for the changes that came before; `changes` says whether those who come later wait for this call."""
        mine: Future[None] = Future()
        with self._lock:
            earlier = tuple(self._changing)
            if changes:
                self._changing.append(mine)
        try:
            for change in earlier:
                # Shielded: a call that is cancelled while it waits must not end what it waits for.
                await asyncio.shield(asyncio.wrap_future(change))
            yield
        finally:
            if changes:
                with self._lock:
                    self._changing.remove(mine)
                mine.set_result(None)


class CallTurn:
    """The turn of one call, for others to wait until it is over. Any thread may use it."""

    def __init__(self) -> None:
        self._begun: Future[None] = Future()
        self._ended: Future[None] = Future()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Meanwhile the call is made."""
        _settle(self._begun)
        try:
            yield
        finally:
            _settle(self._ended)

    async def over(self, deadline: float) -> bool:
        """Wait for its end, if it begins before a time of the event loop; says whether it ever began."""
        with anyio.CancelScope(deadline=deadline):
            await asyncio.shield(asyncio.wrap_future(self._begun))
        if self._begun.done():
            await asyncio.shield(asyncio.wrap_future(self._ended))
        return self._begun.done()


def _settle(future: Future[None]) -> None:
    # Two calls of one answer may have the same id.
    with contextlib.suppress(InvalidStateError):
        future.set_result(None)
