"""Work that ends, all of it, when whoever asked for it gives up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def ended_with_its_threads(work: Callable[[], Awaitable[T]]) -> T:
    """Do some work; when the task around it is cancelled, whatever waits in a thread for it ends too.

    Frameworks make and cancel tasks of asyncio's. Threads of anyio's, such as one that waits for a person to answer,
    are told of a scope that ends, and of nothing else.
    """
    scope = anyio.CancelScope()

    async def scoped() -> T:
        with scope:
            return await work()
        raise asyncio.CancelledError

    task = asyncio.ensure_future(scoped())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # seen: whoever cancelled it does not want to know
        raise
