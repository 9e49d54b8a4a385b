"""The library as the rooms above use it: an index of skills that can be searched and shown to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from metier.library.index import SkillLookup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from metier.find.catalog import Catalog
    from metier.find.catalog_format import Format
    from metier.find.results import Result
    from metier.library import Entry, Machine
    from metier.skill.listing import ListingMode, Listings


class SkillLibrary(SkillLookup, Protocol):
    """The members of `metier.Library` that sessions use."""

    def search(
        self,
        query: str,
        k: int = 10,
        agent: str | None = None,
        *,
        names: Collection[str] | None = None,
        machine: Machine | None = None,
        listing: Mapping[str, ListingMode] | Listings | None = None,
    ) -> list[Result]: ...

    def catalog(
        self,
        budget: int = ...,
        *,
        query: str | None = None,
        listing: Mapping[str, ListingMode] | Listings | None = None,
        agent: str | None = None,
        names: Collection[str] | None = None,
        format: Format = "xml",  # noqa: A002
        search_tool: str | None = "skills_search",
        machine: Machine | None = None,
        mount: str = "",
    ) -> Catalog: ...

    def select(self, *, contains: str = "", names: Collection[str] | None = None) -> tuple[Entry, ...]: ...
