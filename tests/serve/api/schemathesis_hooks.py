"""The hooks of Schemathesis: credentials that are always valid, whatever it has revoked, and objects that exist."""

from __future__ import annotations

import itertools
import json
import os
import re
import uuid
from typing import Any

import schemathesis
from schemathesis import AuthContext, Case, HookContext

from metier.serve.api.idempotency import HEADER, KEY
from metier.store import Person, Store
from metier.store.nodes import ManagedNode

OBJECTS = "METIER_TEST_OBJECTS"
"""The variable with objects in JSON, by what stands before them in paths."""
_NODE = "schemathesis-node"
_CONTENTS = "/api/v1/contents/"
_numbers = itertools.count()


@schemathesis.auth(refresh_interval=2)
class Credentials:
    """An admin, and for its own routes a node, each of which is made again where it is gone."""

    def get(self, case: Case[Any], context: AuthContext) -> dict[str, str]:
        """New tokens of both."""
        with Store.open() as store:
            scope = store.of()
            scope.people.add(Person(name="schemathesis", roles=frozenset({"admin"})))
            scope.people.add(Person(name=_NODE, kind="node"))
            if scope.nodes.get(_NODE) is None:
                scope.nodes.add(ManagedNode(id=_NODE, name=_NODE, person="schemathesis"))
            return {name: scope.people.new_token(name)[1] for name in ("schemathesis", _NODE)}

    def set(self, case: Case[Any], data: dict[str, str], context: AuthContext) -> None:
        """Send the one that the route takes."""
        is_node = case.path.startswith("/api/v1/nodes/me/")
        headers: Any = case.headers
        if re.match(KEY, headers.get(HEADER, "")):
            # The same key again and again would have it refused before anything is looked at.
            headers[HEADER] = uuid.uuid4().hex
        headers["Authorization"] = f"Bearer {data[_NODE if is_node else 'schemathesis']}"


@schemathesis.hook
def map_path_parameters(context: HookContext, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every second time, name what exists."""
    if path_parameters is None or next(_numbers) % 2:
        return path_parameters
    path = context.operation.path if context.operation is not None else ""
    known = {name: _objects().get(path.partition(f"{{{name}}}")[0]) for name in path_parameters}
    return {name: known[name] or value for name, value in path_parameters.items()}


@schemathesis.hook
def map_body(context: HookContext, body: Any) -> Any:
    """Every second time, name a content that exists."""
    if isinstance(body, dict) and "digest" in body and next(_numbers) % 2:
        return {**body, "digest": _objects()[_CONTENTS]}
    return body


@schemathesis.serializer("application/gzip")
def to_gzip(context: Any, value: Any) -> bytes:
    """Any bytes: hardly any of them are an archive."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def _objects() -> dict[str, str]:
    found: dict[str, str] = json.loads(os.environ[OBJECTS])
    return found
