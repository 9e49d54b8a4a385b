"""Turns for what runs long: so many at once, and only so many of them for one conversation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_RUNNING = 64
MAX_EACH = 8
MAX_ALONE = 32
"""Of calls that belong to no conversation: nobody can tell whose they are."""
WAIT_SECONDS = 10.0


class ServerBusy(Exception):
    """Raised where no turn came in good time."""


@dataclass(slots=True, kw_only=True)
class _Share:
    """The share of one conversation."""

    limit: CapacityLimiter
    users: int = 0


@dataclass(slots=True, kw_only=True)
class ConcurrencyLimit:
    """Limits the calls that run at once; others wait, for a while."""

    seconds: float = WAIT_SECONDS
    _all: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_RUNNING))
    _shares: dict[str, _Share] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        """A turn of a conversation, empty for none; raises `ServerBusy` where it does not come."""
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _Share(limit=CapacityLimiter(MAX_EACH if key else MAX_ALONE))
        share.users += 1
        try:
            async with contextlib.AsyncExitStack() as held:
                with anyio.move_on_after(self.seconds) as waiting:
                    # Its own share first: whoever waits for that must not keep others from theirs.
                    await held.enter_async_context(share.limit)
                    await held.enter_async_context(self._all)
                if waiting.cancelled_caught:
                    raise ServerBusy
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[key]
