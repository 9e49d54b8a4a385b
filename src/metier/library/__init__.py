"""Which skills exist: layers, precedence, scope, trust, the index between processes, and staying fresh.

This room places what sources find. It imports `skill` and `source`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.library.change import Change
    from metier.library.entry import Entry
    from metier.library.layers import LAYERS, Caller, Layer, OnMissingDescription, Place
    from metier.library.library import Library
    from metier.library.readiness import Machine, Readiness

_NAMES = {
    "LAYERS": "metier.library.layers",
    "Caller": "metier.library.layers",
    "Change": "metier.library.change",
    "Entry": "metier.library.entry",
    "Layer": "metier.library.layers",
    "Library": "metier.library.library",
    "Machine": "metier.library.readiness",
    "OnMissingDescription": "metier.library.layers",
    "Place": "metier.library.layers",
    "Readiness": "metier.library.readiness",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "LAYERS",
    "Caller",
    "Change",
    "Entry",
    "Layer",
    "Library",
    "Machine",
    "OnMissingDescription",
    "Place",
    "Readiness",
]
