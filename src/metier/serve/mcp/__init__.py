"""A server of the Model Context Protocol: skills as an extension, as tools, as prompts and as instructions.

It needs the `mcp` package, `pip install 'metier[mcp]'`, which is imported when `SkillServer` is.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.serve.mcp.server import SkillServer

__all__ = ["SkillServer"]


def __getattr__(name: str) -> object:
    if name != "SkillServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from metier._extras import optional

    with optional("Servers over MCP", "mcp", extra="mcp"):
        from metier.serve.mcp.server import SkillServer
    return SkillServer
