"""The document cache: documents and package digests that were asked for lately, bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier._lazy import dataclass
from metier.skill.package import digest_of

if TYPE_CHECKING:
    from metier.skill import Document, IdentityRow, PackageListing
    from metier.skill.package import DigestEntry


_CHARACTERS_KEPT = 8_000_000
_LONGEST_KEPT = 128 * 1024
_DIGESTS_KEPT = 20_000
_LISTINGS_KEPT = 500

CacheKey = tuple[int, str]
"""A place and a key in it: what something is kept under, never a name, which may come to mean another skill."""


class DocumentCache:
    """Documents and digests that were asked for lately; safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: OrderedDict[CacheKey, tuple[IdentityRow, Document]] = OrderedDict()
        self.contents: BoundedCache[CacheKey, tuple[str, PackageDigest]] = BoundedCache(_DIGESTS_KEPT)
        """The content of each package, and the signature of the files that it was computed under."""
        self.listings: BoundedCache[CacheKey, tuple[PackageDigest, PackageListing]] = BoundedCache(_LISTINGS_KEPT)
        """The files of packages that were loaded, each beside the very content that it is the list of."""
        self._characters = 0

    def document(self, where: CacheKey) -> tuple[IdentityRow, Document] | None:
        """A document and the identity it was read under."""
        with self._lock:
            found = self._documents.get(where)
            if found is not None:
                self._documents.move_to_end(where)
            return found

    def keep_document(self, where: CacheKey, identity: IdentityRow, document: Document) -> None:
        """Keep a document, unless it is so long that reading it again is the smaller evil."""
        if len(document.body) > _LONGEST_KEPT:
            return
        with self._lock:
            self._drop(where)
            self._documents[where] = (identity, document)
            self._characters += len(document.body)
            while self._characters > _CHARACTERS_KEPT:
                self._drop(next(iter(self._documents)))

    def _drop(self, where: CacheKey) -> None:
        dropped = self._documents.pop(where, None)
        if dropped is not None:
            self._characters -= len(dropped[1].body)

    def forget(self, where: CacheKey | None = None) -> None:
        """Forget what is kept of one skill, or of all."""
        with self._lock:
            if where is None:
                self._documents.clear()
                self._characters = 0
                self.contents.clear()
                self.listings.clear()
            else:
                self._drop(where)
                self.contents.pop(where, None)
                self.listings.pop(where, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDigest:
    """The digest of a package, and the hashes of its Markdown files.

    >>> from metier.skill.package import DigestEntry
    >>> b"x" * 32 in PackageDigest.of([DigestEntry("SKILL.md", "file", b"x" * 32)]).texts
    True
    """

    digest: str
    texts: frozenset[bytes]
    count: int
    """The number of its files."""

    @classmethod
    def of(cls, entries: list[DigestEntry]) -> PackageDigest:
        """Of all files of a package."""
        texts = (one.content for one in entries if one.mode != "link" and one.path.lower().endswith(".md"))
        return cls(digest=digest_of(entries), texts=frozenset(texts), count=len(entries))
