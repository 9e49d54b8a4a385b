"""Which skills fit: search over names, descriptions and bodies, and the catalog that fits a budget.

This room ranks what the library holds. It imports `skill`, `source` and `library`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.find.catalog import Catalog
    from metier.find.query import Query
    from metier.find.render import Format
    from metier.find.result import Result
    from metier.find.search import Finder
    from metier.find.selection import Selection
    from metier.find.vectors import Embedder, SentenceVectors, WordVectors

_NAMES = {
    "Catalog": "metier.find.catalog",
    "Embedder": "metier.find.vectors",
    "Finder": "metier.find.search",
    "Format": "metier.find.render",
    "Query": "metier.find.query",
    "Result": "metier.find.result",
    "Selection": "metier.find.selection",
    "SentenceVectors": "metier.find.vectors",
    "WordVectors": "metier.find.vectors",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Catalog",
    "Embedder",
    "Finder",
    "Format",
    "Query",
    "Result",
    "Selection",
    "SentenceVectors",
    "WordVectors",
]
