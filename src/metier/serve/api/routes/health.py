"""The health of the server, and its metrics for Prometheus and others."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import PlainTextResponse

from metier.serve.api.context import Context
from metier.serve.api.credentials import ObserverOf
from metier.serve.api.metrics import MEDIA_TYPE, metrics_lines
from metier.serve.api.routing import new_router

router = new_router(tag="health")


@router.get("/healthz", response_class=PlainTextResponse, summary="Whether the process answers")
def healthz() -> str:
    return "ok\n"


@router.get(
    "/readyz", response_class=PlainTextResponse, summary="Whether the store answers, so that requests can be served"
)
def readyz(context: Context) -> str:
    context.store.pool.execute("SELECT 1")
    return "ok\n"


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    openapi_extra={"x-role": "viewer", "x-nodes": True, "x-anonymous": True},
    summary="Metrics of this process and of the tenant, as OpenMetrics",
)
def metrics(context: Context, scope: ObserverOf) -> Response:
    return Response("".join(f"{line}\n" for line in metrics_lines(context, scope)), media_type=MEDIA_TYPE)
