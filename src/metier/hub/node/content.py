"""The skills that a server deploys to this node: fetched by digest, verified, and put into their folder as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._json_object import parse_object
from metier._lazy import logger
from metier._paths import write_file
from metier.errors import IntegrityFailed, MetierError
from metier.hub.folder_replacement import digest_at, remove_folder, replacing
from metier.hub.sources.tree import files_of_archive
from metier.library.places import node_folder, node_skills_folder
from metier.skill.package import STAGING, digest_of_files
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.guard.node.connection import Connection
    from metier.guard.node.state import DeployedSkill
    from metier.skill.package import Files

log = logger("metier.hub")

_SECONDS = 60.0
_ARRIVING = "arriving.json"
_MAX_LIST = 8 * 1024 * 1024


def announce(before: Iterable[DeployedSkill], after: Iterable[DeployedSkill]) -> None:
    """Write down what each folder may have until the skills are brought, so that nobody takes it for tampering."""
    earlier = {one.location: {one.digest, *_announced().get(one.location, ())} for one in before}
    found = {one.location: sorted({one.digest, *earlier.get(one.location, ())}) for one in after}
    changing = {location: digests for location, digests in found.items() if len(digests) > 1}
    _write_announced(changing)


def is_lacking(skills: Iterable[DeployedSkill]) -> bool:
    """Whether something is to be brought, as far as names tell; what was changed in a folder takes reading it."""
    try:
        there = {*os.listdir(node_skills_folder())} - {STAGING}
    except OSError:
        there = set()
    return bool(_announced()) or there != {one.name for one in skills}


def bring_skills(connection: Connection, skills: Iterable[DeployedSkill]) -> list[str]:
    """Bring the folder of deployed skills to what the server deploys; returns the problems of those that it cannot."""
    wanted = {one.name: one for one in skills}
    folder = node_skills_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    problems: list[str] = []
    for name in sorted({*os.listdir(folder), *wanted} - {STAGING}):
        try:
            _bring(connection, os.path.join(folder, name), wanted.get(name))
        except MetierError as error:
            problems.append(f"{name}: {error}")
            log.warning("a skill of the server could not be brought: %s: %s", name, error)
    if not problems:
        _write_announced({})
    return problems


def _bring(connection: Connection, folder: str, skill: DeployedSkill | None) -> None:
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


def _fetch(connection: Connection, skill: DeployedSkill) -> Files:
    answer = connection.request("GET", skill.archive, seconds=_SECONDS, headers={"Accept": "*/*"})
    files = files_of_archive(unpack(answer.body))
    if digest_of_files(files) != skill.digest:
        raise IntegrityFailed(
            f"The server gave another content for skill {skill.name!r} than the one that it deploys.",
            hint="Its administrators can publish and deploy it again.",
        )
    return files


def _announced() -> dict[str, list[str]]:
    try:
        with open(os.path.join(node_folder(), _ARRIVING), "rb") as file:
            return parse_object(file.read(_MAX_LIST + 1), most=_MAX_LIST)
    except (OSError, ValueError):
        return {}


def _write_announced(found: Mapping[str, list[str]]) -> None:
    import json

    write_file(os.path.join(node_folder(), _ARRIVING), json.dumps(found).encode(), exact_mode=0o600)
