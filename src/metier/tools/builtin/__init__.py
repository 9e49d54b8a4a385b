"""The tools that come with Métier: files in a workspace, and commands through a runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from metier.run import Runner
    from metier.tools.tool import Tool
    from metier.tools.workspace import Workspace


def builtin_tools(
    workspace: Workspace, runner: Runner | None = None, *, unsearched: Callable[[], Collection[str]] = tuple
) -> list[Tool]:
    """Read, Write, Edit, Glob and Grep in a workspace; Bash too when there is a runner for it.

    Grep passes over files that are `unsearched`, by their real paths.

    >>> import tempfile
    >>> from metier.tools import Workspace
    >>> [tool.name for tool in builtin_tools(Workspace(tempfile.mkdtemp()))]
    ['Read', 'Write', 'Edit', 'Glob', 'Grep']
    """
    from metier.tools.builtin.bash import bash_tool
    from metier.tools.builtin.edit import edit_tool
    from metier.tools.builtin.glob import glob_tool
    from metier.tools.builtin.grep import grep_tool
    from metier.tools.builtin.read import read_tool
    from metier.tools.builtin.write import write_tool

    tools: list[Tool] = [make(workspace) for make in (read_tool, write_tool, edit_tool, glob_tool)]
    tools.append(grep_tool(workspace, unsearched))
    return tools if runner is None else [*tools, bash_tool(workspace, runner)]
