"""Landlock rules for the files of a job, which no process can take off again. This runs in the supervisor."""

from __future__ import annotations

import os
import stat
import struct

from metier.run.native import kernel
from metier.run.native.light_stdlib import suppress

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_READING = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_CONNECTING = 0b11
_TO_OTHERS = 0b11
"""Abstract sockets and signals of processes that are not bound by the same rules."""


def handled(version: int) -> int:
    """All kinds of access to files that this version of Landlock knows."""
    newest = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    return (1 << newest) - 1


def enforce(
    version: int,
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    devices: Iterable[str],
    exact: Collection[str],
    connects: bool,
) -> None:
    """Bind this process to rules: nothing but these paths, and no connection unless `connects`."""
    every = handled(version)
    attributes = struct.pack("=Q", every)
    if version >= 4:
        attributes += struct.pack("=Q", 0 if connects else _CONNECTING)
    if version >= 6:
        attributes += struct.pack("=Q", _TO_OTHERS)
    ruleset = kernel.landlock_ruleset(attributes)
    try:
        for paths, access in (
            (readable, _READING),
            (writable, every & ~_MAKE_DEVICES & ~_DEVICE_CONTROL),
            (devices, (_READ_FILE | _WRITE_FILE | _READ_FOLDER | _DEVICE_CONTROL) & every),
        ):
            for path in paths:
                # A place must not have become a link since somebody looked where it leads.
                _allow(ruleset, path, access & every, is_exact=path in exact)
        kernel.landlock_enforce(ruleset)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int, *, is_exact: bool) -> None:
    # What is not there needs no rule; no more is allowed by its absence.
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        descriptor = kernel.open_exactly(path) if is_exact else os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                access &= _OF_A_FILE
            kernel.landlock_allow(ruleset, descriptor, access)
        finally:
            os.close(descriptor)
