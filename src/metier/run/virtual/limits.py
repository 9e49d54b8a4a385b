"""How much a virtual shell may use, and what it uses."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from metier.errors import InvalidArgument

MOST_FILE_BYTES = 10_000_000
MOST_TOTAL_BYTES = 100_000_000
MOST_FILES = 9_000
MOST_DEPTH = 100
"""What the interpreter itself takes, whatever it is told: bytes in a file and in all, nodes, folders in a path."""
MOST_SECONDS = 600.0
_MOST = {
    "seconds": MOST_SECONDS,
    "file_bytes": MOST_FILE_BYTES,
    "total_bytes": MOST_TOTAL_BYTES,
    "files": MOST_FILES,
    "depth": MOST_DEPTH,
    "command_bytes": 8_000_000,
    "output_bytes": 8 * 1024 * 1024,
    "commands": 1_000_000_000,
    "loop_turns": 1_000_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """How much a virtual shell may use. All are positive, and none is above what the interpreter itself takes.

    Time, commands and turns are counted for each command line; files are what is there after it. A command that leaves
    more than it may is undone.

    >>> try:
    ...     ShellLimits(seconds=0)
    ... except InvalidArgument as error:
    ...     print(error)
    The limit `seconds` is 0, and must be above 0 and at most 600.
    """

    seconds: float = 30.0
    commands: int = 1_000_000
    loop_turns: int = 1_000_000
    """For all loops of a command line together."""
    depth: int = MOST_DEPTH
    """Folders inside one another."""
    output_bytes: int = 256 * 1024
    """For each of the two streams; what is more is dropped, and a flag says so."""
    file_bytes: int = MOST_FILE_BYTES
    total_bytes: int = 64_000_000
    files: int = 5_000
    """Files, folders and links together."""
    command_bytes: int = 1024 * 1024
    """For a command line, as UTF-8."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, most = getattr(self, field.name), _MOST[field.name]
            is_number = type(value) is int or (
                field.name == "seconds" and type(value) is float and math.isfinite(value)
            )
            if not is_number or not 0 < value <= most:
                raise InvalidArgument(
                    f"The limit `{field.name}` is {value!r:.40}, and must be above 0 and at most {most:.0f}.",
                    hint="Give a positive number.",
                    name=field.name,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellUsage:
    """What is in a workspace, beside what every shell begins with and beside its skills."""

    nodes: int
    """Files, folders and links, and the root."""
    files: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellEntry:
    """A file, folder or link of a workspace."""

    path: str
    kind: Literal["file", "folder", "link"]
    size: int
    mode: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]
