"""The entrance of the app: an id for each request, headers that every answer has, the access log, and failures.

The log has neither queries nor headers: what people search for and the tokens by which they are known are not in it.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from metier._lazy import logger
from metier.serve.api.problems import problem
from metier.serve.http_server import Answered
from metier.skill import shown

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logger("metier.serve.access")

_MAX_SHOWN = 300
_HEADERS = {
    # The API is for programs: nothing in an answer is to be run, framed or kept, unless its route says otherwise.
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TLS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


class Entrance:
    """The outermost part of the app."""

    def __init__(self, app: ASGIApp, *, has_tls: bool) -> None:
        self._app = app
        self._headers = {**_HEADERS, **(_TLS_ONLY if has_tls else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        headers = {**self._headers, "X-Request-Id": request_id}
        answered = Answered(_with_headers(send, headers))
        began = time.perf_counter()
        try:
            await self._app(scope, receive, answered)
        except Exception:
            if not answered.status:
                await _failure(request_id)(scope, receive, answered)
            raise  # whoever runs the app logs it
        finally:
            log.info(
                "%s %s %d %.1f ms %s %s",
                scope["method"],
                shown(scope["path"], _MAX_SHOWN),
                answered.status,
                (time.perf_counter() - began) * 1000,
                _caller_of(scope),
                request_id,
            )


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            found = MutableHeaders(scope=message)
            for name, value in headers.items():
                found.setdefault(name, value)
        await send(message)

    return sending


def _failure(request_id: str) -> ASGIApp:
    return problem(
        500,
        "internal-error",
        "The server failed; its log says why.",
        hint=f"Tell whoever runs it the number of the request: {request_id}.",
    )


def _caller_of(scope: Scope) -> str:
    caller = scope["state"].get("caller")
    if caller is None:
        return "-"
    tenant = caller.scope.tenant
    return shown(f"{caller.person.name}@{tenant}" if tenant else caller.person.name, _MAX_SHOWN)
