"""Changes of the states of nodes: one task of a process looks for them, whichever process made them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool

from metier._lazy import logger
from metier.serve.api.context import ServerContext

log = logger("metier.serve")

_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[ServerContext, NodeWatch]] = (
    WeakKeyDictionary()
)
EVERY = 0.3
"""Seconds between two looks at the store."""


class StateFeed:
    """The streams of one tenant, and the state that they were told of last.

    `changed` is set by the next change, and replaced: a stream takes it before it looks, and misses none.
    """

    def __init__(self) -> None:
        self.streams = 0
        self.seen: object = None
        self.changed = asyncio.Event()


class NodeWatch:
    """Wakes the streams of a tenant when its state changes; for one event loop."""

    def __init__(self, context: ServerContext) -> None:
        self._stopping = context.stopping
        self._states = context.node_states
        self._feeds: dict[str, StateFeed] = {}
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, context: ServerContext) -> NodeWatch:
        """The watch of a server in the running event loop."""
        watches = _WATCHES.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
        found = watches.get(context)
        if found is None:
            found = watches[context] = cls(context)
        return found

    @contextlib.asynccontextmanager
    async def following(self, tenant: str) -> AsyncIterator[StateFeed]:
        """The feed of a tenant, which is looked after as long as somebody follows one."""
        feed = self._feeds.setdefault(tenant, StateFeed())
        feed.streams += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            yield feed
        finally:
            feed.streams -= 1
            if not feed.streams:
                self._feeds.pop(tenant, None)
            if not self._feeds and self._task is not None:
                self._task.cancel()
                self._task = None

    async def wait(self, changed: asyncio.Event, seconds: float) -> None:
        """Wait for a change, or for so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), seconds)

    async def _look(self) -> None:
        while self._feeds and not self._stopping.is_set():
            for tenant, feed in list(self._feeds.items()):
                try:
                    state = await run_in_threadpool(self._states.current, tenant)
                except Exception:
                    # The next look may find a store that answers again.
                    log.exception("the state of nodes could not be looked at")
                    continue
                found = (state.common, state.credentials)
                if found != feed.seen:
                    feed.changed.set()
                    feed.changed = asyncio.Event()
                feed.seen = found
            await asyncio.sleep(EVERY)
        for feed in self._feeds.values():  # those who wait see that the server stops
            feed.changed.set()
