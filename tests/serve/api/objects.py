"""Objects of a tenant, one of each kind, for requests that name them."""

from __future__ import annotations

import re
from typing import Any

from tests.serve.api.conftest import Api

from metier.hub.registry.namespaces import put_namespace
from metier.hub.registry.publication import publish_release
from metier.store.nodes import Node

MARK = "zinnober"
"""A word that stands in every object of tenant "", so that an answer shows whether it tells of one."""


FILES: dict[str, tuple[Any, bytes]] = {
    "SKILL.md": ("file", f"---\nname: {MARK}\ndescription: Paints it red.\nversion: 1.0.0\n---\nPaint.\n".encode())
}


def make_objects(api: Api) -> dict[str, str]:
    """Make an object of each kind in tenant ""; returns for what stands before a parameter of a path its value."""
    scope, admin, guard = api.scope, api.person("admin"), api.context.guard("")
    namespace = f"{MARK}-paints"
    put_namespace(scope, admin, namespace, ["user:admin"])
    release = publish_release(scope, admin, namespace, FILES, guard=guard)
    scope.nodes.add(Node(id="node", name=f"{MARK}-laptop", person="admin"))
    return {
        "/api/v1/contents/": release.digest,
        "/api/v1/nodes/": "node",
    }


def fill(path: str, objects: dict[str, str]) -> str:
    """A path with objects in place of its parameters; raises KeyError where none is known for one."""
    filled, end = "", 0
    for found in re.finditer(r"\{\w+(:path)?\}", path):
        filled += path[end : found.start()] + objects[path[: found.start()]]
        end = found.end()
    return filled + path[end:]


def example(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """A value of a JSON Schema, as small as it may be."""
    if "$ref" in schema:
        return example(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return example(schema[key][0], document)
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: example(properties[name], document) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 0)
        return [example(one, document) for one in items]
    plain = {"integer": schema.get("minimum", 0), "number": 0, "boolean": True}
    return plain.get(schema.get("type", ""), _text(schema))


def _text(schema: dict[str, Any]) -> str:
    if "sha256:" in schema.get("pattern", ""):
        return "sha256:" + "0" * 64
    least: int = schema.get("minLength", 1)
    return "x" * max(1, least)
