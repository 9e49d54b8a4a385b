"""Streams of server-sent events: what others write, until the credential or the server ends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request

from metier.serve.api.context import ServerContext
from metier.serve.api.credentials import secret_of

Item = TypeVar("Item")
SSE = "text/event-stream"
BEAT = ":\n\n"
"""A comment, which clients skip."""
_LOOK_SECONDS = 0.5
_BEAT_SECONDS = 15.0


def event(kind: str, data: Mapping[str, Any], *, key: str = "") -> str:
    r"""The text of an event; `key` is what a client that comes back names as the last one it has.

    >>> event("record", {"seq": 1}, key="1")
    'id: 1\nevent: record\ndata: {"seq":1}\n\n'
    """
    # In ASCII: no character of a foreign text ends the line.
    lines = (f"id: {key}" if key else "", f"event: {kind}", f"data: {json.dumps(data, separators=(',', ':'))}")
    return "".join(f"{line}\n" for line in lines if line) + "\n"


async def watch(
    request: Request, context: ServerContext, read_on: Callable[[], Sequence[Item]]
) -> AsyncIterator[Item | None]:
    """Yield what comes, and None now and then, by which a lost client is noticed.

    It ends when the server stops, and when the credential of the request is no longer valid.
    """
    beat = time.monotonic()
    is_last = False
    while not is_last:
        is_last = context.stopping.is_set()  # what was written before is read once more
        found = await anyio.to_thread.run_sync(read_on)
        is_due = time.monotonic() - beat >= _BEAT_SECONDS
        if (found or is_due) and not await anyio.to_thread.run_sync(_is_valid, request, context):
            return
        for one in found:
            yield one
        if is_due:
            beat = time.monotonic()
            yield None
        if not found and not is_last:
            await anyio.sleep(_LOOK_SECONDS)


def _is_valid(request: Request, context: ServerContext) -> bool:
    return context.store.by_token(secret_of(request)) is not None
