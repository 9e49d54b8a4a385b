"""The skills that a server deploys to this node: fetched by digest, verified, and put into their folder as a whole."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier.errors import IntegrityFailed, MetierError
from metier.guard.node.arriving import arriving, end_arrival
from metier.hub.folder_replacement import digest_at, remove_folder, replacing
from metier.hub.sources.tree import files_of_archive
from metier.library.places import node_skills_folder
from metier.skill.package import STAGING, digest_of_files
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from metier.guard.node.connection import ServerConnection
    from metier.guard.node.exchange import NodeExchange
    from metier.guard.node.state import DeployedSkill
    from metier.skill.package import Files

log = logger("metier.hub")

_SECONDS = 60.0
_bringing = threading.Lock()
"""Held while the folder is changed: one thread listens to the server, and another looks after the folder."""


def bring_skills(exchange: NodeExchange, *, again: bool = False) -> list[str]:
    """Bring the folder of deployed skills to what the server deploys; returns the problems of those that it cannot.

    Skills that seem to be there are read only `again`.
    """
    if exchange.state is None:
        return []
    wanted = {one.name: one for one in exchange.state.skills}
    folder = node_skills_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    there = {*os.listdir(folder)} - {STAGING}
    if not again and there == set(wanted) and not arriving():
        return []
    problems: list[str] = []
    with _bringing:
        for name in sorted({*there, *wanted}):
            try:
                _bring(exchange.connection, os.path.join(folder, name), wanted.get(name))
            except (MetierError, OSError) as error:
                problems.append(f"{name}: {error}")
                log.warning("a skill of the server could not be brought: %s: %s", name, error)
        if not problems:
            end_arrival()
    return problems


def _bring(connection: ServerConnection, folder: str, skill: DeployedSkill | None) -> None:
    there = _digest(folder)
    if skill is None:
        if there is not None:
            remove_folder(folder)
    elif there != skill.digest:
        files = _fetch(connection, skill)
        if there == "":
            remove_folder(folder)
            there = None
        with replacing(folder, files, over=there) as put:
            put()


def _digest(folder: str) -> str | None:
    """The digest of what lies in a folder; None where nothing does, and empty for what is no skill."""
    try:
        return digest_at(folder)
    except MetierError:
        return ""


def _fetch(connection: ServerConnection, skill: DeployedSkill) -> Files:
    answer = connection.request("GET", skill.archive, seconds=_SECONDS, headers={"Accept": "*/*"})
    files = files_of_archive(unpack(answer.body))
    if digest_of_files(files) != skill.digest:
        raise IntegrityFailed(
            f"The server gave another content for skill {skill.name!r} than the one that it deploys.",
            hint="Its administrators can publish and deploy it again.",
        )
    return files
