"""Routers whose routes an application takes as they are, made when their module is imported.

FastAPI makes the routes of an included router anew at the first request, in whose thread it mutes warnings for all.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute


def operation_id(route: APIRoute) -> str:
    """The name by which generated clients call a route's function."""
    return "_".join((*(str(tag).replace("-", "_") for tag in route.tags[:1]), route.name))


def new_router(*, tag: str, prefix: str = "") -> APIRouter:
    """A router whose routes are of one kind."""
    return APIRouter(prefix=prefix, tags=[tag], generate_unique_id_function=operation_id)


def add_routes(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Add the routes of routers to an app."""
    for router in routers:
        app.router.routes.extend(router.routes)
