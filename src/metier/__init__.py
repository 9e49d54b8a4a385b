"""Métier gives any agent a library of skills, and the people responsible for it control over what skills may do.

>>> from metier import Library
>>> library = Library.from_files({"SKILL.md": "---\\nname: hello\\ndescription: Greets.\\n---\\nSay hello."})
>>> library.get("hello").description
'Greets.'
"""

from __future__ import annotations

from metier._version import __version__
from metier.errors import MetierError, SkillNotFound
from metier.library import Caller, Change, Entry, Library, Place
from metier.skill import Diagnostic, Document, Skill

__all__ = [
    "Caller",
    "Change",
    "Diagnostic",
    "Document",
    "Entry",
    "Library",
    "MetierError",
    "Place",
    "Skill",
    "SkillNotFound",
    "__version__",
]
