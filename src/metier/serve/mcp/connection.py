"""A line to a client: one connection over pipes, or everything that comes in over HTTP."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from metier._lazy import dataclass, field
from metier.errors import InvalidArgument
from metier.serve.mcp.concurrency import ConcurrencyLimit
from metier.serve.mcp.uris import parse_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

    from metier.dialect import Kit
    from metier.serve.mcp.change_notifications import ChangeNotice
    from metier.serve.mcp.conversations import Conversations

Context: TypeAlias = ServerRequestContext[Any, Any]

MAX_SUBSCRIPTIONS = 1_000
MAX_PEERS = 4_096
MAX_LISTENED = 8 * 1024 * 1024
"""Characters of all that clients want to be told of: what they ask for is kept for as long as they listen."""


@dataclass(slots=True, kw_only=True)
class Peer:
    """A client of the handshake protocols, which is told of changes without having opened a stream for it."""

    session: ServerSession
    subscriptions: set[str] = field(default_factory=set)
    news: ChangeNotice | None = None
    """The notification that it has not received yet."""
    is_being_told: bool = False

    @property
    def characters(self) -> int:
        """The number of characters that are kept for it."""
        return sum(map(len, self.subscriptions))


@dataclass(slots=True, kw_only=True)
class ClientConnection:
    """The state of a connection over pipes, or of a whole server on HTTP."""

    conversations: Conversations
    bus: InMemorySubscriptionBus
    listen: ListenHandler
    peers: dict[str, Peer] = field(default_factory=dict)
    """By conversation. Whoever ends its session is taken out in a worker thread, whatever is done here meanwhile."""
    key: str = ""
    """The conversation of a connection; empty on HTTP, where there are many, or none."""
    turns: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    """The limit of scripts that run at once."""
    listened: int = 0
    """The characters of what streams that are open listen for."""

    def peer(self, ctx: Context) -> Peer:
        """The client of a request that came after a handshake; the one known longest is forgotten for a new one."""
        key = conversation_of(ctx) or ""
        peer = self.peers.get(key)
        if peer is None:
            for oldest in list(self.peers)[: max(0, len(self.peers) - MAX_PEERS + 1)]:
                self.peers.pop(oldest, None)
            peer = self.peers[key] = Peer(session=ctx.session)
        return peer

    def require_few(self, uris: Sequence[str], *, beside: int = 0) -> None:
        """Raise where URIs are none of files of skills, or are too many beside those that are listened for already."""
        if len(uris) + beside > MAX_SUBSCRIPTIONS:
            raise InvalidArgument("There are too many subscriptions.", hint=f"At most {MAX_SUBSCRIPTIONS:,} are kept.")
        for uri in uris:
            parse_uri(uri)
        kept = self.listened + sum(peer.characters for peer in list(self.peers.values()))
        if kept + sum(map(len, uris)) > MAX_LISTENED:
            raise InvalidArgument("Clients listen for too much already.", hint="Listen for less, or try again later.")

    @contextlib.contextmanager
    def listening(self, uris: Sequence[str]) -> Iterator[None]:
        """While a stream is open on which a client is told of URIs."""
        self.require_few(uris)
        characters = sum(map(len, uris))
        self.listened += characters
        try:
            yield
        finally:
            self.listened -= characters

    def close(self) -> None:
        """End what belongs to this connection alone."""
        for key in {self.key, *self.peers}:
            self.conversations.end(key)


def is_modern(ctx: Context) -> bool:
    """Whether a request is of a protocol in which every request stands for itself."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_stateless(ctx: Context) -> bool:
    """Whether nothing but an argument can tell which conversation a request belongs to."""
    line: ClientConnection = ctx.lifespan_context
    return not line.key and is_modern(ctx)


def conversation_of(ctx: Context) -> str | None:
    """The key of the conversation that a request belongs to; None where only its arguments can tell."""
    line: ClientConnection = ctx.lifespan_context
    if line.key:
        return line.key
    if is_modern(ctx) or ctx.request is None:
        return None
    # Only requests whose id is that of an open session of the transport come here with one.
    return ctx.request.headers.get("mcp-session-id") or None


async def kit_of(ctx: Context) -> Kit | None:
    """The kit of a request's conversation; None where only its arguments can tell which one that is."""
    key = conversation_of(ctx)
    if key is None:
        return None
    conversations: Conversations = ctx.lifespan_context.conversations
    # In a thread where it is not in memory: one that was put away is read again.
    return conversations.held(key) or await conversations.guard.in_thread(conversations.of, key)
