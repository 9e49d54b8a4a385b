"""Sessions over HTTP: the body of a request, however many pieces it comes in."""

from __future__ import annotations

import json
from typing import Any

import anyio

from metier.serve.mcp.http_sessions import HttpSessions

PIECES = 2_000


class Piece(bytes):
    """A piece of a body, which counts how often somebody asks for its length."""

    asked = 0

    def __len__(self) -> int:
        Piece.asked += 1
        return super().__len__()


def test_a_body_in_many_pieces_is_received_whole_and_looked_at_once() -> None:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode().ljust(PIECES)
    pieces = [Piece(request[at : at + 1]) for at in range(PIECES)]
    left: list[dict[str, Any]] = [{"type": "http.disconnect"}]
    left += [{"type": "http.request", "body": piece, "more_body": True} for piece in reversed(pieces)]
    left[1]["more_body"] = False
    received: list[Any] = []

    async def receive() -> Any:
        return left.pop()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not received or received[-1]["type"] == "http.request":
            received.append(await receive())

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"mcp-session-id", b"s1")]}
    anyio.run(HttpSessions(app, lambda _: None, lambda _: False), scope, receive, send)
    assert b"".join(message.get("body", b"") for message in received) == request
    assert Piece.asked <= PIECES
    assert received[-1] == {"type": "http.disconnect"}
