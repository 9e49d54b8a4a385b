"""How much is in a shell, beside what every shell begins with. This runs in the worker."""

from __future__ import annotations

from metier.run.virtual.tree import PROGRAMS, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from bashkit import Bash

    from metier.run.virtual.channel import Head

_begun: dict[str, int] = {}
"""What every shell begins with, and its size."""


class Measured:
    """What was found: nodes with the root, files, bytes, the deepest path, and the largest file with its size."""

    def __init__(self) -> None:
        self.nodes, self.files, self.total_bytes = 1, 0, 0
        self.deepest, self.largest, self.most = "", "", -1


def remember_beginning(bash: Bash) -> None:
    """Take what is in a new shell for what is in every new shell."""
    if _begun:
        return
    _begun.update({path: size for path, _, _, size in walk(bash.fs(), "/")})
    for folder in PROGRAMS:
        names = bash.ls(folder)
        _begun[folder + "/"] = len(names)
        _begun.update({f"{folder}/{name}": 0 for name in names})


def measure(bash: Bash, mounts: Collection[str]) -> Measured:
    """Look through all files but those that are mounted."""
    files, found = bash.fs(), Measured()
    for path, kind, _, size in walk(files, "/", frozenset(mounts)):
        size = size if kind == "f" else 0
        was = _begun.get(path)
        if was is None:
            found.nodes += 1
            found.files += kind == "f"
            found.deepest = max(found.deepest, path, key=_depth)
        found.total_bytes += max(0, size - (was or 0))
        if size > max(found.most, was or 0):
            found.most, found.largest = size, path
    for folder in PROGRAMS:
        # There are hundreds of entries, of which mostly none is new: so they are counted before they are looked at.
        if len(bash.ls(folder)) != _begun[folder + "/"]:
            for entry in files.read_dir(folder):
                if f"{folder}/{entry['name']}" not in _begun:
                    found.nodes += 1
                    found.files += 1
                    found.total_bytes += entry["metadata"]["size"]
    found.nodes -= len({part for mount in mounts for part in _above(mount) if part not in _begun})
    return found


def over(bash: Bash, mounts: Collection[str], limits: Head) -> str:
    """Which limit the files exceed, in a sentence; nothing if none."""
    found = measure(bash, mounts)
    if found.most > limits["file_bytes"]:
        return f"The file {found.largest} exceeds the limit of {limits['file_bytes']} bytes for a file."
    if found.nodes > limits["files"] + 1:
        return f"The workspace exceeds the limit of {limits['files']} files and folders."
    if found.total_bytes > limits["total_bytes"]:
        return f"The workspace exceeds the limit of {limits['total_bytes']} bytes for all files."
    if _depth(found.deepest) > limits["depth"]:
        return f"The path {found.deepest} exceeds the limit of {limits['depth']} folders inside one another."
    return ""


def _depth(path: str) -> int:
    return path.count("/")


def _above(path: str) -> list[str]:
    """The folders above a path."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: index + 1]) for index in range(len(parts))]
