"""A listening server: an app on one port, with bounded connections, that stops without losing an answer."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from typing import TYPE_CHECKING, Any

import anyio

from metier._extras import optional
from metier.errors import SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from metier.serve.mcp.http_limits import HttpLimits

_BACKLOG = 128
"""So many connections are taken at once, before any of them is counted; fewer where descriptors are few."""


class Answered:
    """Passes an answer on, and knows how far it is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.is_whole = False

    async def __call__(self, message: Message) -> None:
        """Pass a part of it on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.is_whole = not message.get("more_body", False)
        await self._send(message)


class _Stopping:
    """Tells clients whose requests are under way that the server stops, where it still can."""

    def __init__(self, app: ASGIApp, stopping: ASGIApp) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered = Answered(send)
        try:
            await self._app(scope, receive, answered)
        except asyncio.CancelledError:
            # Only a server that stops ends requests so; it takes anything else but an answer for a failure.
            if scope["type"] != "http":
                raise
            if not answered.status:
                await self._stopping(scope, receive, send)
            elif not answered.is_whole:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def run_app(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], object] | None,
    on_stop: Callable[[], object],
    stopping: ASGIApp,
    limits: HttpLimits | None,
    grace_seconds: int,
    tls: tuple[Path, Path] | None = None,
) -> None:
    """Listen until cancelled, or until a signal says to stop; `on_ready` is told the address.

    `on_stop` is called before requests that are under way get `grace_seconds` to end; `stopping` answers the others.
    """
    with optional("Servers over HTTP", "uvicorn", extra="mcp"):
        import uvicorn

        from metier.serve.mcp.http_limits import BoundedProtocol, HttpLimits, most_connections

    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if tls else 'http'}://{shown}:{listener.getsockname()[1]}"

        class Ready(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started and on_ready is not None:
                    on_ready(url)

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                on_stop()
                await super().shutdown(sockets)

        within = limits or HttpLimits()
        bounded: Any = functools.partial(BoundedProtocol, within)
        config = uvicorn.Config(
            _Stopping(app, stopping),
            http=bounded,
            timeout_keep_alive=within.idle_seconds,
            backlog=min(_BACKLOG, max(1, most_connections(within) // 4)),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=grace_seconds,
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
        )
        await _run(Ready(config), listener)


async def _run(running: Any, listener: socket.socket) -> None:
    """Run it to its end, also when that comes by cancellation: connections are closed in either case."""

    async def stop_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            running.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_when_cancelled)
        with anyio.CancelScope(shield=True):
            await running.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # on Windows it would let another program take the port over
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        except BaseException:
            listener.close()
            raise
        return listener
    except (OSError, OverflowError) as error:
        raise SourceUnavailable(
            f"Nothing can listen on {host}:{port}: {getattr(error, 'strerror', None) or error}.",
            hint="Choose another address or port; port 0 is any that is free.",
        ) from None
