"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.library import Entry, Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A skill that fits a query.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> result = library.search("fill a pdf")[0]
    >>> result.name, result.why.split("; ")[:2]
    ('pdf-forms', ['name: pdf', 'description: fill'])
    """

    name: str
    score: float
    """Between 0 and 1, to compare results of one query; 1 is the skill that was asked for by its name."""
    why: str
    """What of the query was found where."""
    entry: Entry

    @property
    def description(self) -> str:
        """What the skill does and when to use it."""
        return self.entry.description

    @property
    def layer(self) -> Layer:
        """Who put it there."""
        return self.entry.layer
