"""What an agent can do: tools, the registry that names them, the executor that is the one way to call them.

The built-in tools work in a `Workspace`. This room imports `skill`, `source`, `library`, `find`, `guard` and `run`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.tools.builtin import builtin_tools
    from metier.tools.executor import Admission, Executor, Gate
    from metier.tools.function import FunctionTool
    from metier.tools.tool import DEFAULT_TIMEOUT, Tool, ToolRegistry, ToolResult
    from metier.tools.workspace import Workspace

_NAMES = {
    "DEFAULT_TIMEOUT": "metier.tools.tool",
    "Admission": "metier.tools.executor",
    "Executor": "metier.tools.executor",
    "FunctionTool": "metier.tools.function",
    "Gate": "metier.tools.executor",
    "Tool": "metier.tools.tool",
    "ToolRegistry": "metier.tools.tool",
    "ToolResult": "metier.tools.tool",
    "Workspace": "metier.tools.workspace",
    "builtin_tools": "metier.tools.builtin",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "DEFAULT_TIMEOUT",
    "Admission",
    "Executor",
    "FunctionTool",
    "Gate",
    "Tool",
    "ToolRegistry",
    "ToolResult",
    "Workspace",
    "builtin_tools",
]
