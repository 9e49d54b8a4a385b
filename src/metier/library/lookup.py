"""The members of an index of skills that other rooms use: `SkillIndex` has them, and `metier.Library`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.library.change import Change
    from metier.library.content import Content
    from metier.library.entry import Entry
    from metier.library.layers import Caller, Place
    from metier.library.snapshot import Snapshot
    from metier.skill import Document, Package


class SkillLookup(Protocol):
    """Skills by name, with their documents, files and digests."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def places(self) -> tuple[Place, ...]: ...

    def latest(self) -> Snapshot: ...

    def get(self, name: str) -> Entry: ...

    def entries(self, *, all: bool = False) -> tuple[Entry, ...]: ...  # noqa: A002

    def __iter__(self) -> Iterator[Entry]: ...

    def __len__(self) -> int: ...

    def document(self, name: str) -> Document: ...

    def package(self, name: str) -> Package: ...

    def digest(self, name: str | Entry) -> str: ...

    def content(self, name: str | Entry) -> Content: ...

    def refresh(self) -> Change: ...

    def changes(self, before: Snapshot, after: Snapshot) -> Change: ...
