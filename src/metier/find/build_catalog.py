"""Building a catalog: nothing is searched or indexed when all skills fit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import MetierError
from metier.find.catalog import LEAST_DESCRIPTION, CatalogItem, ChosenCatalog, everything, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.find.catalog import Catalog, CatalogWriter
    from metier.find.query import Query
    from metier.find.search_engine import SearchEngine
    from metier.find.visibility import Visibility
    from metier.library import Caller, Entry
    from metier.library.snapshot import CallerView, Snapshot


def build_catalog(
    engine: Callable[[], SearchEngine],
    snapshot: Snapshot,
    caller: Caller,
    writer: CatalogWriter,
    listed: Visibility,
    query: str | None,
) -> Catalog:
    """The catalog of a library for a caller, of the skills that are listed and those most relevant to a query."""
    view = snapshot.view(caller)
    asked = None if query is None else _prompt_query(query)
    # With a prompt, a few well described skills serve better than a few words of all.
    is_asked = asked is not None and bool(asked.text.strip())
    least = LEAST_DESCRIPTION if is_asked else LEAST_DESCRIPTION // 2
    complete = everything(_entries(view, listed), listed, writer, least=least)
    pins = list(listed.listings.pins((entry.name, entry.source) for entry in view.active.values()))
    if complete is None:
        listed.withheld.clear()  # not all skills were looked at
    cards, unplaced = pinned(pins, lambda name: _get(view, name), listed)
    if complete is not None:
        return replace(complete, unplaced_pins=unplaced)
    most = writer.most_cards + len(cards)
    results = engine().search(snapshot, caller, asked, most, listed) if asked else []
    best = [result.entry for result in results if listed.mode(result.entry) != "name-only"]
    others = _first(view, snapshot, listed, most) if len(best) < most else []
    relevant = [CatalogItem.of(entry) for entry in dict.fromkeys((*best, *others))]
    choice = ChosenCatalog(writer=writer, pins=cards, relevant=relevant, withheld=listed.withheld, unplaced=unplaced)
    every = _names(_entries(view, listed), listed, writer)
    found = choice.with_all_names(every) if every is not None else None
    if found is not None:
        return found
    total, groups = engine().overview(snapshot, caller, listed)
    return choice.with_groups(_name_only(_entries(view, listed), listed, writer), total, groups)


def _prompt_query(prompt: str) -> Query:
    from metier.find.query import Query
    from metier.find.search_engine import searchable

    return Query.of_prompt(searchable(prompt))


def _entries(view: CallerView, listed: Visibility) -> Iterator[Entry]:
    return (entry for name, entry in view.active.items() if listed.only is None or name in listed.only)


def _names(entries: Iterable[Entry], listed: Visibility, writer: CatalogWriter) -> list[str] | None:
    """The names of all skills to be listed; None when they take more than their part of the budget."""
    found: list[str] = []
    room = writer.names_room
    for entry in entries:
        # The cheap look first: of thousands, most need not be looked at any closer.
        room -= writer.name_size(entry.name)
        if room < 0:
            return None
        if listed(entry):
            found.append(entry.name)
        else:
            room += writer.name_size(entry.name)
    return found


def _name_only(entries: Iterable[Entry], listed: Visibility, writer: CatalogWriter) -> list[str]:
    """The names of the skills whose mode is name-only; none when they take more than their part of the budget."""
    if not listed.listings:
        return []
    return _names((entry for entry in entries if listed.mode(entry) == "name-only"), listed, writer) or []


def _get(view: CallerView, name: str) -> Entry | None:
    try:
        return view.get(name)
    except MetierError:
        return None


def _first(view: CallerView, snapshot: Snapshot, listed: Visibility, most: int) -> list[Entry]:
    """The entries to show without a prompt: the strongest layers first, by name."""
    shown = (
        entry
        for layer in snapshot.order
        for entry in _entries(view, listed)
        if entry.layer == layer and listed(entry) and listed.mode(entry) != "name-only"
    )
    return list(itertools.islice(shown, most))
