"""An archive as a source: a file, or one that is downloaded."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, cast

from metier._lazy import replace
from metier._paths import open_plain
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.safe_folder import path_failure
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.http import ARCHIVE, Download, HttpClient, check_digest, sha256_of
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import archive_tree
from metier.skill import shown
from metier.skill.package import is_digest
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The archive as it is now: its digest is its state."""
    if address.ref and not is_digest(address.ref):
        raise InvalidArgument(
            f"An archive has no state {shown(address.ref)!r}.", hint="Write #sha256= and its digest, or nothing."
        )
    what = f"the archive {shown(address.location.partition('?')[0].rpartition('/')[2])}"
    most = ArchiveLimits().archive_bytes
    found = read_content(address.location, what, transfer, types=ARCHIVE, most=most, digest=address.ref)
    return Resolved(address=address, revision=sha256_of(found.body), is_exact=bool(address.ref), data=found)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in an archive."""
    data = resolved.data or resolve(replace(resolved.address, ref=resolved.revision), transfer).data
    archive = cast("Download", data)
    found = candidates_by_layout(archive_tree(archive.body), resolved)
    yield replace(found, warnings=(*found.warnings, *archive.warnings))


def read_content(location: str, what: str, transfer: Transfer, *, types: str, most: int, digest: str = "") -> Download:
    """The file that an address or a path names, of at most so many bytes and with the digest that was announced."""
    if "://" in location:
        return HttpClient(location, transfer).get(location, what, types=types, max_bytes=most, digest=digest)
    try:
        with open_plain(os.path.realpath(location)) as file:  # which waits for nobody at a pipe or a terminal
            data = file.read(most + 1) or b""
    except OSError as error:
        raise path_failure(location, "read", error, "Check its name.") from None
    if len(data) > most:
        raise SourceUnavailable(f"{shown(location, 300)} is larger than {most:,} bytes.", hint="Name a smaller one.")
    check_digest(shown(location, 300), data, digest)
    return Download(data)
