"""Over HTTP: an app behind an entrance that checks who asks and for what host, and a server that runs it."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.transport_security import TransportSecuritySettings

from metier._extras import optional
from metier._hosts import is_loopback
from metier.errors import InvalidArgument, SourceUnavailable
from metier.serve.mcp.conversations import MAX_CONVERSATIONS
from metier.serve.mcp.http_admission import ANY_HOST, HttpAdmission
from metier.serve.mcp.http_sessions import MAX_BODY as MAX_BODY
from metier.serve.mcp.http_sessions import Answered, HttpSessions, error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.server.lowlevel import Server
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from metier.serve.mcp.connection import ClientConnection
    from metier.serve.mcp.http_limits import HttpLimits
    from metier.serve.mcp.server import SkillServer

PATH = "/mcp"
_GRACE_SECONDS = 2
_BACKLOG = 128
"""So many connections are taken at once, before any of them is counted; fewer where descriptors are few."""


def app_of(
    protocol: Server[ClientConnection],
    *,
    token: str | None,
    allowed_hosts: Sequence[str] | None,
    on_end: Callable[[str], object],
    is_over: Callable[[str], bool],
) -> Starlette:
    """The app. Requests may be for this machine and `allowed_hosts`; `*` is every host, where there is a token.

    `on_end` is told the id of a session of the older protocols that its client has ended. A client whose session
    `is_over` is told so, and begins a new one.
    """
    app = protocol.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_CONVERSATIONS,
        # Who is let in is up to the entrance, which stands before everything else.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.router.redirect_slashes = False  # there is one path, and what is close to it is another
    app.add_middleware(HttpSessions, on_end=on_end, is_over=is_over)
    app.add_middleware(HttpAdmission, token=token, allowed_hosts=allowed_hosts or ())
    app.build_middleware_stack()  # what is wrong with an option is said here, and not at the first request
    return app


class _Stopping:
    """Tells clients whose requests are under way that the server stops, where it still can."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered = Answered(send)
        try:
            await self._app(scope, receive, answered)
        except asyncio.CancelledError:
            # Only a server that stops ends requests so; it takes anything else but an answer for a failure.
            if scope["type"] != "http":
                raise
            if not answered.status:
                await error(503, "The server is stopping")(scope, receive, send)
            elif not answered.is_whole:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def serve(
    server: SkillServer,
    host: str,
    port: int,
    *,
    token: str | None,
    allowed_hosts: Sequence[str] | None,
    on_ready: Callable[[str], object] | None,
    limits: HttpLimits | None,
) -> None:
    """Listen until cancelled, or until a signal says to stop."""
    with optional("Servers over HTTP", "uvicorn", extra="mcp"):
        import uvicorn

        from metier.serve.mcp.http_limits import BoundedProtocol, HttpLimits, most_connections

    if not is_loopback(host) and token is None:
        raise InvalidArgument(
            f"{host!r} can be reached by other machines, and there is no token.",
            hint="Give a token, or listen on 127.0.0.1.",
        )
    if allowed_hosts is None and not is_loopback(host):
        # Whoever has the token may call it by any name that leads here.
        allowed_hosts = [ANY_HOST]
    app = server.http_app(token=token, allowed_hosts=allowed_hosts)
    # Here alone: who mounts the app elsewhere cancels for reasons of their own, and must see it cancelled.
    app.add_middleware(_Stopping)
    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listener.getsockname()[1]}{PATH}"

        class Ready(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started and on_ready is not None:
                    on_ready(url)

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                server.end_streams()
                await super().shutdown(sockets)

        within = limits or HttpLimits()
        bounded: Any = functools.partial(BoundedProtocol, within)
        config = uvicorn.Config(
            app,
            http=bounded,
            timeout_keep_alive=within.idle_seconds,
            backlog=min(_BACKLOG, max(1, most_connections(within) // 4)),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_SECONDS,
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
