"""Enrolment: a machine becomes a node of a server, and stops being one."""

from __future__ import annotations

import os
import platform

from metier._json_object import text_at
from metier._paths import safe_rmtree
from metier.errors import InvalidArgument, MetierError, ServerUnreachable
from metier.guard.node.binding import Binding, read_binding, remove_binding, write_binding
from metier.guard.node.connection import ServerConnection, checked_url
from metier.guard.node.exchange import NodeExchange
from metier.library.places import node_skills_folder


def enrol(url: str, secret: str, name: str = "") -> NodeExchange:
    """Make this machine a node of the server at an address, for the person whose token this is."""
    _require_free()
    connection = ServerConnection(checked_url(url), secret)
    wanted = {"name": name or platform.node() or "node", "platform": f"{platform.system()} {platform.machine()}"}
    found = connection.request("POST", "/api/v1/nodes", wanted).json
    token, binding = text_at(found, "token"), _binding_of(found, connection.url)
    if not (token and binding.node and binding.key_id):
        raise ServerUnreachable("The answer is not that of a server of ours.", hint="Check the address.")
    binding.key()
    exchange = NodeExchange(binding, token)
    write_binding(binding, token)
    try:
        exchange.renew()
    except MetierError:
        # Without a state nothing would be allowed; who wants to be a node tries again.
        remove_binding()
        raise
    return exchange


def _binding_of(found: object, url: str) -> Binding:
    return Binding(
        url=url,
        node=text_at(found, "id"),
        name=text_at(found, "name"),
        tenant=text_at(found, "tenant"),
        key_id=text_at(found, "server", "key_id"),
        public_key=text_at(found, "server", "public_key"),
    )


def _require_free() -> None:
    try:
        bound = read_binding()
    except MetierError:
        return  # what cannot be read is made anew
    if bound is not None:
        hint = "`metier node status` says more about it; `metier logout` ends that."
        raise InvalidArgument(f"This machine is a node of {bound.url} already.", hint=hint)


def leave(secret: str = "") -> bool:
    """Let this machine be no node any more; whether the server was told, which takes a person's token."""
    is_told = False
    binding = read_binding()
    if binding is not None and secret:
        ServerConnection(binding.url, secret).request("DELETE", f"/api/v1/nodes/{binding.node}")
        is_told = True
    remove_binding()
    if os.path.isdir(node_skills_folder()):
        safe_rmtree(node_skills_folder())
    return is_told
