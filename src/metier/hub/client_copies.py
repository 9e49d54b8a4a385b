"""Copies of installed skills in the folders of other clients, one folder for all clients that share it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._paths import is_inside
from metier.errors import InvalidArgument
from metier.hub.sync import sync_to
from metier.library.clients import CLIENTS, in_home
from metier.library.places import copied_into, home_folder, project_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metier.hub.sync import Synced
    from metier.library import SkillLookup
    from metier.library.clients import Client
    from metier.library.places import Layer


def present_clients(layer: Layer) -> list[Client]:
    """The clients that the user has, by the folders that they keep their settings in."""
    home = home_folder()
    if home is None:
        return []
    return [
        client
        for client in CLIENTS.values()
        if _folder_of(client, layer)
        and any(
            os.path.isdir(os.path.dirname(in_home(path, home)))
            for path in client.own_folders
            if path in client.personal
        )
    ]


def named_clients(names: Iterable[str], layer: Layer) -> list[Client]:
    """Clients by their names; `all` are those that the user has."""
    found: dict[str, Client] = {}
    for name in names:
        if name == "all":
            found |= {client.name: client for client in present_clients(layer)}
        elif name not in CLIENTS or not CLIENTS[name].personal:
            known = ", ".join(one.name for one in CLIENTS.values() if one.personal)
            raise InvalidArgument(f"{name!r} is no client with a folder of skills.", hint=f"There are {known}, or all.")
        else:
            found[name] = CLIENTS[name]
    return list(found.values())


def copy_to_clients(
    library: SkillLookup, clients: Sequence[Client], names: Sequence[str], *, layer: Layer, accept_findings: str = ""
) -> list[Synced]:
    """Write skills into the folders of clients that read nothing but disk, and renew the copies that others have."""
    chosen = {_folder_of(client, layer) for client in clients}
    copied = {
        folder: [name for name in names if folder in chosen or name in copied_into(folder)]
        for folder in _every_folder(layer)
    }
    return [
        sync_to(library, folder, only=there, accept_findings=accept_findings)
        for folder, there in copied.items()
        if there
    ]


def remove_copies(location: str, name: str, *, layer: Layer) -> list[str]:
    """Remove the copies that clients have of a skill that is removed; the folders that one was removed from.

    A copy that somebody changed stays.
    """
    from metier.hub.target_folder import TargetFolder

    done = []
    for target in (TargetFolder(folder) for folder in _every_folder(layer) if name in copied_into(folder)):
        with target.locked():
            copy, there = target.record.copies.get(name), target.digest(name)
            if copy is not None and is_inside(copy.origin, location) and there in (None, *copy.written):
                if there is not None:
                    target.remove(name, there)
                target.record.settle(name, None)
                done.append(target.path)
    return done


def _every_folder(layer: Layer) -> list[str]:
    return list(filter(None, dict.fromkeys(_folder_of(client, layer) for client in CLIENTS.values())))


def _folder_of(client: Client, layer: Layer) -> str:
    """The folder that skills are written to for a client; empty where it has none."""
    from pathlib import Path

    if layer == "project":
        return str(project_root(Path.cwd()) / client.project[0]) if client.project else ""
    return in_home(client.personal[0], home_folder() or os.sep) if client.personal else ""
