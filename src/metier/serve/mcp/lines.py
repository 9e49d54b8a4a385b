"""A line to a client: one connection over pipes, or everything that comes in over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread
from anyio import CapacityLimiter
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from metier.errors import SessionNotFound

if TYPE_CHECKING:
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

    from metier.dialect import Kit
    from metier.serve.mcp.conversations import Conversations

Context: TypeAlias = ServerRequestContext[Any, Any]

MAX_SUBSCRIPTIONS = 1_000
MAX_PEERS = 4_096
MAX_RUNNING = 64


@dataclass(slots=True, kw_only=True)
class Peer:
    """A client of the handshake protocols, which is told of changes without having opened a stream for it."""

    session: ServerSession
    subscriptions: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Line:
    """What lasts as long as a connection, or as a server on HTTP."""

    conversations: Conversations
    bus: InMemorySubscriptionBus
    listen: ListenHandler
    peers: dict[str, Peer] = field(default_factory=dict)
    """By conversation."""
    key: str = ""
    """The conversation of a connection; empty on HTTP, where there are many, or none."""
    running: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_RUNNING))
    """What runs at once; others wait for their turn."""

    def peer(self, ctx: Context) -> Peer:
        """The client of a request that came after a handshake; the one known longest is forgotten for a new one."""
        key = conversation_of(ctx) or ""
        if key not in self.peers:
            while len(self.peers) >= MAX_PEERS:
                del self.peers[next(iter(self.peers))]
            self.peers[key] = Peer(session=ctx.session)
        return self.peers[key]

    def close(self) -> None:
        """End what belongs to this connection alone."""
        for key in {self.key, *self.peers}:
            self.conversations.end(key)


def is_modern(ctx: Context) -> bool:
    """Whether a request is of a protocol in which every request stands for itself."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_stateless(ctx: Context) -> bool:
    """Whether nothing but an argument can tell which conversation a request belongs to."""
    line: Line = ctx.lifespan_context
    return not line.key and is_modern(ctx)


def conversation_of(ctx: Context) -> str | None:
    """The key of the conversation that a request belongs to; None where only its arguments can tell."""
    line: Line = ctx.lifespan_context
    if line.key:
        return line.key
    if is_modern(ctx) or ctx.request is None:
        return None
    # Only requests whose id is that of an open session of the transport come here with one.
    return ctx.request.headers.get("mcp-session-id") or None


async def kit_of(ctx: Context) -> Kit | None:
    """What the conversation of a request has; None where only its arguments can tell which one that is."""
    key = conversation_of(ctx)
    if key is None:
        return None
    conversations: Conversations = ctx.lifespan_context.conversations
    try:
        return conversations.get(key)
    except SessionNotFound:
        return await anyio.to_thread.run_sync(conversations.of, key)
