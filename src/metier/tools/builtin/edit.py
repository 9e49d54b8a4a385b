"""`Edit`: a part of a file replaced, exactly as given, or a unified diff applied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import FileTooLarge, InvalidArgument
from metier.hints import Hint
from metier.tools.function import FunctionTool
from metier.tools.patch import apply_patch
from metier.tools.tool import ToolResult
from metier.tools.workspace import MAX_FILE_BYTES

if TYPE_CHECKING:
    from metier.tools.workspace import Workspace


def edit_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Edit`."""

    def edit(
        file_path: str,
        old_string: str | None = None,
        new_string: str | None = None,
        replace_all: bool = False,
        patch: str | None = None,
    ) -> ToolResult:
        """Change a file of the workspace: replace old_string by new_string, or apply a unified diff.

        Args:
            file_path: The path, relative to the workspace or absolute.
            old_string: The text to replace, exactly as in the file; it must occur once unless replace_all is true.
            new_string: What to put in its place.
            replace_all: Replace every occurrence.
            patch: A unified diff of this file, instead of old_string and new_string.
        """
        count = 0

        def changed(data: bytes) -> bytes:
            nonlocal count
            # Bytes that are no UTF-8 pass through as they are, so that any text based on ASCII can be edited.
            text = data.decode(errors="surrogateescape")
            if patch is not None:
                new, count = apply_patch(text, patch), 1
            else:
                new, count = _replaced(text, old_string or "", new_string or "", everywhere=replace_all)
            return new.encode(errors="surrogateescape")

        if (patch is None) == (old_string is None) or (patch is not None and new_string is not None):
            raise InvalidArgument(
                "An edit is either old_string and new_string, or a patch.", hint="Give one of the two ways."
            )
        if patch is None and new_string is None:
            raise InvalidArgument("new_string is missing.", hint='Give "" to delete the text.')
        path = workspace.update(file_path, changed)
        what = "Applied the patch to" if patch is not None else f"Replaced {count:,} occurrence{'s' * (count != 1)} in"
        message = f"{what} {path}"
        return ToolResult(success=True, result=message, data={"message": message, "path": path, "count": count})

    return FunctionTool(edit, name="Edit")


def _replaced(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    if not old:
        raise InvalidArgument(
            "old_string cannot be empty.",
            hint=Hint(
                "Only a file that exists is edited.",
                model=("{Write} makes new files.", "Only a file that exists is edited."),
            ),
        )
    if old == new:
        raise InvalidArgument("old_string and new_string are the same.", hint="Nothing would change.")
    if old not in text and "\r\n" in text and "\r" not in old:
        # A model that has read CRLF often writes LF.
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise InvalidArgument(
            "old_string is not in the file.", hint="Read the file and copy the text exactly, with its blanks."
        )
    if count > 1 and not everywhere:
        raise InvalidArgument(
            f"old_string occurs {count:,} times in the file.", hint="Give more of the text around it, or replace_all."
        )
    if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
        raise FileTooLarge(f"The file would have more than {MAX_FILE_BYTES:,} bytes.", hint="Replace less of it.")
    return text.replace(old, new), count
