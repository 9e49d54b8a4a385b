"""A server that listens on this machine, in this process."""

from __future__ import annotations

import functools
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal

from metier.serve.api.run import serve
from metier.serve.api.settings import ServerSettings
from metier.store import Store


@contextmanager
def listening(store: Store, **settings: Any) -> Iterator[str]:
    """A server that listens on a port of this machine; its address."""
    ready: queue.Queue[str] = queue.Queue()
    made = ServerSettings.model_validate({"port": 0, **settings})
    with start_blocking_portal() as portal:
        served = portal.start_task_soon(functools.partial(serve, store, made, on_ready=ready.put))
        try:
            yield ready.get(timeout=30)
        finally:
            served.cancel()
