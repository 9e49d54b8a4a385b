"""An archive as a source: a file, or one that is downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import replace
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.http import ARCHIVE, HttpClient, check_digest, is_digest
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import archive_tree
from metier.skill import shown
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer

MAX_ARCHIVE = ArchiveLimits().archive_bytes


class _Content(NamedTuple):
    data: bytes
    warnings: tuple[str, ...] = ()


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The archive as it is now: its digest is its state."""
    if address.ref and not is_digest(address.ref):
        raise InvalidArgument(
            f"An archive has no state {shown(address.ref)!r}.", hint="Write #sha256= and its digest, or nothing."
        )
    content = _content(address.location, address.ref, transfer)
    revision = f"sha256:{hashlib.sha256(content.data).hexdigest()}"
    return Resolved(address=address, revision=revision, is_exact=bool(address.ref), data=content)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in an archive."""
    content = resolved.data
    if not isinstance(content, _Content):
        content = _content(resolved.address.location, resolved.revision, transfer)
    found = candidates_by_layout(archive_tree(content.data), resolved)
    yield replace(found, warnings=(*found.warnings, *content.warnings))


def _content(location: str, digest: str, transfer: Transfer) -> _Content:
    if "://" in location:
        client = HttpClient(location, transfer)
        what = f"the archive {shown(location.partition('?')[0].rpartition('/')[2])}"
        data = client.get(location, what, types=ARCHIVE, max_bytes=MAX_ARCHIVE, digest=digest).body
        return _Content(data, tuple(client.warnings))
    data = _read(location)
    check_digest(shown(location, 300), data, digest)
    return _Content(data)


def _read(location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_ARCHIVE:
                raise SourceUnavailable(
                    f"{shown(location, 300)} is larger than {MAX_ARCHIVE:,} bytes.", hint="Name a smaller one."
                )
            return file.read(MAX_ARCHIVE + 1)
    except OSError as error:
        raise SourceUnavailable(
            f"{shown(location, 300)} cannot be read: {error.strerror}.", hint="Check its name.", path=location
        ) from None
