"""Metrics of the server, for Prometheus and others."""

from __future__ import annotations

from fastapi import Response

from metier.serve.api.context import Context
from metier.serve.api.credentials import ObserverOf
from metier.serve.api.metrics import MEDIA_TYPE, metrics_lines
from metier.serve.api.routing import new_router

router = new_router(tag="health")


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    openapi_extra={"x-role": "viewer", "x-nodes": True, "x-anonymous": True},
    summary="Metrics of this process and of the tenant, as OpenMetrics",
)
def metrics(context: Context, scope: ObserverOf) -> Response:
    return Response("".join(f"{line}\n" for line in metrics_lines(context, scope)), media_type=MEDIA_TYPE)
