"""What a package holds, by hashes: enough to know whether a text that was read is the one that was decided about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.skill.files import digest_of

if TYPE_CHECKING:
    from metier.skill.files import DigestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The digest of a package, and the hashes of its Markdown files.

    >>> from metier.skill.files import DigestEntry
    >>> b"x" * 32 in Content.of([DigestEntry("SKILL.md", "file", b"x" * 32)]).texts
    True
    """

    digest: str
    texts: frozenset[bytes]

    @classmethod
    def of(cls, entries: list[DigestEntry]) -> Content:
        """Of all files of a package."""
        texts = (one.content for one in entries if one.mode != "link" and one.path.lower().endswith(".md"))
        return cls(digest=digest_of(entries), texts=frozenset(texts))
