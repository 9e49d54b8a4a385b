"""A worker in the cage that this machine makes for jobs: if the interpreter is taken over, there is nothing to take.

The interpreter keeps scripts from the machine, and the cage keeps the interpreter from it.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from metier.run.job import Job, Limits, Place

if TYPE_CHECKING:
    from metier.run.native.request import Tier
    from metier.run.native.resident import Resident

_PROCESSES = 32
"""The interpreter has threads, which count as processes."""


@functools.cache
def tier() -> Tier | None:
    """How cages are made here; None if none can be made."""
    if sys.platform != "linux":
        return None
    from metier.run.native import NativeRunner

    return NativeRunner().tier


def start_in_cage(
    command: tuple[str, ...], packages: tuple[str, ...], *, memory_bytes: int, open_files: int
) -> Resident | None:
    """Start a worker that sees its own packages and nothing else; None where no cage can be made for it."""
    found = tier()
    if found is None:
        return None
    from metier.run.native.resident import Resident

    job = Job(
        argv=command,
        # It has no use for a working folder, and this one it cannot write to.
        folder=packages[0],
        places=tuple(Place(os.path.realpath(path), at=path) for path in packages),
        limits=Limits(
            memory_bytes=memory_bytes, processes=_PROCESSES, file_bytes=0, disk_bytes=1024 * 1024, open_files=open_files
        ),
    )
    try:
        return Resident(job, found)
    except OSError:
        return None
