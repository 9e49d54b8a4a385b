"""The tools that an agent has, by name."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from metier._aliases import TOOLS
from metier.errors import InvalidArgument
from metier.skill import shown
from metier.tools.schema import schema_of
from metier.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked_name(name: str) -> str:
    """A name that every model takes for a tool; raises `InvalidArgument` for any other.

    >>> checked_name("read_file")
    'read_file'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{shown(str(name))!r} is no name for a tool.",
            hint="Name it with 1 to 64 letters, digits, underscores or hyphens: `name=`.",
        )
    return name


class ToolRegistry:
    """Tools by name, in the order they were added. Any thread may use it.

    >>> from metier.tools import FunctionTool
    >>> registry = ToolRegistry([FunctionTool(str.upper, name="shout", parameters={"type": "object"})])
    >>> "shout" in registry, len(registry), registry.version
    (True, 1, 1)
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        # Replaced and never changed, so that whoever reads needs no lock.
        self._tools: dict[str, Tool] = {}
        self._lock = threading.Lock()
        self._version = 0
        for tool in tools:
            self.add(tool)

    @property
    def version(self) -> int:
        """A number that changes whenever a tool comes or goes."""
        return self._version

    def add(self, tool: Tool) -> None:
        """Add a tool; raises `InvalidArgument` for a bad name or schema, and when the name is taken."""
        if not isinstance(tool, Tool):
            raise InvalidArgument(
                f"{shown(repr(tool))} is no tool.", hint="Make one of a function with `FunctionTool(function)`."
            )
        name = checked_name(tool.name)
        schema_of(tool.parameters)
        with self._lock:
            if name in self._tools:
                raise InvalidArgument(
                    f"There is a tool named '{name}' already.", hint="Remove that one first, or choose another name."
                )
            self._tools = {**self._tools, name: tool}
            self._version += 1

    def remove(self, name: str) -> None:
        """Remove a tool; raises `InvalidArgument` when there is none of that name."""
        with self._lock:
            if name not in self._tools:
                raise InvalidArgument(f"There is no tool named {shown(str(name))!r}.", hint="`names()` lists them.")
            self._tools = {other: tool for other, tool in self._tools.items() if other != name}
            self._version += 1

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or else the one that the name is an alias of."""
        found = self._tools.get(name)
        return self._tools.get(TOOLS.get(name, "")) if found is None else found

    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return tuple(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)
