"""The index of skills: layers, precedence, scope, trust, the cache between processes, and staying fresh.

This room places what sources find. It imports `skill` and `source`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.library.entry import Entry as Entry
    from metier.library.index import SkillIndex as SkillIndex
    from metier.library.index import SkillLookup as SkillLookup
    from metier.library.places import LAYERS as LAYERS
    from metier.library.places import Caller as Caller
    from metier.library.places import Layer as Layer
    from metier.library.places import OnMissingDescription as OnMissingDescription
    from metier.library.places import Place as Place
    from metier.library.readiness import Machine as Machine
    from metier.library.readiness import Readiness as Readiness
    from metier.library.refresh import Change as Change

__getattr__, __dir__, __all__ = lazy_names(__name__)
