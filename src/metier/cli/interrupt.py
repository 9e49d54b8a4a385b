"""Ctrl-C as the end of one piece of work."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import anyio


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[anyio.CancelScope]:
    """Ctrl-C ends what is done meanwhile, and nothing else: who asked sees by the scope whether it was pressed.

    Threads that work for it are told as well, also one that waits for a person to answer.
    """
    import asyncio

    import anyio

    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:

        def stop(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(scope.cancel)

        try:
            before = signal.signal(signal.SIGINT, stop)
        except ValueError:  # which only the first thread can be told
            yield scope
            return
        try:
            yield scope
        finally:
            signal.signal(signal.SIGINT, before)
