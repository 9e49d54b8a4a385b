"""Nobody waits for the disk: what tests write is to outlast processes that are killed, not a loss of power."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from metier.store import rows, sqlite

_FSYNC, _CONNECTION = os.fsync, sqlite._Connection
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 0x40000
_ENOUGH = 8 << 30
"""With less memory than this, what all tests write had better be on the disk."""


class Hurried(sqlite._Connection):
    """A connection that does all that it is told, but to wait."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        super().execute("PRAGMA synchronous = OFF")

    def execute(self, sql: str, *parameters: Any) -> Any:
        return super().execute("SELECT 1" if sql == "PRAGMA synchronous = FULL" else sql, *parameters)


class Ticking(datetime):
    """A clock that never says the same millisecond twice: rows that nobody waited for still have an order."""

    last = datetime.min.replace(tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        Ticking.last = max(datetime.now(tz), Ticking.last + timedelta(milliseconds=1))
        return Ticking.last


def hurry(replace: Callable[[Any, str, Any], None]) -> None:
    """Let this process, and those that are forked from it, wait for no disk."""
    replace(os, "fsync", lambda descriptor: None)
    replace(sqlite, "_Connection", Hurried)
    replace(rows, "datetime", Ticking)


def take_care(replace: Callable[[Any, str, Any], None]) -> None:
    """Do everything as it is done outside of tests."""
    replace(os, "fsync", _FSYNC)
    replace(sqlite, "_Connection", _CONNECTION)
    replace(rows, "datetime", datetime)


def keep_in_memory(folder: Path) -> None:
    """Let a folder be in memory for this process and all that it starts, where they may do that; it goes with them.

    A folder that is in memory anyway, such as /dev/shm, would not do: sandboxes and policies judge by paths.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    if _memory() < _ENOUGH:
        return
    system, private = ctypes.CDLL(None), ctypes.c_ulong(_MS_REC | _MS_PRIVATE)
    if system.unshare(_CLONE_NEWNS) == 0 and system.mount(b"none", b"/", None, private, None) == 0:
        system.mount(b"none", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), b"mode=0700")


def _memory() -> int:
    """How many bytes there are, of the machine or of the container that this runs in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError, ValueError):  # it may be "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found)
