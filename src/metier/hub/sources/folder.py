"""A folder as a source: the skills in it, or the one that it is."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier.errors import SourceUnavailable
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import FolderTree
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer


def resolve(address: SourceAddress, _transfer: Transfer) -> Resolved:
    """A folder has no states but the present one; the digest of each skill tells whether it changed."""
    if not os.path.isdir(address.location):
        raise SourceUnavailable(
            f"There is no folder {shown(address.location, 300)}.", hint="Check its name.", path=address.location
        )
    return Resolved(address=address, revision="")


@contextlib.contextmanager
def fetch(resolved: Resolved, _transfer: Transfer) -> Iterator[Fetched]:
    """The skills below a folder."""
    address = resolved.address
    yield candidates_by_layout(FolderTree(address.location), resolved)
