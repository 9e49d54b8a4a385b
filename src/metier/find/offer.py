"""Choosing what goes into a catalog: nothing is searched or indexed when all skills fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.find.catalog import Card, Writer, chosen, everything, pinned
from metier.find.listed import Listed
from metier.find.query import Query
from metier.find.search import searchable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from metier.find.catalog import Catalog
    from metier.find.render import Format
    from metier.find.search import Finder
    from metier.library import Caller, Entry, Machine
    from metier.library.snapshot import Snapshot, View


def offer(
    finder: Callable[[], Finder],
    snapshot: Snapshot,
    caller: Caller,
    *,
    budget: int,
    query: str | None,
    pins: Sequence[str],
    names: Collection[str] | None,
    format: Format,  # noqa: A002
    search_tool: str,
    machine: Machine | None,
) -> Catalog:
    """The catalog of a library for a caller."""
    view = snapshot.view(caller)
    writer = Writer(format, budget, search_tool)
    listed = Listed(machine, names)
    allowed = None if names is None else frozenset(names)
    entries = (entry for name, entry in view.active.items() if allowed is None or name in allowed)
    asked = None if query is None else Query.of_prompt(searchable(query))
    complete = everything(entries, listed, writer)
    if complete is not None:
        _, unplaced = pinned(pins, lambda name: _get(view, name), listed)
        return replace(complete, unplaced_pins=unplaced)
    listed = Listed(machine, names)
    cards, unplaced = pinned(pins, lambda name: _get(view, name), listed)
    total, groups = finder().overview(snapshot, caller, listed)
    if asked is not None and asked.text.strip():
        results = finder().search(snapshot, caller, asked, writer.most_cards + len(cards), listed)
        relevant = [Card.of(result.entry) for result in results]
    else:
        relevant = [Card.of(entry) for entry in _first(view, snapshot, listed, allowed, writer.most_cards + len(cards))]
    return chosen(
        writer,
        pins=cards,
        relevant=relevant,
        total=total,
        groups=groups,
        withheld=listed.withheld,
        unplaced=unplaced,
    )


def _get(view: View, name: str) -> Entry | None:
    try:
        return view.get(name)
    except MetierError:
        return None


def _first(view: View, snapshot: Snapshot, listed: Listed, allowed: Collection[str] | None, most: int) -> list[Entry]:
    """Without a prompt to go by: the strongest layers first, by name."""
    found: list[Entry] = []
    for layer in snapshot.order:
        for name, entry in view.active.items():
            if entry.layer != layer or (allowed is not None and name not in allowed):
                continue
            if listed(entry):
                found.append(entry)
            if len(found) >= most:
                return found
    return found
