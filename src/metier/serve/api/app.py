"""The ASGI application of a server: its routes, behind what every request has to pass."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import Route

from metier._version import __version__
from metier.serve.api import openapi
from metier.serve.api.checkpoints import CheckpointWorker
from metier.serve.api.context import ServerContext
from metier.serve.api.entrance import Entrance
from metier.serve.api.idempotency import Idempotency
from metier.serve.api.limits import RequestLimits
from metier.serve.api.mcp_mount import PATH as MCP_PATH
from metier.serve.api.mcp_mount import McpMount
from metier.serve.api.metrics import MeasuredRequests
from metier.serve.api.notices.deliveries import DeliveryWorker
from metier.serve.api.pages import conditional
from metier.serve.api.problems import answer_problems
from metier.serve.api.routes import ROUTERS
from metier.serve.api.routing import add_routes
from metier.serve.api.settings import ServerSettings
from metier.store import Store


def create_app(store: Store, settings: ServerSettings | None = None) -> FastAPI:
    """The application over a store."""
    settings = settings or ServerSettings()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        workers = DeliveryWorker(context), CheckpointWorker(context)
        for worker in workers:
            worker.start()
        async with mcp.running():
            yield
        for worker in workers:
            await anyio.to_thread.run_sync(worker.stop)
        store.close()

    app = FastAPI(
        title="Métier",
        version=__version__,
        # Pages that load scripts from elsewhere have no place here; the console follows.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    app.state.context = context = ServerContext(store, settings)
    mcp = McpMount(context)
    app.router.routes.append(Route(MCP_PATH, mcp, include_in_schema=False))
    answer_problems(app)
    # The last that is added comes first.
    app.add_middleware(Idempotency, store=store, settings=settings)
    app.add_middleware(RequestLimits, limits=settings.limits, by_token=store.by_token)
    app.add_middleware(MeasuredRequests, metrics=context.metrics)
    app.add_middleware(Entrance, has_tls=settings.is_secure)
    add_routes(app, ROUTERS)

    @app.get(openapi.PATH, include_in_schema=False)
    def document(request: Request) -> Any:
        return conditional(request, JSONResponse(openapi.generate_openapi(app)))

    return app
