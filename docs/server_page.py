"""The reference page of who may call which route of a server, from its OpenAPI document."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from metier.guard.approvals.roles import has_role
from metier.serve.api.app import create_app
from metier.serve.api.openapi import generate_openapi
from metier.store import Person, Store
from metier.store.people import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

_METHODS = ("get", "post", "put", "patch", "delete")
_CALLERS = ("nobody", "node", *ROLES, "admin of another tenant")
_INTRODUCTION = """\
# Who may call the server

<!-- Made from the code by `make docs`; edit the code instead. -->

`metier serve` knows its callers by their credential alone: a token in the header `Authorization`, or the session of a
browser. Each role includes those before it. A node is a machine that `metier login` has bound. Everything that a caller
sees and changes belongs to the tenant of their credential: to the admin of another tenant, what belongs to this one is
not there (`own` in the last column). A call without a valid credential is answered with 401, one that takes more than
the caller has with 403. What is behind a route may ask for more: policy says who grants which approvals, and a person
without the role admin ends only their own tokens.

Nobody reads the registry without a credential (`public`) unless `registry.anonymous` is set, as it is by default where
no other machine reaches the server; then they read that of the installation."""


def roles_page() -> str:
    """The page: a table for each kind of resource."""
    lines = [_INTRODUCTION]
    for tag, rows in _tables().items():
        lines += [f"\n## {tag[:1].upper()}{tag[1:]}\n"]
        lines += [f"| route | {' | '.join(_CALLERS)} |"]
        lines += ["|---|" + ":-:|" * len(_CALLERS), *rows]
    return "\n".join(lines) + "\n"


def _tables() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, method, operation in _operations():
        cells = [f"`{method.upper()} {path}`", *_cells(operation)]
        found.setdefault((operation.get("tags") or ["other"])[0], []).append(f"| {' | '.join(cells)} |")
    return found


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/metier.db") as store:
        document = generate_openapi(create_app(store))
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                yield path, method, operations[method]


def _cells(operation: dict[str, Any]) -> list[str]:
    role, nodes = operation.get("x-role"), operation.get("x-nodes", False)
    if role is None:
        return ["yes"] * len(_CALLERS)
    people = [has_role(Person(name=one, roles=frozenset({one})), role) for one in ROLES]
    anonymous = "public" if operation.get("x-anonymous") else "no"
    may = [role == "node" or nodes, *people]
    return [anonymous, *("yes" if one else "no" for one in may), "own" if people[-1] else "no"]
