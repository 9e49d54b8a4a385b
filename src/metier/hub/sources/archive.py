"""An archive as a source: a file, or one that is downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from metier.errors import SourceUnavailable
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import archive_tree
from metier.skill import shown
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The archive as it is now: its digest is its state."""
    data = _read(address.location, transfer)
    return Resolved(address=address, revision=f"sha256:{hashlib.sha256(data).hexdigest()}", data=data)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in an archive."""
    data = resolved.data if isinstance(resolved.data, bytes) else _read(resolved.address.location, transfer)
    yield candidates_by_layout(archive_tree(data), resolved)


def _read(location: str, _transfer: Transfer) -> bytes:
    most = ArchiveLimits().archive_bytes
    try:
        with open(location, "rb") as file:
            if os.fstat(file.fileno()).st_size > most:
                raise SourceUnavailable(
                    f"{shown(location, 300)} is larger than {most:,} bytes.", hint="Name a smaller one."
                )
            return file.read(most + 1)
    except OSError as error:
        raise SourceUnavailable(
            f"{shown(location, 300)} cannot be read: {error.strerror}.", hint="Check its name.", path=location
        ) from None
