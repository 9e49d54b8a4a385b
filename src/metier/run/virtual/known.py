"""Folders that are only read: looked through once, and again only when something in them has changed."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING

from metier.run.virtual.disk import survey

if TYPE_CHECKING:
    from metier.run.virtual.disk import Survey
    from metier.run.virtual.limits import ShellLimits

_MOST = 64
_TICK_NS = 100_000_000
"""A file that was changed this short a time ago may be changed again without a sign: the clocks of files are coarse."""


class KnownFolders:
    """What is in folders, with a key that is the same for the same folder in the same state."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Survey, str, ShellLimits]] = {}

    def look(self, folder: str, limits: ShellLimits) -> tuple[Survey, str]:
        """Look through a folder as `survey` does, but only if it is not known to be as it was."""
        known = self._found.get(folder)
        if known is not None and known[2] == limits and known[0].is_still_so(folder):
            return known[0], known[1]
        found = survey(folder, limits)
        if time.time_ns() - max(found.changed_ns) <= _TICK_NS:
            return found, secrets.token_hex(32)
        key = hashlib.sha256(repr((found.records, found.stamps)).encode()).hexdigest()
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[folder] = found, key, limits
        return found, key
