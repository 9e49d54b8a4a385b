"""Sockets of a proxy: every wait has a bound, and all of them end at once when it closes."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.run.proxy_request import END_OF_HEAD, BadRequest, Body, ends_badly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.run.proxy import ProxyLimits
    from metier.run.proxy_request import ProxyRequest

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
LINGER = 1.0
"""Seconds for a client to take an answer before its connection is closed over what it still sends."""

# Of those that can wait for some sockets, one that takes no descriptor itself.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_CHUNK = 65_536


class Stopped(Exception):
    """The proxy was closed."""


class Sockets:
    """Operations of threads on sockets that do not block, until they are stopped."""

    def __init__(self, limits: ProxyLimits) -> None:
        self._limits = limits
        # Closed at one end, the other can be read: every wait is also for that.
        self._stop, self._stopped = socket.socketpair()
        self._is_stopped = False

    def stop(self) -> None:
        """End every wait, and those that begin later."""
        self._is_stopped = True
        self._stop.close()

    def close(self) -> None:
        """Close the sockets, when nobody waits any more."""
        self.stop()
        self._stopped.close()

    def wait(self, interest: Mapping[socket.socket, int], seconds: float | None) -> dict[socket.socket, int]:
        """The sockets that are ready; none if that takes too long."""
        if self._is_stopped:
            raise Stopped
        with _Selector() as selector:
            selector.register(self._stopped, READ)
            for item, events in interest.items():
                selector.register(item, events)
            ready = {key.fileobj: events for key, events in selector.select(seconds)}
        if self._stopped in ready:
            raise Stopped
        return {item: ready[item] for item in interest if item in ready}

    def read_head(self, client: socket.socket) -> tuple[bytes, bytes] | None:
        """The head of a request and the bytes after it; None if the client sends nothing."""
        deadline = time.monotonic() + self._limits.head_seconds
        data = bytearray()
        while (end := data.find(END_OF_HEAD)) < 0:
            if ends_badly(data):
                raise BadRequest("Lines end in CR LF, and there is no NUL in them.")
            if len(data) > self._limits.head_bytes:
                raise BadRequest("The head of the request is too long.", 431)
            left = deadline - time.monotonic()
            if left <= 0 or not self.wait({client: READ}, left):
                raise BadRequest("The request did not arrive in time.", 408)
            chunk = _received(client)
            if chunk == b"":
                if data:
                    raise BadRequest("The request ended in its middle.")
                return None
            data += chunk or b""
        if end > self._limits.head_bytes:
            raise BadRequest("The head of the request is too long.", 431)
        return bytes(data[:end]), bytes(data[end + len(END_OF_HEAD) :])

    def connect(self, addresses: Sequence[str], port: int) -> socket.socket | None:
        """A connection to the first address that answers."""
        deadline = time.monotonic() + self._limits.connect_seconds
        for at, address in enumerate(addresses):
            # An address that leads nowhere leaves time for the next.
            left = max(0.0, deadline - time.monotonic()) / (len(addresses) - at)
            with contextlib.ExitStack() as held, contextlib.suppress(OSError):
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                server = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
                server.setblocking(False)
                if self._is_stopped:
                    raise Stopped
                if server.connect_ex((address, port)) not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                    continue
                is_ready = bool(self.wait({server: WRITE}, left))
                if is_ready and server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    held.pop_all()
                    return server
        return None

    def carry(self, client: socket.socket, server: socket.socket, request: ProxyRequest, rest: bytes) -> None:
        """Carry out a request. `rest` are the bytes that the client has sent after it.

        Raises `BadRequest` for a body that is none, as long as nothing of an answer has gone to the client.
        """
        forth, back = _Flow(client, server), _Flow(server, client)
        if request.is_tunnel:
            back.waiting += b"HTTP/1.1 200 Connection established\r\n\r\n"
        else:
            forth.waiting += request.head
            forth.body = Body(request.length)
        for item in (client, server):
            with contextlib.suppress(OSError):
                item.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            forth.take(rest)
            # A plain request is over with its answer, a tunnel when both sides have ended.
            while not back.is_over or (request.is_tunnel and not forth.is_over):
                if not self._turn(forth, back):
                    return
        except BadRequest:
            if back.is_fresh:
                raise

    def _turn(self, forth: _Flow, back: _Flow) -> bool:
        """Wait for either direction and move what can be moved; False if nothing happens for too long."""
        interest: dict[socket.socket, int] = {}
        for flow in (forth, back):
            if flow.waiting:
                interest[flow.sink] = interest.get(flow.sink, 0) | WRITE
            elif flow.reads:
                interest[flow.source] = interest.get(flow.source, 0) | READ
        ready = self.wait(interest, self._limits.idle_seconds)
        for flow in (forth, back):
            if flow.waiting and ready.get(flow.sink, 0) & WRITE:
                flow.write()
            elif flow.reads and ready.get(flow.source, 0) & READ:
                flow.read()
        return bool(ready)

    def answer(self, client: socket.socket, status: int, text: str) -> None:
        """Send an answer of the proxy itself, and close."""
        data = memoryview(refusal(status, text))
        deadline = time.monotonic() + LINGER
        while data and self.wait({client: WRITE}, max(0.0, deadline - time.monotonic())):
            data = data[client.send(data) :]
        self.linger(client)

    def linger(self, client: socket.socket) -> None:
        """Let a client come to the end of an answer: what it sent and nobody read would take the answer from it."""
        client.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER
        while (left := deadline - time.monotonic()) > 0 and self.wait({client: READ}, left):
            if _received(client) == b"":
                return


def refusal(status: int, text: str) -> bytes:
    """An answer of the proxy itself."""
    body = f"metier: {text}\n".encode()
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode("ascii") + END_OF_HEAD + body


@dataclass(slots=True)
class _Flow:
    """One direction of a connection. No more is read before what was read is written."""

    source: socket.socket
    sink: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    body: Body | None = None
    is_fresh: bool = True
    """Nothing has gone to the sink."""
    is_over: bool = False

    @property
    def reads(self) -> bool:
        return not self.is_over and (self.body is None or not self.body.is_over)

    def take(self, data: bytes) -> None:
        self.waiting += data if self.body is None else self.body.feed(data)

    def read(self) -> None:
        data = _received(self.source)
        if data:
            self.take(data)
        elif data == b"":
            self.is_over = True
            # The other direction goes on.
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)

    def write(self) -> None:
        try:
            sent = self.sink.send(self.waiting)
        except BlockingIOError:
            return
        except OSError:
            # Nobody takes it any more, but an answer may still be on its way.
            self.waiting.clear()
            self.is_over = True
            return
        del self.waiting[:sent]
        self.is_fresh = False


def _received(client: socket.socket) -> bytes | None:
    """The received bytes; None if there were none after all, and empty at the end."""
    try:
        return client.recv(_CHUNK)
    except BlockingIOError:
        return None
