"""A proxy that reaches the hosts on a list and nothing else: all that a job with `network="restricted"` has.

The job is where there is no network at all. One socket that listens in there is handed out to this side, which accepts
connections on it, decides, and makes the connections to the world itself. Each name is looked up once, and what is
connected to is the very address that was judged. What goes through a tunnel is not looked into, so whoever shares a
server with a listed host can be reached by it.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._hosts import DEFAULT_PORTS, HostList, is_address, is_public_address
from metier._lazy import dataclass, field, logger
from metier.run.proxy_request import BadRequest, parse_request
from metier.run.proxy_sockets import LINGER, READ, Sockets, Stopped, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from metier._hosts import Match
    from metier.run.proxy_request import ProxyRequest

log = logger("metier.run")

Reason: TypeAlias = Literal["listed", "not-listed", "port", "address", "unresolved", "malformed", "busy"]
"""The reason of a decision. `address` is a name that leads to where no name may lead."""

_TUNNEL_PORTS = frozenset({443})
"""The ports of an entry without one for a tunnel."""
_MOST_ADDRESSES = 4
_CLOSING = 5.0
"""Seconds that `close` waits for threads; only a look-up by the system, which nothing can end, takes so long."""
_TURNED_AWAY = 64
_MOST_CONTACTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyDecision:
    """The decision about a host that a client wanted to reach."""

    host: str
    """In canonical form; empty if it could not be told."""
    port: int
    allowed: bool
    reason: Reason


class Contacts:
    """The hosts that a job wanted to reach, for the record: the first hundred of them, each once."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def note(self, decision: ProxyDecision) -> None:
        """Take note of a decision; called from the threads of a proxy."""
        text = f"{decision.host or '?'}:{decision.port} {decision.reason}"
        if text not in self._seen and len(self._seen) < _MOST_CONTACTS:
            self._seen[text] = None
            log.info("restricted network: %s", text)

    def seen(self) -> tuple[str, ...]:
        """The noted hosts, each with the decision."""
        return tuple(self._seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """Limits of a proxy."""

    connections: int = 32
    """At one time."""
    queue_seconds: float = 1.0
    """The wait for a free connection; if none ends in so long, all clients are turned away until one does."""
    head_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    """For a request to arrive, however slowly it is sent."""
    connect_seconds: float = 10.0
    idle_seconds: float = 60.0
    """Without a byte in either direction."""


def proxy_variables(port: int) -> dict[str, str]:
    """The environment that leads programs to a proxy on this machine.

    >>> proxy_variables(8080)["https_proxy"]
    'http://127.0.0.1:8080'
    """
    names = ("http_proxy", "https_proxy", "all_proxy")
    values = {**dict.fromkeys(names, f"http://127.0.0.1:{port}"), "no_proxy": ""}
    return {**values, **{name.upper(): value for name, value in values.items()}}


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, by this machine's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def address_check(*, may_be_private: bool) -> Callable[[str], bool]:
    """The addresses that a name may lead to: those of the open internet, or any."""
    return (lambda _address: True) if may_be_private else is_public_address


class AllowListProxy:
    """Lets clients of a listening socket reach the hosts on a list, by CONNECT and by plain HTTP requests.

    `hosts` are entries of `checked_hosts`, None for all that there are. One without a port means 443, and 80 for plain
    requests. A name must lead to an address that `permits_address`; an address that is itself on the list was named on
    purpose, and is reached even if it is a private one. `on_decision` is told of every request before anything is done
    for it, one at a time and from the proxy's threads; what it cannot take is not let through. The listening socket
    belongs to the proxy.
    """

    def __init__(
        self,
        listener: socket.socket,
        hosts: Sequence[str] | None,
        *,
        on_decision: Callable[[ProxyDecision], None] | None = None,
        resolve: Callable[[str, int], Sequence[str]] = look_up,
        permits_address: Callable[[str], bool] = is_public_address,
        limits: ProxyLimits | None = None,
    ) -> None:
        self._listener = listener
        self._hosts = HostList(hosts) if hosts is not None else None
        self._on_decision, self._resolve, self._permits = on_decision, resolve, permits_address
        self._limits = limits or ProxyLimits()
        self._telling = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._is_closed = False
        # For the two before it.
        self._change = threading.Condition()
        self._full_until: float | None = None
        self._sockets = Sockets(self._limits)

    def start(self) -> None:
        """Begin to accept connections."""
        self._listener.setblocking(False)
        self._begin(self._accept)

    def close(self) -> None:
        """End all connections, and what serves them."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
            threads = self._threads - {threading.current_thread()}
        self._sockets.stop()
        deadline = time.monotonic() + _CLOSING
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._listener.close()
        self._sockets.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, target: Callable[..., None], *arguments: object) -> bool:
        """Call a function in a thread of its own, unless there is none to be had."""

        def run() -> None:
            try:
                target(*arguments)
            except Stopped:
                pass
            except Exception:
                log.exception("a connection of a proxy failed")
            finally:
                with self._change:
                    self._threads.discard(thread)
                    self._change.notify_all()

        thread = threading.Thread(target=run, name="metier-proxy", daemon=True)
        with self._change:
            if self._is_closed:
                return False
            try:
                thread.start()
            except RuntimeError:
                return False
            self._threads.add(thread)
        return True

    def _accept(self) -> None:
        with contextlib.closing(_TurnedAway()) as turned_away:
            while True:
                if not self._sockets.wait({self._listener: READ}, LINGER if turned_away.waiting else None):
                    turned_away.close()
                    continue
                try:
                    client, _ = self._listener.accept()
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                        raise
                    # The client has gone, or this process has too much open; that passes.
                    self._sockets.wait({}, 0.05)
                    continue
                client.setblocking(False)
                if not self._has_room() or not self._begin(self._serve, client):
                    self._tell(_no("", 0, "busy"))
                    turned_away.add(client)

    def _has_room(self) -> bool:
        """Whether there is a place for another, after waiting for one a while, but not for each anew."""

        def is_free() -> bool:
            # One of the threads accepts connections.
            return self._is_closed or len(self._threads) <= self._limits.connections

        with self._change:
            now = time.monotonic()
            if self._full_until is None:
                self._full_until = now + self._limits.queue_seconds
            if self._change.wait_for(is_free, max(0.0, self._full_until - now)):
                self._full_until = None
            return self._full_until is None

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            try:
                read = self._sockets.read_head(client)
                if read is None:
                    return
                request = parse_request(read[0])
            except BadRequest as error:
                self._tell(_no("", 0, "malformed"))
                self._sockets.answer(client, error.status, error.reason)
                return
            addresses, decision, answer = self._judge(request)
            if not self._tell(decision):
                self._sockets.answer(client, 503, "What is reached cannot be recorded, so nothing is.")
            elif not decision.allowed:
                self._sockets.answer(client, *answer)
            else:
                self._pass_on(client, request, addresses, read[1])

    def _judge(self, request: ProxyRequest) -> tuple[Sequence[str], ProxyDecision, tuple[int, str]]:
        """The addresses to try, the decision, and the answer to a client that is refused."""
        host, port = request.host, request.port
        ports = _TUNNEL_PORTS if request.is_tunnel else DEFAULT_PORTS
        match: Match = "listed" if port in ports else "port"
        if self._hosts is not None:
            match = self._hosts.match(host, port, ports)
        if match == "not-listed":
            return (), _no(host, port, match), (403, f"The host {host} is not on the list of this job.")
        if match == "port":
            return (), _no(host, port, match), (403, f"The host {host} may be reached, but not on port {port}.")
        addresses: Sequence[str] = (host,)
        if self._hosts is None or not is_address(host):
            try:
                found = addresses if is_address(host) else self._resolve(host, port)
            except (OSError, UnicodeError):
                found = ()
            if not found:
                return (), _no(host, port, "unresolved"), (502, f"The host {host} cannot be found.")
            addresses = [address for address in found if self._permits(address)][:_MOST_ADDRESSES]
            if not addresses:
                return (), _no(host, port, "address"), (403, f"The host {host} leads to where no name may lead.")
        return addresses, ProxyDecision(host=host, port=port, allowed=True, reason="listed"), (200, "")

    def _tell(self, decision: ProxyDecision) -> bool:
        """Report a decision; whether that worked."""
        if self._on_decision is None:
            return True
        try:
            with self._telling:
                self._on_decision(decision)
        except Exception:
            log.exception("a decision of a proxy cannot be recorded")
            return False
        return True

    def _pass_on(self, client: socket.socket, request: ProxyRequest, addresses: Sequence[str], rest: bytes) -> None:
        server = self._sockets.connect(addresses, request.port)
        if server is None:
            text = f"The host {request.host} does not answer on port {request.port}."
            self._sockets.answer(client, 502, text)
            return
        try:
            with server:
                self._sockets.carry(client, server, request, rest)
        except BadRequest as error:
            self._tell(_no(request.host, request.port, "malformed"))
            self._sockets.answer(client, error.status, error.reason)
            return
        self._sockets.linger(client)


@dataclass(slots=True)
class _TurnedAway:
    """Connections that were refused and are kept for a moment, so that their clients can read why."""

    waiting: deque[socket.socket] = field(default_factory=deque)

    def add(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client.send(refusal(503, "There are too many connections at one time."))
            client.shutdown(socket.SHUT_WR)
        self.waiting.append(client)
        if len(self.waiting) > _TURNED_AWAY:
            self.waiting.popleft().close()

    def close(self) -> None:
        while self.waiting:
            self.waiting.popleft().close()


def _no(host: str, port: int, reason: Reason) -> ProxyDecision:
    return ProxyDecision(host=host, port=port, allowed=False, reason=reason)
