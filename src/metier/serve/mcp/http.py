"""Over HTTP: an app behind an entrance that checks who asks and for what host, and a server that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from metier._hosts import is_loopback
from metier.errors import InvalidArgument
from metier.serve.http_server import run_app
from metier.serve.mcp.conversations import MAX_CONVERSATIONS
from metier.serve.mcp.http_admission import ANY_HOST, HttpAdmission
from metier.serve.mcp.http_sessions import MAX_BODY as MAX_BODY
from metier.serve.mcp.http_sessions import HttpSessions, error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.server.lowlevel import Server
    from starlette.applications import Starlette

    from metier.serve.mcp.connection import ClientConnection
    from metier.serve.mcp.http_limits import HttpLimits
    from metier.serve.mcp.server import SkillServer

PATH = "/mcp"
_GRACE_SECONDS = 2


def app_of(
    protocol: Server[ClientConnection],
    *,
    token: str | None,
    allowed_hosts: Sequence[str] | None,
    on_end: Callable[[str], object],
    is_over: Callable[[str], bool],
    admits: bool = True,
) -> Starlette:
    """The app. Requests may be for this machine and `allowed_hosts`; `*` is every host, where there is a token.

    Without `admits` it answers every request: whatever it is a part of has looked at who asks and for what host.

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
    if admits:
        app.add_middleware(HttpAdmission, token=token, allowed_hosts=allowed_hosts or ())
    app.build_middleware_stack()  # what is wrong with an option is said here, and not at the first request
    return app


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
    if not is_loopback(host) and token is None:
        raise InvalidArgument(
            f"{host!r} can be reached by other machines, and there is no token.",
            hint="Give a token, or listen on 127.0.0.1.",
        )
    if allowed_hosts is None and not is_loopback(host):
        # Whoever has the token may call it by any name that leads here.
        allowed_hosts = [ANY_HOST]
    await run_app(
        server.http_app(token=token, allowed_hosts=allowed_hosts),
        host,
        port,
        on_ready=None if on_ready is None else lambda url: on_ready(f"{url}{PATH}"),
        on_stop=server.end_streams,
        stopping=error(503, "The server is stopping"),
        limits=limits,
        grace_seconds=_GRACE_SECONDS,
    )
