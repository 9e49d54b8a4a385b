"""The OpenAPI document: generated from the routes, with problems under their own media type."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from metier._version import __version__
from metier.serve.api.idempotency import HEADER, KEY, UNSAFE
from metier.serve.api.problems import MEDIA_TYPE, Problem

PATH = "/api/v1/openapi.json"
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_IDEMPOTENCY_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": KEY},
    "description": "A request that is sent again with the same key is done once, and answered again, for 24 hours.",
}
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})
# What every request may be answered with, before its route is reached or because of its size.
_ALWAYS = {
    "400": "Bad Request",
    "413": "Content Too Large",
    "421": "Misdirected Request",
    "429": "Too Many Requests",
    "431": "Request Header Fields Too Large",
    "500": "Internal Server Error",
    "503": "Service Unavailable",
}


def generate_openapi(app: FastAPI) -> dict[str, Any]:
    """The document of an app, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Métier",
            version=__version__,
            summary="Skills for any agent, and control over what they may do.",
            openapi_version="3.1.0",
            routes=app.routes,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in document["paths"].values():
            for method, operation in path.items():
                if method in _METHODS:
                    if method.upper() in UNSAFE:
                        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
                        operation["responses"].setdefault("409", {"description": "Conflict"})
                    _describe_problems(operation)
        app.openapi_schema = document
    return app.openapi_schema


def _describe_problems(operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    always = dict(_ALWAYS)
    if operation.get("parameters") or operation.get("requestBody"):
        always["422"] = "Unprocessable Content"
    if operation.get("requestBody"):
        always["415"] = "Unsupported Media Type"
    if "x-role" in operation:
        always |= {"401": "Unauthorized", "403": "Forbidden"}
    if operation.get("x-anonymous"):
        # Or none at all, where the settings say so.
        operation["security"] = [*operation.get("security", []), {}]
    for status, text in always.items():
        answers.setdefault(status, {"description": text})
    for status, answer in answers.items():
        if status >= "400":
            answer["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
