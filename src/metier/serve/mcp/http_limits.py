"""Connections over HTTP, each within limits: no client holds one by sending, or reading, only a part of something."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from metier._lazy import dataclass, logger

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

log = logger("metier.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The most connections of a server, and the longest that each may keep it waiting."""

    connections: int = 512
    """In all; never more than half of the descriptors that this process may have."""
    by_address: int = 384
    """From one address, so that others are served besides."""
    header_seconds: float = 10.0
    """Until the head of a request is there, from the beginning of the connection or the end of the last answer."""
    body_seconds: float = 60.0
    """Until the rest of it is there."""
    unread_seconds: float = 60.0
    """Until a client has taken what was sent to it."""
    idle_seconds: int = 5
    """Between two requests."""


_SILENCE = 60.0
_numbers = itertools.count()


class BoundedProtocol(H11Protocol):
    """HTTP on one connection. Each stage of a request has a deadline, which no single byte puts off.

    Where there are too many connections, a new one takes the place of the one that keeps the server waiting longest:
    so requests that were never finished, of which none has shown a token, do not keep out those that are. Where none
    waits, it is the longest open stream on which a client listens, as that can be opened again.
    """

    _silent_until = 0.0

    def __init__(self, limits: HttpLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._number = next(_numbers)
        self._stage: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, in the place of another connection where there are too many."""
        super().connection_made(transport)
        # To know of what a client leaves unread, also when the connection is to be closed behind it. With 0, asyncio
        # takes an empty buffer of TLS for a full one, and no answer would come to its end.
        transport.set_write_buffer_limits(high=1, low=0)
        self._wait_for_request()
        own = [one for one in self._others() if one.client and self.client and one.client[0] == self.client[0]]
        if len(own) >= self._limits.by_address:
            self._displace(own)
        elif len(self.connections) > most_connections(self._limits):
            self._displace(self._others())

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with all that would end it later."""
        _cancel(self._deadline, self._unread)
        super().connection_lost(exc)

    def _others(self) -> Iterable[BoundedProtocol]:
        return [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self]

    def _displace(self, others: Iterable[BoundedProtocol]) -> None:
        # Whoever reads an answer slowly has asked for something; whoever has not even asked goes first.
        others = list(others)
        waiting = (
            [one for one in others if one.keeps_waiting]
            or [one for one in others if one._unread is not None]
            or [one for one in others if one.is_listening]
        )
        now = self.loop.time()
        if now >= BoundedProtocol._silent_until:  # whoever opens many must not fill the log as well
            BoundedProtocol._silent_until = now + _SILENCE
            log.warning("there are too many connections, so those that wait make room: %d of them", len(waiting))
        min(waiting, key=lambda one: one._number, default=self).end()

    @property
    def keeps_waiting(self) -> bool:
        """Whether the server waits for the client, and has no request of it to answer."""
        return self._deadline is not None

    @property
    def is_listening(self) -> bool:
        """Whether nothing is done for the client but to tell it of changes."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        return self.scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in self.scope["headers"]

    def data_received(self, data: bytes) -> None:
        """Go on with a request; its deadline stays where it is."""
        super().data_received(data)
        self._wait_for_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Have a deadline for the stage that the client is at, and none while there is something to answer."""
        stage = self.conn.their_state
        if stage is self._stage and (stage is not h11.IDLE or self._deadline is not None):
            return
        self._stage = stage
        _cancel(self._deadline)
        seconds = {h11.IDLE: self._limits.header_seconds, h11.SEND_BODY: self._limits.body_seconds}.get(stage)
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.end)

    def send_400_response(self, msg: str) -> None:
        """Say that it is no HTTP, unless an answer is under way; whatever was to be answered is not any more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.end()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        _cancel(self._unread)
        self._unread = self.loop.call_later(self._limits.unread_seconds, self.end)

    def resume_writing(self) -> None:
        """Go on, as the client has read all of it."""
        _cancel(self._unread)
        self._unread = None
        super().resume_writing()

    def end(self) -> None:
        """End at once: to close it in good order would wait for the client once more."""
        self.connections.discard(self)
        _cancel(self._deadline, self._unread)
        self.transport.abort()


def most_connections(limits: HttpLimits) -> int:
    """The most connections at once, fewer where descriptors are few."""
    try:
        import resource
    except ImportError:
        return limits.connections  # on Windows
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limits.connections if descriptors < 0 else min(limits.connections, max(8, descriptors // 2))


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
