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
    try:
        from metier.serve.mcp.server import SkillServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "metier":
            raise
        from metier.errors import PartMissing

        raise PartMissing(
            f"A server needs {error.name}, which is not installed here.", hint="pip install 'metier[mcp]'"
        ) from None
    return SkillServer
