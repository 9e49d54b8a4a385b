"""The findings that somebody answers for, as the file that policy names has them now."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._log import logger
from metier.errors import PolicyInvalid

if TYPE_CHECKING:
    from metier.scan.suppression import Suppression

log = logger("metier.guard")

_MAX_BYTES = 1024 * 1024


class KeptSuppressions:
    """The suppressions of a file, read again when it changes. One that cannot be used suppresses nothing."""

    def __init__(self) -> None:
        self._read: tuple[tuple[object, ...], tuple[Suppression, ...]] = ((), ())

    def current(self, path: str | None) -> tuple[Suppression, ...]:
        """Those of a file that have not run out."""
        if path is None:
            return ()
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return ()
        stamp = (path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._read[0] != stamp:
            self._read = (stamp, _suppressions(path))
        now = datetime.now(UTC)
        return tuple(one for one in self._read[1] if not one.is_expired(now))


def _suppressions(path: str) -> tuple[Suppression, ...]:
    from metier.scan.suppression import read_suppressions

    try:
        with open(path, encoding="utf-8") as file:
            return read_suppressions(file.read(_MAX_BYTES), where=path)
    except (OSError, ValueError, PolicyInvalid) as error:
        log.warning("no finding is suppressed: %s", error)
        return ()
