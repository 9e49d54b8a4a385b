"""The layout of the files of a source: plain skills, a plugin, or a marketplace that names its plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.hub.sources.fetch import Fetched
from metier.hub.sources.tree import candidates_of

if TYPE_CHECKING:
    from metier.hub.sources.fetch import Resolved
    from metier.hub.sources.tree import Tree


def candidates_by_layout(tree: Tree, resolved: Resolved) -> Fetched:
    """The skills of a tree, as its own manifests name them."""
    return Fetched(resolved=resolved, candidates=candidates_of(tree, resolved.address.path))
