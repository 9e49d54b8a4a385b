"""A workspace, and the built-in tools in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.run import PlainRunner
from metier.tools import Executor, ToolRegistry, ToolResult, Workspace, builtin_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    return folder


@pytest.fixture
def call(root: Path) -> Callable[..., ToolResult]:
    """Calls a built-in tool by name."""
    executor = Executor(ToolRegistry(builtin_tools(Workspace(root), PlainRunner())))

    def call(name: str, **arguments: Any) -> ToolResult:
        return executor.execute_blocking(name, arguments)

    return call
