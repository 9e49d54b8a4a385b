"""Limits of requests: their rate, the size of their bodies, the time they take, and how many there are at once.

Rates and places are those of this process: they protect it, and decide about nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import math
import re
import time
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

from metier._cache import BoundedCache
from metier.errors import MetierError
from metier.serve.api.credentials import no_credential, secret_of
from metier.serve.api.problems import problem
from metier.serve.http_server import Answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from metier.serve.api.settings import ClientLimits
    from metier.store import Person, TenantScope

    Clock = Callable[[], float]
    _PersonKey = tuple[str, str]
    """A tenant, and the name of a person in it."""
    _FindOwner = Callable[[str], tuple[TenantScope, Person] | None]

_FREE = frozenset({"/healthz"})
"""Asked by whatever restarts a server that does not answer: a busy one must not look dead."""
_UPLOAD = re.compile(r"/api/v1/contents/|/v1/packages/")
_UPLOADS = 8
"""The most uploads at once, as their bodies may be large."""
_PATIENCE_SECONDS = 2.0
"""The longest wait for a place."""
_MAX_BUCKETS = 10_000


class _Bucket:
    """The requests that somebody may still make now; they come back with time."""

    __slots__ = ("_left", "_most", "_seen")

    def __init__(self, most: int, now: float) -> None:
        self._most = self._left = float(most)
        self._seen = now

    def take(self, now: float) -> float:
        """Take one, and return 0; where none is left, the seconds until there is one."""
        by_second = self._most / 60
        self._left = min(self._most, self._left + (now - self._seen) * by_second)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) / by_second
        self._left -= 1
        return 0


class RateLimiter:
    """The requests per minute of each person, and of each address for those who are not known."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: BoundedCache[str | _PersonKey, _Bucket] = BoundedCache(_MAX_BUCKETS)

    def take(self, scope: Scope, person: _PersonKey | None = None) -> float:
        """Count a request; returns the seconds to wait where there were too many, else 0."""
        key, now = person or _address(scope), self._clock()
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = _Bucket(self._per_minute, now)
        return found.take(now)


def _address(scope: Scope) -> str:
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    # One customer of a provider has a whole network of version 6.
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host


class RequestLimits:
    """Answers requests that are too many, too large or too slow with a problem."""

    def __init__(
        self, app: ASGIApp, *, limits: ClientLimits, by_token: _FindOwner, clock: Clock = time.monotonic
    ) -> None:
        """`by_token` finds the owner of a token, or None."""
        self._app = app
        self._limits = limits
        self._by_token = by_token
        self._rate = RateLimiter(limits.requests_per_minute, clock)
        self._persons: BoundedCache[str, _PersonKey] = BoundedCache(_MAX_BUCKETS)
        self._places = asyncio.Semaphore(limits.concurrent)
        self._uploads = asyncio.Semaphore(min(_UPLOADS, limits.concurrent))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that is within the limits."""
        if scope["type"] != "http" or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        secret = secret_of(Request(scope))
        digest = hashlib.sha256(secret.encode()).hexdigest()
        # The flood of a stranger is not to hold up a person who shares their address, not even in their first request.
        person = self._persons.get(digest)
        if person is None:
            with contextlib.suppress(MetierError):  # the route tells what the store lacks
                person = await self._find(secret)
        wait = self._rate.take(scope, person)
        if wait:
            text = f"There were more than {self._limits.requests_per_minute} requests in a minute."
            await _later(429, "too-many-requests", text, math.ceil(wait))(scope, receive, send)
            return
        is_upload = _UPLOAD.match(scope["path"]) is not None and scope["method"] in ("PUT", "POST")
        most = self._limits.body_bytes if is_upload else self._limits.json_bytes
        if _announced(scope) > most:
            await problem(413, "request-too-large", _too_large(most), headers={"Connection": "close"})(
                scope, receive, send
            )
            return
        if is_upload and await self._find(secret) is None:
            # A large body is read only for somebody known: it lies in memory before its route is asked.
            await no_credential().answer()(scope, receive, send)
            return
        await self._admit(scope, _bounded(receive, most), send, self._uploads if is_upload else self._places)
        if person is not None and scope.get("state", {}).get("caller") is not None:
            self._persons[digest] = person
        else:  # a credential that was revoked takes nothing from its person
            self._persons.pop(digest, None)

    async def _find(self, secret: str) -> _PersonKey | None:
        """The person of a credential; None for one that is not valid."""
        if not secret:
            return None
        found = await anyio.to_thread.run_sync(self._by_token, secret)
        return None if found is None else (found[0].tenant, found[1].name)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, places: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await places.acquire()
        except TimeoutError:
            await _later(503, "busy", "The server has too much to do.", 1)(scope, receive, send)
            return
        place = _Place(places)
        try:
            await self._within_time(scope, receive, place.freed_by_streams(send))
        finally:
            place.free()

    async def _within_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in time; one that takes longer goes on, but the client is told not to wait for it."""
        answered = Answered(send)
        is_late = False
        late: list[asyncio.Task[None]] = []  # which nothing else would keep from being collected

        async def in_time(message: Message) -> None:
            if not is_late:
                await answered(message)

        def end() -> None:
            nonlocal is_late
            if not answered.status:
                is_late = True
                text = f"The request takes over {self._limits.request_seconds:g} s; it may still come to its end."
                late.append(asyncio.ensure_future(_later(503, "too-slow", text, 5)(scope, receive, send)))

        timer = asyncio.get_running_loop().call_later(self._limits.request_seconds, end)
        try:
            await self._app(scope, receive, in_time)
            for task in late:
                await task
        finally:
            timer.cancel()


class _Place:
    """A place among the requests that are answered at once."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places

    def free(self) -> None:
        """Leave it to the next request."""
        if self._places is not None:
            self._places.release()
            self._places = None

    def freed_by_streams(self, send: Send) -> Send:
        """Leave the place once the answer is a stream of events, which does nothing for most of its time."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = Headers(raw=message.get("headers", [])).get("content-type", "")
                if kind.startswith("text/event-stream"):
                    self.free()
            await send(message)

        return sending


def _later(status: int, code: str, text: str, seconds: int) -> ASGIApp:
    return problem(status, code, text, hint="Try again later.", headers={"Retry-After": str(seconds)})


def _announced(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdigit() else 0


def _bounded(receive: Receive, most: int) -> Receive:
    """The body of a request as far as it is within the limit, whatever its header says."""
    count = 0

    async def receiving() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise HTTPException(413, _too_large(most), headers={"Connection": "close"})
        return message

    return receiving


def _too_large(most: int) -> str:
    return f"The body of this request may have {most} bytes at most."
