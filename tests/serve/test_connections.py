"""Connections over HTTP within limits: whoever keeps the server waiting is ended, and keeps nobody else out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from tests.serve.test_http import DISCOVER, post
from uvicorn.server import ServerState

from metier.serve.mcp import SkillServer
from metier.serve.mcp.http_limits import BoundedProtocol, HttpLimits

Serve = Callable[..., SkillServer]
Http = Callable[..., str]
LONG, SHORT = 600.0, 0.2
PATIENT = HttpLimits(header_seconds=LONG, body_seconds=LONG, unread_seconds=LONG, idle_seconds=600)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def limited(**limits: Any) -> HttpLimits:
    """Limits that end nothing, but for those that are given."""
    return HttpLimits(**{name: getattr(PATIENT, name) for name in HttpLimits.__slots__} | limits)


@pytest.fixture
def connect() -> Iterator[Callable[..., socket.socket]]:
    """Connects to a server, and sends the beginning of something."""
    with contextlib.ExitStack() as opened:

        def connect(url: str, data: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
            place = urlsplit(url)
            line = socket.create_connection((place.hostname or "", place.port or 0), 60, (address, 0))
            opened.enter_context(line)
            line.sendall(data)
            return line

        yield connect


def ended(line: socket.socket) -> bytes:
    """What comes until the server has ended a connection; fails where it does not."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := line.recv(65_536):
            received += piece
    return received


def is_open(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        line.settimeout(60)


UNFINISHED = {
    "nothing": b"",
    "half a method": b"PO",
    "half a head": HEAD,
    "a second head": b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\nGET /none HT",
}


@pytest.mark.covers("SEC-19")
def test_a_head_that_does_not_come_ends_the_connection(
    serve: Serve, http: Http, connect: Callable[..., socket.socket]
) -> None:
    url = http(serve(), token="secret", limits=limited(header_seconds=SHORT))
    lines = {name: connect(url, data) for name, data in UNFINISHED.items()}
    assert {name: b" 200 " in ended(line) for name, line in lines.items()} == dict.fromkeys(UNFINISHED, False)


@pytest.mark.covers("SEC-19")
def test_a_byte_now_and_then_puts_nothing_off(serve: Serve, http: Http, connect: Callable[..., socket.socket]) -> None:
    line = connect(http(serve(), limits=limited(header_seconds=SHORT)), HEAD + b"X: ")
    line.settimeout(0.01)
    with contextlib.suppress(ConnectionError):
        for _ in range(6_000):
            line.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                if line.recv(1) == b"":
                    return
        pytest.fail("It is still open.")


@pytest.mark.covers("SEC-19")
@pytest.mark.parametrize("token", [None, "secret"])
def test_a_body_that_does_not_come_ends_the_connection_whether_or_not_it_was_let_in(
    serve: Serve, http: Http, connect: Callable[..., socket.socket], token: str | None
) -> None:
    url = http(serve(), token=token, limits=limited(body_seconds=SHORT))
    received = ended(connect(url, HEAD + b"Content-Length: 100\r\n\r\n{"))
    assert received.startswith(b"HTTP/1.1 401 " if token else b"")
    assert b" 200 " not in received


@pytest.mark.covers("SEC-19")
@pytest.mark.parametrize("more", [12, pytest.param(32, marks=pytest.mark.slow)])
def test_requests_that_are_never_finished_do_not_keep_others_out(
    serve: Serve, http: Http, connect: Callable[..., socket.socket], more: int
) -> None:
    url = http(serve(), limits=limited(connections=8, by_address=8))
    waiting = [connect(url, HEAD) for _ in range(8)]
    for _ in range(more):
        # One after the other: of those that come faster than they are accepted, the system has some try again later.
        waiting.append(connect(url, HEAD))
        assert ended(waiting.pop(0)) == b""
    assert post(url, DISCOVER)[0] == 200


@pytest.mark.covers("SEC-19")
def test_one_address_does_not_keep_others_out(serve: Serve, http: Http, connect: Callable[..., socket.socket]) -> None:
    url = http(serve(), limits=limited(connections=64, by_address=4))
    try:
        other = connect(url, HEAD, address="127.0.0.2")
    except OSError:
        pytest.skip("this machine has one loopback address")
    several = [connect(url, HEAD) for _ in range(12)]
    for line in several[:8]:
        assert ended(line) == b""
    assert is_open(other)
    assert all(map(is_open, several[8:]))


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """An app that answers without end."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while (await asyncio.wait_for(asyncio.shield(_sent(send)), 60)) and not scope["state"]["gone"].is_set():
        pass


async def _sent(send: Any) -> bool:
    await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
    return True


@contextlib.asynccontextmanager
async def listening(app: Any, limits: HttpLimits, state: dict[str, Any]) -> AsyncIterator[int]:
    """An app on loopback, as the server has its own."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    shared = ServerState()

    class Watched(BoundedProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            state["gone"].set()

    def made() -> BoundedProtocol:
        return Watched(limits, config=config, server_state=shared, app_state=state, _loop=loop)

    async with await loop.create_server(made, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.covers("SEC-19")
def test_whoever_does_not_read_what_was_asked_for_is_ended() -> None:
    async def main() -> None:
        state = {"gone": asyncio.Event()}
        async with listening(endless, limited(unread_seconds=SHORT), state) as port:
            with socket.create_connection(("127.0.0.1", port), 60) as line:
                line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.wait_for(state["gone"].wait(), 60)

    asyncio.run(main())


@pytest.mark.covers("SEC-19")
def test_a_connection_that_is_being_answered_does_not_make_room() -> None:
    answering: list[asyncio.Event] = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        answering.pop().set()
        await scope["state"]["go on"].wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        begun = asyncio.Event()
        answering.append(begun)
        state = {"gone": asyncio.Event(), "go on": asyncio.Event()}
        async with listening(waits, limited(connections=1), state) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await begun.wait()
            refused, other = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await refused.read() == b""
            state["go on"].set()
            assert (await reader.read()).startswith(b"HTTP/1.1 204 ")
            for one in (writer, other):
                one.close()

    asyncio.run(main())


@pytest.mark.covers("SEC-19")
@pytest.mark.skipif(sys.platform != "linux", reason="a connection can be made this small here alone")
def test_answers_that_nobody_reads_keep_nobody_out(serve: Serve, http: Http) -> None:
    url = http(serve(), token="secret", limits=limited(connections=4, by_address=4))
    place = urlsplit(url)
    with contextlib.ExitStack() as lines:
        for _ in range(4):
            line = lines.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 200)
            line.connect((place.hostname or "", place.port or 0))
            line.settimeout(0.1)
            with contextlib.suppress(TimeoutError, OSError):
                for _ in range(100_000):  # until the server takes no more, as its answers are not taken
                    line.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert post(url, DISCOVER, Authorization="Bearer secret")[0] == 200
