"""Waiting for somebody in a worker thread, without keeping others waiting for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


async def in_own_thread(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call what may wait for a person in a thread of its own.

    The threads that all share are few. A question may stand for hours: many of them must neither use those up, nor keep
    one another from being put.
    """
    import functools

    import anyio
    import anyio.to_thread

    return await anyio.to_thread.run_sync(
        functools.partial(function, *args, **options), limiter=anyio.CapacityLimiter(1)
    )
