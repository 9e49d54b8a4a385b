"""The server: four faces of one library, over pipes and over HTTP."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, NotificationParams, PaginatedRequestParams
from pydantic import ValidationError

from metier._lazy import logger
from metier._version import __version__
from metier.dialect import Skills
from metier.errors import MetierError
from metier.hints import for_model
from metier.serve.mcp.change_notifications import ChangeNotifier
from metier.serve.mcp.connection import ClientConnection
from metier.serve.mcp.conversations import Conversations
from metier.serve.mcp.elicitation import Questions
from metier.serve.mcp.prompts import Prompts
from metier.serve.mcp.resources import EXTENSION, ByUri, FolderParams, Resources
from metier.serve.mcp.tools import ServedTools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.models import InitializationOptions
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
    from starlette.applications import Starlette

    from metier import Library
    from metier.dialect import Dialect, DialectName
    from metier.dialect.skills import Where
    from metier.guard import AuditLog, Guard, Policy
    from metier.guard.question import Approve
    from metier.serve.mcp.connection import Context
    from metier.serve.mcp.http_limits import HttpLimits

log = logger("metier.serve")

NAME = "metier"
_INTRODUCTIONS = frozenset(["initialize", "server/discover"])
"""The requests that are answered with the instructions of this moment."""
_GREETINGS = _INTRODUCTIONS | {"ping"}
"""The requests that are answered before the library is watched, so that a client does not wait for that."""


class SkillServer:
    """Skills for every client of the Model Context Protocol: as an extension, as tools, as prompts, as instructions.

    `await SkillServer("skills").run_stdio()` serves the program that started this one; `run_http` serves others.
    `protocol` is the server of the `mcp` package, for `mcp.Client` in the same process.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> import anyio, mcp
    >>> async def main() -> list[str]:
    ...     async with mcp.Client(SkillServer(library).protocol) as client:
    ...         return [tool.name for tool in (await client.list_tools()).tools]
    >>> anyio.run(main)
    ['skills_load', 'skills_unload', 'skills_read', 'skills_run', 'skills_search']
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        dialect: DialectName | Dialect = "runtime",
        builtin: Sequence[str] = (),
        policy: Policy | None = None,
        guard: Guard | None = None,
        audit: AuditLog | str | None = None,
        approve: Approve | None = None,
        **options: Any,
    ) -> None:
        """Serve a library or folders, by default all that `Library.discover` finds; options are those of `Skills`."""
        skills = Skills(library, dialect=dialect, policy=policy, guard=guard, audit=audit, approve=approve)
        self._conversations = Conversations(skills, builtin=builtin, **options)
        self._changes = ChangeNotifier(self._conversations)
        self._questions = Questions()
        self.protocol: Server[ClientConnection] = self._make_server(self._connection)

    @property
    def library(self) -> Library:
        """The library that it serves."""
        return self._conversations.library

    @property
    def guard(self) -> Guard:
        """The guard that decides about it."""
        return self._conversations.guard

    def instructions(self) -> str:
        """The instructions for a new client: how to load skills, and which there are."""
        return self._conversations.window.instructions()

    async def run_stdio(self) -> None:
        """Serve the program at the other end of standard input and output until it closes them."""
        from metier.serve.mcp.stdio import client_streams

        async with client_streams() as (read, write):
            await self.protocol.run(read, write, self.protocol.create_initialization_options())

    def http_app(self, *, token: str | None = None, allowed_hosts: Sequence[str] | None = None) -> Starlette:
        """An app that serves `/mcp`: both protocol generations, to requests for this machine or `allowed_hosts`.

        With `token`, every request must have it: `Authorization: Bearer TOKEN`.
        """
        return self._app(token=token, allowed_hosts=allowed_hosts)

    def mounted_app(self) -> Starlette:
        """The same as a part of another app, which looks at who asks and for what host."""
        return self._app(token=None, allowed_hosts=None, admits=False)

    def _app(self, *, token: str | None, allowed_hosts: Sequence[str] | None, admits: bool = True) -> Starlette:
        from metier.serve.mcp.http import app_of

        return app_of(
            self._make_server(self._line),
            token=token,
            allowed_hosts=allowed_hosts,
            on_end=self._ended,
            is_over=self._conversations.is_over,
            admits=admits,
        )

    async def run_http(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        allowed_hosts: Sequence[str] | None = None,
        on_ready: Callable[[str], object] | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """Serve `http_app` until cancelled or told to stop by a signal; `on_ready` is told the URL.

        Port 0 is any that is free. What other machines reach needs a token; without one, every user of this machine may
        use it. `limits` are those of its connections.
        """
        from metier.serve.mcp.http import serve

        await serve(self, host, port, token=token, allowed_hosts=allowed_hosts, on_ready=on_ready, limits=limits)

    def end_streams(self) -> None:
        """End the streams on which clients are told of changes, as a server does that is about to stop."""
        self._changes.end_streams()

    def close(self) -> None:
        """End every conversation."""
        self._conversations.close()

    def _ended(self, key: str) -> None:
        self._changes.forget(key)
        self._conversations.end(key)

    def _make_server(
        self, lifespan: Callable[[Server[ClientConnection]], AbstractAsyncContextManager[ClientConnection]]
    ) -> Server[ClientConnection]:
        conversations, questions = self._conversations, self._questions
        tools = ServedTools(conversations, questions)
        prompts = Prompts(conversations, questions)
        resources = Resources(conversations, questions)
        server = _Server(
            NAME,
            version=__version__,
            title="Métier",
            lifespan=lifespan,
            # No argument of a tool is sent in a header as well, so there is nothing to compare.
            get_tool_input_schema=lambda name: None,
            on_list_tools=tools.list,
            on_call_tool=tools.call,
            on_list_prompts=prompts.list,
            on_get_prompt=prompts.get,
            on_list_resources=resources.list,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_subscribe_resource=resources.subscribe,
            on_unsubscribe_resource=resources.unsubscribe,
            on_subscriptions_listen=_listen,
        )
        server.extensions[EXTENSION] = {"directoryRead": True}
        server.add_request_handler("skills/list", PaginatedRequestParams, resources.list_skills)
        server.add_request_handler("skills/get", ByUri, resources.get_skill)
        server.add_request_handler("resources/directory/read", FolderParams, resources.read_folder)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._changes.introduced)
        server.middleware.append(self._explained)
        return server

    def _connection(self, server: Server[ClientConnection]) -> AbstractAsyncContextManager[ClientConnection]:
        """A line that is one conversation."""
        return self._line(server, secrets.token_urlsafe(24))

    @contextlib.asynccontextmanager
    async def _line(self, server: Server[ClientConnection], key: str = "") -> AsyncIterator[ClientConnection]:
        bus = InMemorySubscriptionBus()
        line = ClientConnection(conversations=self._conversations, bus=bus, listen=ListenHandler(bus), key=key)
        try:
            async with self._changes.told_to(line):
                yield line
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(line.close)

    async def _explained(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer what goes wrong by what happened and what to do, and never by what this program looks like inside."""
        if self._changes.are_due:
            await anyio.to_thread.run_sync(self._changes.look)
        if ctx.method not in _GREETINGS and not self._changes.are_watched:
            await anyio.to_thread.run_sync(self._changes.begin)
        try:
            result = await call_next(ctx)
            if ctx.method in _INTRODUCTIONS and isinstance(result, dict):
                # In a thread: the first time, all skills are looked through.
                about = await anyio.to_thread.run_sync(self.instructions)
                return {**result, "instructions": about} if about else result
            return result
        except (MCPError, ValidationError):
            raise
        except MetierError as error:
            hint = for_model(error.hint, self._conversations.dialect.words.tools)
            raise MCPError(
                INVALID_PARAMS,
                f"{error.message} {hint}".strip(),
                data={"code": error.code, "message": error.message, "hint": hint},
            ) from None
        except Exception as error:
            log.exception("a request failed: %s", ctx.method)
            raise MCPError(INTERNAL_ERROR, f"The server failed: {type(error).__name__}.") from None


class _Server(Server[ClientConnection]):
    """A server that tells clients of every generation about changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)


async def _listen(ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
    line: ClientConnection = ctx.lifespan_context
    with line.listening(params.notifications.resource_subscriptions or ()):
        return await line.listen(ctx, params)
