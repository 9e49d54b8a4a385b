"""Paths of one folder: what is mounted in two places has two, and neither is a link to the other."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, TypeAlias

from metier.skill.folder import is_inside, moved_path

if TYPE_CHECKING:
    Mounts: TypeAlias = tuple[tuple[bytes, str, str], ...]
    """Of each mount, its device, the folder of it that is shown, and where."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def read_mounts() -> Mounts:
    """The mounts of this process, as far as the machine tells."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return _parse_mounts(file.read())
    except OSError:
        return ()


def paths_of(folder: str, mounts: Mounts) -> tuple[tuple[str, str], ...]:
    """The paths that lead to a folder, given by its real path, or to a part of it: each path, and the part.

    >>> paths_of("/project", ())
    (('/project', ''),)
    """
    found = {(folder, ""): None}
    around = [mount for mount in mounts if is_inside(folder, mount[2])]
    if around:
        device, root, point = max(around, key=lambda mount: len(mount[2]))
        inner = moved_path(folder, point, root)
        for other, outer, at in mounts:
            if other != device:
                continue
            if is_inside(inner, outer):
                found[moved_path(inner, outer, at), ""] = None
            elif is_inside(outer, inner):
                found[at, os.path.relpath(outer, inner)] = None
    # Something else may be mounted over it.
    return tuple(one for one in found if one[0] == folder or _is_same(one[0], os.path.join(folder, one[1])))


@functools.lru_cache(maxsize=4)
def _parse_mounts(table: bytes) -> Mounts:
    lines = (line.split(b" ", 5) for line in table.splitlines())
    return tuple((device, _path(root), _path(point)) for _, _, device, root, point, _ in lines)


def _path(written: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes((int(found[1], 8),)), written))


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
