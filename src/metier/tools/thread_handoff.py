"""A value that a worker thread makes for a task, which may be cancelled before it gets it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class ThreadHandoff(Generic[T]):
    """Fetches a value from a worker thread; where nobody waits for it any more, it is given up and not lost.

    >>> import anyio.to_thread
    >>> anyio.run(ThreadHandoff(print, anyio.to_thread.run_sync).fetch, lambda: 4)
    4
    """

    def __init__(self, give_up: Callable[[T], object], in_thread: Callable[..., Awaitable[Any]]) -> None:
        """`in_thread` calls a function in a worker thread, as `Guard.in_thread` does."""
        self._give_up = give_up
        self._in_thread = in_thread
        self._lock = threading.Lock()
        self._made: list[T] = []
        self._is_left = False

    async def fetch(self, make: Callable[[], T]) -> T:
        """The value of `make`. Cancelled meanwhile, `give_up` is called with it, now or when it is made."""
        import anyio

        try:
            await self._in_thread(self._work, make)
        except BaseException:
            with self._lock:
                self._is_left = True
                made = tuple(self._made)
            with anyio.CancelScope(shield=True):
                for one in made:
                    await self._in_thread(self._give_up, one)
            raise
        return self._made[0]

    def _work(self, make: Callable[[], T]) -> None:
        one = make()
        with self._lock:
            self._made.append(one)
            is_left = self._is_left
        if is_left:
            self._give_up(one)
