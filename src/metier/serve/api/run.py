"""The server as a process: its app behind the entrance, listening until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from metier.errors import InvalidArgument
from metier.serve.api.app import create_app
from metier.serve.api.problems import problem
from metier.serve.api.settings import ServerSettings
from metier.serve.http_server import run_app
from metier.serve.mcp.http_admission import HttpAdmission
from metier.skill import shown
from metier.store import Store

_GRACE_SECONDS = 10


async def serve(store: Store, settings: ServerSettings, *, on_ready: Callable[[str], object] | None = None) -> None:
    """Serve a store until cancelled, or until a signal says to stop."""
    hosts = list(settings.allowed_hosts)
    if settings.public_url is not None and settings.public_url.host:
        hosts.append(settings.public_url.host)
    if not settings.is_local and not hosts:
        raise InvalidArgument(
            f"{settings.host!r} can be reached by other machines, and no name is known that they call it by.",
            hint="Name it: `public_url: https://skills.example.com` in the file for --config.",
        )
    if not settings.is_local and not settings.has_tls and not settings.allow_plain_http:
        raise InvalidArgument(
            "Tokens would be sent in the open: there is no certificate.",
            hint="Set `tls_certificate` and `tls_key`, or `allow_plain_http: true` behind a proxy that has TLS.",
        )
    for name, path in (("tls_certificate", settings.tls_certificate), ("tls_key", settings.tls_key)):
        if path is not None and not path.is_file():
            raise InvalidArgument(
                f"The file of `{name}`, {shown(str(path), 300)}, is not there.", hint="Correct its path."
            )
    app = create_app(store, settings)
    await run_app(
        HttpAdmission(app, token=None, allowed_hosts=hosts, answer=_refuse),
        settings.host,
        settings.port,
        on_ready=on_ready,
        on_stop=app.state.context.stop,
        stopping=problem(503, "stopping", "The server is stopping.", hint="Try again in a moment."),
        limits=None,
        grace_seconds=_GRACE_SECONDS,
        tls=(settings.tls_certificate, settings.tls_key) if settings.tls_certificate and settings.tls_key else None,
    )


def _refuse(status: int, code: str, hint: str, headers: dict[str, str] | None) -> Response:
    return problem(status, code, hint, headers=headers)
