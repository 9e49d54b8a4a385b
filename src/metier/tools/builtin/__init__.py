"""The tools that come with Métier: files in a workspace, commands through a runner, pages of the web."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from metier.run import Runner
    from metier.tools.tool import Tool
    from metier.tools.workspace import Workspace


def builtin_tools(
    workspace: Workspace,
    runner: Runner | None = None,
    *,
    unsearched: Callable[[], Collection[str]] = tuple,
    hosts: Callable[[], Sequence[str] | None] | None = None,
) -> list[Tool]:
    """Read, Write, Edit, Glob and Grep in a workspace; Bash too when there is a runner for it.

    Grep passes over files that are `unsearched`, by their real paths. With `hosts`, which gives those that a call may
    reach (None is every public one), there is WebFetch.

    >>> import tempfile
    >>> from metier.tools import Workspace
    >>> [tool.name for tool in builtin_tools(Workspace(tempfile.mkdtemp()))]
    ['Read', 'Write', 'Edit', 'Glob', 'Grep']
    """
    from metier.tools.builtin.bash import bash_tool
    from metier.tools.builtin.files import edit_tool, read_tool, write_tool
    from metier.tools.builtin.search import glob_tool, grep_tool

    tools: list[Tool] = [make(workspace) for make in (read_tool, write_tool, edit_tool, glob_tool)]
    tools.append(grep_tool(workspace, unsearched))
    if runner is not None:
        tools.append(bash_tool(workspace, runner))
    if hosts is not None:
        from metier.tools.builtin.web_fetch import web_fetch_tool

        tools.append(web_fetch_tool(hosts))
    return tools
