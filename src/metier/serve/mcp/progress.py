"""Progress of a call: what a script writes is told to the client while the script runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

import anyio

from metier._lazy import logger
from metier.session.runs import following_output
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.session import ServerSession

    from metier.run.job import OutputLine

log = logger("metier.serve")

T = TypeVar("T")

INTERVAL = 0.1
"""Seconds between two reports: a script may write faster than anybody reads."""
_MAX_MESSAGE = 200


async def with_progress(client: ServerSession, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call, and tell a client that asked for progress how many lines were written, and the last one."""
    written = _Written()
    made: list[T] = []
    with following_output(written):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report, written, client)
            made.append(await call())
            tasks.cancel_scope.cancel()
    await written.report(client)
    return made[0]


async def _report(written: _Written, client: ServerSession) -> None:
    while True:
        await anyio.sleep(INTERVAL)
        await written.report(client)


class _Written:
    """The output so far."""

    def __init__(self) -> None:
        self._lines = self._told = 0
        self._last = ""
        self._lock = threading.Lock()

    def __call__(self, line: OutputLine) -> None:
        with self._lock:
            self._lines += 1
            self._last = line.text or self._last

    async def report(self, client: ServerSession) -> None:
        with self._lock:
            lines, last = self._lines, self._last
        if lines > self._told:
            self._told = lines
            try:
                await client.report_progress(lines, message=shown(last.rstrip(), _MAX_MESSAGE))
            except Exception as error:
                # Whoever cannot be told how far a script is has asked for its end all the same.
                log.debug("progress could not be told: %s", type(error).__name__)
