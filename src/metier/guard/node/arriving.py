"""The contents that are on their way into the folder of deployed skills: what each folder may have meanwhile.

A new state counts before the contents that it names are there. Until they are, nobody may take what was there before
for something that somebody changed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from metier._json_object import parse_object
from metier._paths import open_own, write_file
from metier.library.places import node_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard.node.state import DeployedSkill

ARRIVING = "arriving.json"
_MAX_BYTES = 8 * 1024 * 1024


def announce(before: Iterable[DeployedSkill], after: Iterable[DeployedSkill]) -> None:
    """Note what each folder may have until the skills of a new state are brought."""
    known = arriving()
    earlier = {one.location: {one.digest, *known.get(one.location, ())} for one in before}
    found = {one.location: sorted({one.digest, *earlier.get(one.location, ())}) for one in after}
    _write({location: digests for location, digests in found.items() if len(digests) > 1})


def arriving() -> dict[str, list[str]]:
    """The digests that a folder may have, by its path; empty once everything is there."""
    try:
        with open_own(os.path.join(node_folder(), ARRIVING)) as file:
            found = parse_object(file.read(_MAX_BYTES + 1), most=_MAX_BYTES)
    except (OSError, ValueError):
        return {}
    return {location: digests for location, digests in found.items() if isinstance(digests, list)}


def end_arrival() -> None:
    """Note that everything is there."""
    if arriving():
        _write({})


def _write(found: dict[str, list[str]]) -> None:
    write_file(os.path.join(node_folder(), ARRIVING), json.dumps(found).encode(), exact_mode=0o600)
