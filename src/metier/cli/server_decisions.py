"""Decisions of people on a node: they are taken at its server, by the one whose token of the server is given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier.cli.identity import TOKEN
from metier.errors import NotPermitted

if TYPE_CHECKING:
    from collections.abc import Mapping


def decides_at_server() -> bool:
    """Tell whether this machine is a node, where nobody decides but its server."""
    from metier.library.places import is_node

    return is_node()


def speaks_to_server() -> bool:
    """Tell whether this machine is a node, and the token of one of the server's people is given."""
    return decides_at_server() and bool(os.environ.get(TOKEN))


def require_own_skill(location: str) -> None:
    """Raise `NotPermitted` for a skill that the server deploys, about which nobody decides here."""
    from metier._paths import is_inside
    from metier.library.places import node_skills_folder

    if decides_at_server() and is_inside(location, node_skills_folder()):
        raise _elsewhere("its server")


def decide_at_server(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a decision to the server of this node; raises `NotPermitted` without a token of it."""
    from metier.guard.node.binding import require_binding
    from metier.guard.node.connection import ServerConnection

    url, secret = require_binding().url, os.environ.get(TOKEN, "")
    if not secret:
        raise _elsewhere(url)
    return ServerConnection(url, secret).request("POST", f"/api/v1{path}", dict(body)).json


def _elsewhere(url: str) -> NotPermitted:
    return NotPermitted(
        f"This machine is a node of {url}: what is decided here counts for nobody.",
        hint=f"Decide it at the server, or set {TOKEN} to a token of yours there.",
    )
