"""What is kept in memory of skills that were asked for: instructions and digests, bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.library.content import Content
    from metier.skill import Document, IdentityRow

_CHARACTERS_KEPT = 8_000_000
_LONGEST_KEPT = 128 * 1024
_DIGESTS_KEPT = 20_000

Where = tuple[int, str]
"""A place and a key in it: what something is kept under, never a name, which may come to mean another skill."""


class Kept:
    """Documents and digests that were asked for lately; safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents: OrderedDict[Where, tuple[IdentityRow, Document]] = OrderedDict()
        self._contents: OrderedDict[Where, tuple[str, Content]] = OrderedDict()
        self._characters = 0

    def document(self, where: Where) -> tuple[IdentityRow, Document] | None:
        """A document and the identity it was read under."""
        with self._lock:
            found = self._documents.get(where)
            if found is not None:
                self._documents.move_to_end(where)
            return found

    def keep_document(self, where: Where, identity: IdentityRow, document: Document) -> None:
        """Keep a document, unless it is so long that reading it again is the smaller evil."""
        if len(document.body) > _LONGEST_KEPT:
            return
        with self._lock:
            self._drop(where)
            self._documents[where] = (identity, document)
            self._characters += len(document.body)
            while self._characters > _CHARACTERS_KEPT:
                self._drop(next(iter(self._documents)))

    def _drop(self, where: Where) -> None:
        dropped = self._documents.pop(where, None)
        if dropped is not None:
            self._characters -= len(dropped[1].body)

    def content(self, where: Where) -> tuple[str, Content] | None:
        """The content of a package, and the signature of the files that it was computed under."""
        with self._lock:
            return self._contents.get(where)

    def keep_content(self, where: Where, signature: str, content: Content) -> None:
        """Keep what a package holds."""
        with self._lock:
            self._contents[where] = (signature, content)
            if len(self._contents) > _DIGESTS_KEPT:
                self._contents.popitem(last=False)

    def forget(self, where: Where | None = None) -> None:
        """Forget what is kept of one skill, or of all."""
        with self._lock:
            if where is None:
                self._documents.clear()
                self._characters = 0
                self._contents.clear()
            else:
                self._drop(where)
                self._contents.pop(where, None)
