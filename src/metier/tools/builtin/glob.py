"""`Glob`: the files whose paths fit a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.skill import shown
from metier.tools.function import FunctionTool
from metier.tools.globbing import PathPattern
from metier.tools.tool import ToolResult

if TYPE_CHECKING:
    from metier.tools.workspace import Workspace

MAX_PATHS = 1_000


def glob_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Glob`."""

    def glob(pattern: str, path: str = ".") -> ToolResult:
        """List the files of the workspace whose paths fit a pattern, such as **/*.py or docs/*.{md,txt}.

        Version control, installed modules and links are passed over.

        Args:
            pattern: The pattern for paths below the folder; ** stands for any number of folders.
            path: The folder to look in.
        """
        wanted = PathPattern(pattern)
        tree = workspace.walk(path)
        found = [file for file in tree.files if wanted.matches(file)]
        listed = found[:MAX_PATHS]
        notes = []
        if len(found) > MAX_PATHS:
            notes.append(f"[{len(found) - MAX_PATHS:,} more files]")
        if tree.stopped_at is not None:
            notes.append(f"[The search stopped at {tree.stopped_at}]")
        return ToolResult(
            success=True,
            result="\n".join([*(shown(path, len(path)) for path in listed), *notes]) or "No files found.",
            truncated=bool(notes),
            data={
                "message": f"Found {len(found):,} files in {tree.folder}",
                "paths": listed,
                "count": len(found),
                "path": tree.folder,
            },
        )

    return FunctionTool(glob, name="Glob")
