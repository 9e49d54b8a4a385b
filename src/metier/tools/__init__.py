"""Tools for agents, the registry that names them, and the executor that calls them.

The built-in tools work in a `Workspace`. This room imports `skill`, `source`, `library`, `find`, `guard` and `run`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.tools.builtin import builtin_tools as builtin_tools
    from metier.tools.executor import Admission as Admission
    from metier.tools.executor import Executor as Executor
    from metier.tools.executor import Gate as Gate
    from metier.tools.function import FunctionTool as FunctionTool
    from metier.tools.tool import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
    from metier.tools.tool import Tool as Tool
    from metier.tools.tool import ToolRegistry as ToolRegistry
    from metier.tools.tool import ToolResult as ToolResult
    from metier.tools.workspace import Workspace as Workspace

__getattr__, __dir__, __all__ = lazy_names(__name__)
