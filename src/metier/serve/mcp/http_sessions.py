"""Sessions of the older protocols over HTTP: when each ends, and that every request in it is one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
import pydantic_core
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.responses import JSONResponse

from metier.serve.http_server import Answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 4 * 1024 * 1024
_LAST_EVENT = b"last-event-id"


class HttpSessions:
    """Ends the conversation of a client that says it is done, and tells others when theirs is over.

    The transport finds where an answer goes by the id of its request: of two at once, one would wait for ever. So a
    second one is refused.
    """

    def __init__(self, app: ASGIApp, on_end: Callable[[str], object], is_over: Callable[[str], bool]) -> None:
        self._app = app
        self._on_end, self._is_over = on_end, is_over
        self._answering: set[tuple[str, str]] = set()
        """Sessions, and the ids of requests in them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        ids = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"mcp-session-id"]
        if scope["type"] != "http" or not ids:
            await self._app(scope, receive, send)
        elif scope["method"] == "DELETE":
            answered = Answered(send)
            await self._app(scope, receive, answered)
            if answered.status and answered.status < 300:
                await anyio.to_thread.run_sync(self._on_end, ids[0])
        elif self._is_over(ids[0]):
            await error(404, "Session not found")(scope, receive, send)
        elif scope["method"] == "POST":
            await self._answer_once(ids[0], scope, receive, send)
        else:
            # No events are kept: whoever asks for those since the last one listens from now on.
            headers = [pair for pair in scope["headers"] if pair[0] != _LAST_EVENT]
            await self._app({**scope, "headers": headers}, receive, send)

    async def _answer_once(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(receive)
        key = (session, _id_in(await body.read()))
        if key[1] == GET_STREAM_KEY or key in self._answering:
            refusal = error(400, "A request with this id is being answered already")
            await refusal(scope, receive, send)
            return
        if key[1]:
            self._answering.add(key)
        try:
            await self._app(scope, body.receive, send)
        finally:
            self._answering.discard(key)


class _Body:
    """The body of a request, read before it is passed on as one message."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message] = []

    async def read(self) -> bytes:
        """All of it, as far as any request may have so much."""
        read = bytearray()
        message: Message = {"more_body": True}
        while message.get("more_body", False) and len(read) <= MAX_BODY:
            message = await self._receive()
            read += message.get("body", b"")
        body = bytes(read)
        self._messages = [{**message, "body": body}]
        return body

    async def receive(self) -> Message:
        """Receive the body that was read, then the messages behind it."""
        return self._messages.pop() if self._messages else await self._receive()


def _id_in(body: bytes) -> str:
    """The id of a request, as the transport knows it; empty for what has none."""
    try:
        message = pydantic_core.from_json(body)
    except ValueError:
        return ""
    if not isinstance(message, dict) or "method" not in message or message.get("id") is None:
        return ""
    return str(message["id"])


def error(status: int, message: str) -> JSONResponse:
    """An answer that says what is wrong as the protocol does."""
    code = INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status_code=status)
