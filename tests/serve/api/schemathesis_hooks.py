"""The credentials of Schemathesis, which loads this file: always valid ones, whatever it has revoked or removed."""

from __future__ import annotations

import re
import uuid
from typing import Any

import schemathesis
from schemathesis import AuthContext, Case

from metier.serve.api.idempotency import HEADER, KEY
from metier.store import Person, Store
from metier.store.nodes import Node

_NODE = "schemathesis-node"


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
                scope.nodes.add(Node(id=_NODE, name=_NODE, person="schemathesis"))
            return {name: scope.people.new_token(name)[1] for name in ("schemathesis", _NODE)}

    def set(self, case: Case[Any], data: dict[str, str], context: AuthContext) -> None:
        """Send the one that the route takes."""
        is_node = case.path.startswith("/api/v1/nodes/me/")
        headers: Any = case.headers
        if re.match(KEY, headers.get(HEADER, "")):
            # The same key again and again would have it refused before anything is looked at.
            headers[HEADER] = uuid.uuid4().hex
        headers["Authorization"] = f"Bearer {data[_NODE if is_node else 'schemathesis']}"
