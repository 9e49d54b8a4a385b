"""Files that a patch changes, with the tool that each change needs.

A file that is changed needs `Edit`; one that is added, deleted or moved to needs `Write`. A patch that cannot be read
with certainty needs both for every file, and is forbidden by any rule about one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES = 1_000
"""Files of one patch; with more it counts as one that cannot be read."""

_HEADERS = {
    "*** Add File: ": "write",
    "*** Delete File: ": "write",
    "*** Move to: ": "write",
    "*** Update File: ": "edit",
}
_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")
_TYPES = {"create_file": "write", "delete_file": "write", "update_file": "edit"}
_FIELDS = frozenset({"diff", "move_to", "path", "type"})


class _UnreadablePatch(Exception):
    """The patch cannot be read with certainty."""


def changed_files(arguments: Mapping[str, Any]) -> list[str] | None:
    """The files that a patch changes, adds, deletes or moves to; None where that cannot be read with certainty.

    >>> changed_files({"input": "*** Begin Patch\\n*** Delete File: docs/a.md\\n*** End Patch"})
    ['docs/a.md']
    """
    paths = [path for _, path in patch_changes(arguments)]
    return [path for path in paths if path is not None] if None not in paths else None


def patch_changes(arguments: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The tool that each file of a patch needs, and the file; None is any file."""
    given: Any = arguments
    try:
        if len(arguments) == 1 and isinstance(text := next(iter(arguments.values())), str):
            given = json.loads(text) if text.lstrip().startswith(("{", "[")) else text
        found = list(dict.fromkeys(_in_text(given) if isinstance(given, str) else _in_operations(given)))
    except (_UnreadablePatch, ValueError, RecursionError):
        found = []
    return [*found] if 0 < len(found) <= MAX_FILES else [("edit", None), ("write", None)]


def _in_operations(given: Any) -> Iterator[tuple[str, str]]:
    if isinstance(given, Mapping) and len(given) == 1:
        given = given.get("operations", given.get("operation"))
    for operation in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(operation, Mapping) or not operation.keys() <= _FIELDS:
            raise _UnreadablePatch
        path, move_to = operation.get("path"), operation.get("move_to")
        tool = _TYPES.get(str(operation.get("type")))
        if tool is None or not isinstance(path, str) or not path or not isinstance(move_to, str | None):
            raise _UnreadablePatch
        yield tool, path
        if move_to is not None:
            yield "write", move_to


def _in_text(text: str) -> Iterator[tuple[str, str]]:
    """The files that the headers of a patch name.

    Whatever some program might take for a header counts as one, and what others might read otherwise is not read.
    """
    lines = text.strip().split("\n")
    if lines[0].rstrip() != "*** Begin Patch" or lines[-1].strip() != "*** End Patch":
        raise _UnreadablePatch
    before = ""
    for line in lines:
        said = line.strip()
        if before.startswith("--- ") and said.startswith("+++ "):
            # A file of a patch of the other kind, for programs that take both.
            raise _UnreadablePatch
        before = said
        is_header = any(part.lstrip().startswith("***") for part in line.splitlines())
        if not is_header:
            if said and not line.startswith(("+", "-", " ", "@@")):
                raise _UnreadablePatch
        elif said not in _MARKS:
            yield _read_header(line.removesuffix("\r").lstrip(" "))


def _read_header(header: str) -> tuple[str, str]:
    mark = next((mark for mark in _HEADERS if header.startswith(mark)), "")
    path = header.removeprefix(mark)
    if not mark or not path or not header.isprintable() or path != path.strip():
        raise _UnreadablePatch
    return _HEADERS[mark], path
