"""Telling clients that skills came, went or changed: on streams that they opened, or as the older protocols do."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

from metier._lazy import dataclass, logger
from metier.errors import MetierError
from metier.serve.mcp.connection import is_modern
from metier.serve.mcp.manifests import FILE, MAX_FILES
from metier.serve.mcp.uris import uri_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_types import NotificationParams

    from metier.library import Change
    from metier.library.watch import Watch
    from metier.serve.mcp.connection import ClientConnection, Context, Peer
    from metier.serve.mcp.conversations import Conversations

log = logger("metier.serve")

_SECONDS = 5.0
"""The time that a client may take to receive a notification before it is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNotice:
    """The notification of a change."""

    tools: bool = True
    uris: frozenset[str] = frozenset()
    """Files that have changed."""

    def and_then(self, later: ChangeNotice) -> ChangeNotice:
        """Join two notifications into one."""
        return ChangeNotice(tools=self.tools or later.tools, uris=self.uris | later.uris)


class ChangeNotifier:
    """Watches a library for as long as there is anybody to tell."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._lines: dict[int, tuple[ClientConnection, BlockingPortal]] = {}
        self._watch: Watch | None = None
        self._lock = threading.Lock()
        self._tools: object = None
        self._version = conversations.window.session.calls.rules_version

    @contextlib.asynccontextmanager
    async def told_to(self, line: ClientConnection) -> AsyncIterator[None]:
        """Tell the clients of a line of every change meanwhile."""
        async with BlockingPortal() as portal:
            with self._lock:
                self._lines[id(line)] = (line, portal)
            try:
                yield
            finally:
                with self._lock:
                    del self._lines[id(line)]
                    watch = None if self._lines else self._watch
                    if watch is not None:
                        self._watch = None
                line.listen.close()
                if watch is not None:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(watch.close)
                await portal.stop(cancel_remaining=True)

    def begin(self) -> None:
        """Look at the library, and watch it from now on."""
        with self._lock:
            if self._watch is None and self._lines:
                self._conversations.library.refresh()
                self._tools = self._shown_tools()
                self._watch = self._conversations.library.watch(self._changed)

    @property
    def are_watched(self) -> bool:
        """Whether it watches already."""
        return self._watch is not None

    @property
    def are_due(self) -> bool:
        """Whether what is blocked or allowed may have changed since the last look."""
        return self._version != self._conversations.window.session.calls.rules_version

    def look(self) -> None:
        """Tell everybody that what is blocked or allowed has changed."""
        self._version = self._conversations.window.session.calls.rules_version
        self._tell(ChangeNotice())

    def forget(self, key: str) -> None:
        """Tell the client of a conversation nothing more."""
        with self._lock:
            for line, _ in self._lines.values():
                line.peers.pop(key, None)

    def end_streams(self) -> None:
        """End the streams that clients opened to be told; called in the event loop that serves them."""
        for line, _ in list(self._lines.values()):
            line.listen.close()

    async def introduced(self, ctx: Context, params: NotificationParams | None) -> None:
        """A client of the handshake protocols is ready: it is told of changes without asking."""
        line: ClientConnection = ctx.lifespan_context
        if not is_modern(ctx):
            line.peer(ctx)

    def _changed(self, change: Change) -> None:
        uris: set[str] = set()
        for name in (*change.changed, *change.removed):
            uris.add(uri_of(name, FILE))
            with contextlib.suppress(MetierError):
                files = self._conversations.library.files(name).files
                uris.update(uri_of(name, file.path) for file in files[:MAX_FILES])
        tools, self._tools = self._tools, self._shown_tools()
        self._tell(ChangeNotice(tools=tools != self._tools, uris=frozenset(uris)))

    def _shown_tools(self) -> object:
        try:
            return tuple((tool.name, tool.description) for tool in self._conversations.window.tools)
        except MetierError:
            return None

    def _tell(self, news: ChangeNotice) -> None:
        with self._lock:
            lines = list(self._lines.values())
        for line, portal in lines:
            with contextlib.suppress(RuntimeError):  # it is closing this very moment
                portal.start_task_soon(_notify, line, news)


async def _notify(line: ClientConnection, news: ChangeNotice) -> None:
    if news.tools:
        await line.bus.publish(ToolsListChanged())
    for listed in (PromptsListChanged(), ResourcesListChanged()):
        await line.bus.publish(listed)
    for uri in sorted(news.uris):
        await line.bus.publish(ResourceUpdated(uri=uri))
    async with anyio.create_task_group() as tasks:
        for key, peer in list(line.peers.items()):
            peer.news = news if peer.news is None else peer.news.and_then(news)
            tasks.start_soon(_notify_peer, line, key, peer)


async def _notify_peer(line: ClientConnection, key: str, peer: Peer) -> None:
    """Tell a client all that there is; what comes while it is told something is told as one afterwards."""
    if peer.is_being_told:
        return
    peer.is_being_told = True
    try:
        while (news := peer.news) is not None:
            peer.news = None
            with anyio.fail_after(_SECONDS):
                await _sent(peer, news)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError) as error:
        log.debug("a client is gone: %s", type(error).__name__)
        line.peers.pop(key, None)
    finally:
        peer.is_being_told = False


async def _sent(peer: Peer, news: ChangeNotice) -> None:
    if news.tools:
        await peer.session.send_tool_list_changed()
    await peer.session.send_prompt_list_changed()
    await peer.session.send_resource_list_changed()
    for uri in sorted(news.uris & peer.subscriptions):
        await peer.session.send_resource_updated(uri)
