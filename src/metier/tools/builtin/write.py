"""`Write`: a whole file, new or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.tools.function import FunctionTool
from metier.tools.tool import ToolResult

if TYPE_CHECKING:
    from metier.tools.workspace import Workspace


def write_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Write`."""

    def write(file_path: str, content: str) -> ToolResult:
        """Write a file of the workspace as a whole. What was in it is replaced; folders are made as needed.

        Args:
            file_path: The path, relative to the workspace or absolute.
            content: The text, written as UTF-8 with its line ends as they are.
        """
        data = content.encode()
        path = workspace.write(file_path, data)
        message = f"Wrote {len(data):,} bytes to {path}"
        return ToolResult(success=True, result=message, data={"message": message, "path": path, "size": len(data)})

    return FunctionTool(write, name="Write")
