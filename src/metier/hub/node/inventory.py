"""The inventory of a node: the skills and plugins of its clients, where they lie, and the digest of each skill."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from metier._json_object import parse_object, text_at
from metier._paths import open_plain
from metier.errors import MetierError
from metier.library import SkillIndex
from metier.library.clients import CLIENTS, client_of, in_home
from metier.library.places import default_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from metier.guard.node.connection import ServerConnection
    from metier.library import Entry

_PATH = "/api/v1/nodes/me/inventory"
_OWN = "metier"
"""The client of skills in our own folders, in shared ones and in installed packages."""
_MAX_TEXT, _MAX_SKILLS, _MAX_PLUGINS = 1_000, 2_000, 500
_MAX_FILE = 4 * 1024 * 1024
_PLUGINS = {"claude-code": "{claude}/plugins/installed_plugins.json"}
"""The lists in which clients note the plugins that they have installed."""


def build_inventory(start: Path | str | None = None) -> dict[str, Any]:
    """The skills and plugins of every client, for the user of this process and the project around `start`."""
    skills: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for entry in SkillIndex(default_places(start)[0]).entries(all=True):
        skills[_client_name(entry)].append(_skill(entry))
    plugins = {name: list(_installed_plugins(name)) for name in _PLUGINS}
    found = [
        {"client": name, "skills": skills[name][:_MAX_SKILLS], "plugins": plugins.get(name, [])[:_MAX_PLUGINS]}
        for name in (_OWN, *CLIENTS)
        if skills.get(name) or plugins.get(name)
    ]
    return {"clients": found}


def _client_name(entry: Entry) -> str:
    client = client_of(os.path.dirname(os.path.dirname(entry.location)))
    return client.name if client is not None else _OWN


def _skill(entry: Entry) -> dict[str, str]:
    try:
        digest = entry.package.digest()
    except MetierError:
        digest = ""  # it cannot be read; that it is there is worth knowing
    path = os.path.dirname(entry.location)
    return {"name": entry.name[:_MAX_TEXT], "path": path[:_MAX_TEXT], "digest": digest, "layer": entry.layer}


def _installed_plugins(client: str) -> Iterator[dict[str, str]]:
    try:
        with open_plain(in_home(_PLUGINS[client], os.path.expanduser("~"))) as file:
            listed = parse_object(file.read(_MAX_FILE + 1), most=_MAX_FILE).get("plugins")
    except (OSError, ValueError):
        return
    for name, installed in sorted(listed.items() if isinstance(listed, dict) else ()):
        for one in installed if isinstance(installed, list) else [installed]:
            version, path = text_at(one, "version"), text_at(one, "installPath")
            yield {"name": name[:_MAX_TEXT], "version": version[:200], "path": path[:_MAX_TEXT]}


class InventoryReport:
    """The inventory as the server has it: sent again where it is another one."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._sent: dict[str, Any] | None = None

    def send(self) -> bool:
        """Send the inventory; False where the server has it."""
        found = build_inventory()
        if found == self._sent:
            return False
        self._connection.request("PUT", _PATH, found)
        self._sent = found
        return True
