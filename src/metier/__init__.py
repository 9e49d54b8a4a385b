"""Métier gives any agent a library of skills, and the people responsible for it control over what skills may do.

>>> from metier import Library
>>> library = Library.from_files({"SKILL.md": "---\\nname: hello\\ndescription: Greets.\\n---\\nSay hello."})
>>> library.get("hello").description
'Greets.'
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier._face import Library
    from metier._version import __version__
    from metier.errors import MetierError, SkillNotFound
    from metier.find import Catalog, Result
    from metier.library import Caller, Change, Entry, Machine, Place, Readiness
    from metier.skill import Diagnostic, Document, Skill

_NAMES = {
    "Caller": "metier.library",
    "Catalog": "metier.find",
    "Change": "metier.library",
    "Diagnostic": "metier.skill",
    "Document": "metier.skill",
    "Entry": "metier.library",
    "Library": "metier._face",
    "Machine": "metier.library",
    "MetierError": "metier.errors",
    "Place": "metier.library",
    "Readiness": "metier.library",
    "Result": "metier.find",
    "Skill": "metier.skill",
    "SkillNotFound": "metier.errors",
    "__version__": "metier._version",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Caller",
    "Catalog",
    "Change",
    "Diagnostic",
    "Document",
    "Entry",
    "Library",
    "Machine",
    "MetierError",
    "Place",
    "Readiness",
    "Result",
    "Skill",
    "SkillNotFound",
    "__version__",
]
