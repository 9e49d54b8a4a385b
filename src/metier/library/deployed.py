"""The folders of administrators: whether a skill was deployed or withdrawn since they were looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.skill.folder import Identity
from metier.source.folder import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.library.layers import Place
    from metier.library.shelf import Shelf

_MOST = 16
"""Folders of one place that are looked at between two decisions; a refresh looks at all."""


class DeployedFolders:
    """The folders that skills of the enterprise layer lie in, as they were when they were last looked through.

    A deployment puts a folder in its place in one step, which shows in the time stamps of the folder around it: a
    `stat` of each says that nothing was deployed.
    """

    def __init__(self, shelves: Iterable[tuple[Place, Shelf]], begun_ns: int) -> None:
        """`shelves` are what was found, and `begun_ns` is when the look at them began."""
        paths: dict[str, None] = {}
        for place, shelf in shelves:
            if place.layer == "enterprise" and isinstance(place.source, FolderSource):
                paths |= dict.fromkeys((place.source.root, *shelf.folders[:_MOST]))
        self._seen = [(path, _identity(path)) for path in paths]
        # What changed since then, or a moment before, may have been missed.
        self._is_settled = all(one is None or one.is_settled(begun_ns) for _, one in self._seen)

    def are_changed(self) -> bool:
        """Whether something may have been deployed or withdrawn."""
        return not self._is_settled or any(_identity(path) != one for path, one in self._seen)


def _identity(path: str) -> Identity | None:
    try:
        return Identity.of(os.stat(path))
    except OSError:
        return None
