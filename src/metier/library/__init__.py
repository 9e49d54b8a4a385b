"""Which skills exist: layers, precedence, scope, trust, the index between processes, and staying fresh.

This room places what sources find. It imports `skill` and `source`.
"""

from metier.library.change import Change
from metier.library.entry import Entry
from metier.library.layers import LAYERS, Caller, Layer, OnMissingDescription, Place
from metier.library.library import Library, source_of

__all__ = [
    "LAYERS",
    "Caller",
    "Change",
    "Entry",
    "Layer",
    "Library",
    "OnMissingDescription",
    "Place",
    "source_of",
]
