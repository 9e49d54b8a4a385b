"""Métier gives any agent a library of skills, and the people responsible for it control over what skills may do.

>>> from metier import Library
>>> library = Library.from_files({"SKILL.md": "---\\nname: hello\\ndescription: Greets.\\n---\\nSay hello."})
>>> library.get("hello").description
'Greets.'
"""

from __future__ import annotations

from metier import _notifier
from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier._library import Library as Library
    from metier._session import Session as Session
    from metier._version import __version__ as __version__
    from metier.errors import MetierError as MetierError
    from metier.errors import SkillNotFound as SkillNotFound
    from metier.find import Catalog as Catalog
    from metier.find import Result as Result
    from metier.guard import Decision as Decision
    from metier.guard import Guard as Guard
    from metier.guard import Policy as Policy
    from metier.library import Caller as Caller
    from metier.library import Change as Change
    from metier.library import Entry as Entry
    from metier.library import Machine as Machine
    from metier.library import Place as Place
    from metier.library import Readiness as Readiness
    from metier.session import Event as Event
    from metier.session import Receipt as Receipt
    from metier.session.context import Options as Options
    from metier.skill import Diagnostic as Diagnostic
    from metier.skill import Document as Document
    from metier.skill import Skill as Skill
    from metier.tools import FunctionTool as FunctionTool
    from metier.tools import Tool as Tool
    from metier.tools import ToolResult as ToolResult

__getattr__, __dir__, __all__ = lazy_names(__name__)


def _start_notify_command(command: Sequence[str], data: bytes, *, limit: float, failed: Callable[[str], None]) -> None:
    from metier.run.notify_command import start_notify_command

    start_notify_command(command, data, limit=limit, failed=failed)


# `guard` may not import `run`, which alone starts processes.
_notifier.start = _start_notify_command
