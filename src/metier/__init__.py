"""Métier gives any agent a library of skills, and the people responsible for it control over what skills may do.

>>> from metier import Library
>>> library = Library.from_files({"SKILL.md": "---\\nname: hello\\ndescription: Greets.\\n---\\nSay hello."})
>>> library.get("hello").description
'Greets.'
"""

from __future__ import annotations

from metier import _notifier
from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier._face import Library
    from metier._session import Session
    from metier._version import __version__
    from metier.errors import MetierError, SkillNotFound
    from metier.find import Catalog, Result
    from metier.guard import Decision, Guard, Policy
    from metier.library import Caller, Change, Entry, Machine, Place, Readiness
    from metier.session import Event, Options, Receipt
    from metier.skill import Diagnostic, Document, Skill
    from metier.tools import FunctionTool, Tool, ToolResult

_NAMES = {
    "Caller": "metier.library",
    "Catalog": "metier.find",
    "Change": "metier.library",
    "Decision": "metier.guard",
    "Diagnostic": "metier.skill",
    "Document": "metier.skill",
    "Entry": "metier.library",
    "Event": "metier.session",
    "FunctionTool": "metier.tools",
    "Guard": "metier.guard",
    "Library": "metier._face",
    "Machine": "metier.library",
    "MetierError": "metier.errors",
    "Options": "metier.session",
    "Place": "metier.library",
    "Policy": "metier.guard",
    "Readiness": "metier.library",
    "Receipt": "metier.session",
    "Result": "metier.find",
    "Session": "metier._session",
    "Skill": "metier.skill",
    "SkillNotFound": "metier.errors",
    "Tool": "metier.tools",
    "ToolResult": "metier.tools",
    "__version__": "metier._version",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)


def _start_notification(command: Sequence[str], data: bytes, *, limit: float, failed: Callable[[str], None]) -> None:
    from metier.run.notify_command import start_notify_command

    start_notify_command(command, data, limit=limit, failed=failed)


# The room that decides records what waits, and starts nothing: the package joins it to the one that does.
_notifier.start = _start_notification

__all__ = [
    "Caller",
    "Catalog",
    "Change",
    "Decision",
    "Diagnostic",
    "Document",
    "Entry",
    "Event",
    "FunctionTool",
    "Guard",
    "Library",
    "Machine",
    "MetierError",
    "Options",
    "Place",
    "Policy",
    "Readiness",
    "Receipt",
    "Result",
    "Session",
    "Skill",
    "SkillNotFound",
    "Tool",
    "ToolResult",
    "__version__",
]
