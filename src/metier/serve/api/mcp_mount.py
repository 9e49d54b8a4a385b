"""`/mcp`: the deployed skills of a tenant for MCP clients, with a server for each person who asks.

The package `mcp` takes a second to import: so that happens at the first request. Scripts would run on this machine, and
so they do not, unless the settings say so.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from fastapi import Request

from metier import Library
from metier._lazy import dataclass, field, logger
from metier.guard import Guard, Policy
from metier.guard.approvals.roles import has_role
from metier.serve.api.context import ServerContext
from metier.serve.api.credentials import ApiCaller, bearer_of
from metier.serve.api.problems import problem
from metier.serve.http_server import Answered

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from metier.serve.mcp import SkillServer

log = logger("metier.serve")

PATH = "/mcp"
_MAX_SERVERS = 500
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """The server of one person."""

    server: SkillServer
    app: Starlette
    over: anyio.Event = field(default_factory=anyio.Event)


class McpMount:
    """The application behind `/mcp`."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._servers: OrderedDict[object, _Served] = OrderedDict()
        self._tasks: TaskGroup | None = None
        self._making = anyio.Lock()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve meanwhile; afterwards all conversations end."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a person who is known by a token."""
        request = Request(scope, receive)
        caller = await anyio.to_thread.run_sync(self._caller, request)
        if caller is None:
            refusal = problem(
                401,
                "unauthorized",
                "No valid token came with the request.",
                hint="Send the header `Authorization: Bearer TOKEN`.",
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        request.state.caller = caller
        if not has_role(caller.person, "viewer"):
            await problem(403, "not-permitted", "This takes the role viewer.")(scope, receive, send)
            return
        served = await self._served(caller)
        if scope["method"] == "GET":
            await self._stream(request, served.app, send)
        else:
            await served.app(scope, receive, send)

    def _caller(self, request: Request) -> ApiCaller | None:
        # By the header alone: what a browser sends by itself may come from somebody else's page.
        found = self._context.store.by_token(bearer_of(request))
        return None if found is None else ApiCaller(scope=found[0], person=found[1])

    async def _stream(self, request: Request, app: ASGIApp, send: Send) -> None:
        """Pass on a stream of notices, which ends with the server and with the token."""
        answered = Answered(send)
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while not self._context.stopping.is_set():
                    await anyio.sleep(_LOOK_SECONDS)
                    if await anyio.to_thread.run_sync(self._caller, request) is None:
                        break
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await app(request.scope, request.receive, answered)
            tasks.cancel_scope.cancel()
        if answered.status and not answered.is_whole:
            await answered({"type": "http.response.body", "body": b"", "more_body": False})

    async def _served(self, caller: ApiCaller) -> _Served:
        from metier.hub.registry.library import deployed_namespaces

        namespaces = await anyio.to_thread.run_sync(deployed_namespaces, caller.scope)
        key = (caller.scope.tenant, caller.person.name, namespaces)
        async with self._making:
            found = self._servers.get(key)
            if found is None:
                found = await anyio.to_thread.run_sync(self._make, caller)
                if self._tasks is None:
                    raise RuntimeError("the lifespan of the app has not begun, or is over")
                await self._tasks.start(self._run, found)
                self._servers[key] = found
            self._servers.move_to_end(key)
            while len(self._servers) > _MAX_SERVERS:
                self._servers.popitem(last=False)[1].over.set()
        # What was deployed by another process is there with the next request.
        await anyio.to_thread.run_sync(found.server.library.refresh)
        return found

    def _make(self, caller: ApiCaller) -> _Served:
        from metier.hub.registry.library import deployed_places
        from metier.serve.mcp import SkillServer

        tenant, person = caller.scope.tenant, caller.person
        agent = person.name if person.kind == "agent" else None
        server = SkillServer(
            Library(deployed_places(caller.scope), cache=False).as_caller(agent=agent, tenant=tenant or None),
            guard=Guard(
                Policy(scripts=self._context.settings.mcp.scripts), governance=self._context.governance(tenant)
            ),
            user=person.name,
        )
        return _Served(server=server, app=server.mounted_app())

    @staticmethod
    async def _run(served: _Served, *, task_status: TaskStatus[None]) -> None:
        try:
            async with served.app.router.lifespan_context(served.app):
                task_status.started()
                await served.over.wait()
        except Exception:
            # What goes wrong in the server of one person is not the end of the others.
            log.exception("a server for MCP clients failed")
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(served.server.close)
