"""Search over names, descriptions and bodies, and the catalog that fits a budget.

This room ranks what the library holds. It imports `skill`, `source` and `library`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.find.catalog import Catalog as Catalog
    from metier.find.catalog_format import Format as Format
    from metier.find.finder import Finder as Finder
    from metier.find.query import Query as Query
    from metier.find.results import Result as Result
    from metier.find.selection import Selection as Selection
    from metier.find.vectors import Embedder as Embedder
    from metier.find.vectors import SentenceVectors as SentenceVectors
    from metier.find.word_vectors import WordVectors as WordVectors

__getattr__, __dir__, __all__ = lazy_names(__name__)
