"""Enforcement of `allowed-tools`: whether the field restricts calls, by the place that the skill comes from.

Other clients read the field as "approved in advance". In their folders it is advisory by default: a call outside of
the list is recorded as such and not refused. Everywhere else it is enforced. In neither case does it grant anything.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.guard.decision import Enforcement
from metier.library.places import LAYERS, copied_into
from metier.skill import shown
from metier.skill.names import glob_matches
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Origin
    from metier.guard.policy.effective import EffectivePolicy
    from metier.library import Place

SETTING = "tools.allowed-tools"
"""The key of policy files that decides about it."""


def enforcement_of(
    place: Place, effective: EffectivePolicy, program: Mapping[str, str], folder: str = ""
) -> Enforcement:
    """The enforcement in a place, or for the skill of a folder in it: the strictest of all entries that fit the place.

    A copy that `metier sync` made in another client's folder is no skill of that client.
    """
    fitting: list[tuple[str, str, Origin | None]] = []
    entries = [(pattern, one.text, one.origin) for pattern, one in effective.allowed_tools.items()]
    entries += [(pattern, word, None) for pattern, word in program.items()]
    for pattern, word, origin in entries:
        if word == "advisory":
            # The lists of enterprise skills are enforced unless administrators say otherwise themselves.
            counts = place.layer != "enterprise" or (origin is not None and origin.layer == "enterprise")
        else:
            counts = origin is None or effective.mode == "enforce"
        if counts and _fits(pattern, place):
            fitting.append((pattern, word, origin))
    if fitting:
        pattern, word, origin = max(fitting, key=lambda entry: entry[1] == "enforced")
        where = str(origin) if origin is not None else "the program's policy"
        because = f"{SETTING} says so for {shown(pattern)!r} ({where})"
        return Enforcement(word="advisory" if word == "advisory" else "enforced", because=because)
    if not place.client:
        return Enforcement(word="enforced", because=f"{SETTING} says nothing else")
    if folder and isinstance(place.source, FolderSource) and folder in copied_into(place.source.root):
        return Enforcement(word="enforced", because="it is a copy that `metier sync` made of a skill from elsewhere")
    because = f"its folder belongs to {place.client}, and {SETTING} says nothing else"
    return Enforcement(word="advisory", because=because)


def _fits(pattern: str, place: Place) -> bool:
    """Whether a pattern matches a place: its layer, the name of its source, or a folder where it has a slash."""
    if pattern in LAYERS:
        return place.layer == pattern
    if "/" not in pattern:
        return glob_matches(pattern, place.name or place.source.name)
    if not isinstance(place.source, FolderSource):
        return False
    root = os.path.abspath(place.source.root).replace(os.sep, "/")
    wanted = os.path.expanduser(pattern).replace(os.sep, "/").rstrip("/")
    return glob_matches(wanted if wanted.startswith("/") else f"*/{wanted}", root)
