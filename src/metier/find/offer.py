"""Choosing what goes into a catalog: nothing is searched or indexed when all skills fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.find.catalog import LEAST_DESCRIPTION, Card, Writer, chosen, everything, pinned
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
    search_tool: str | None,
    machine: Machine | None,
    mount: str = "",
    bare: Collection[str] = (),
) -> Catalog:
    """The catalog of a library for a caller."""
    view = snapshot.view(caller)
    writer = Writer(format, budget, search_tool, mount=mount)
    listed = Listed(machine, names, bare)
    allowed = None if names is None else frozenset(names)
    entries = (entry for name, entry in view.active.items() if allowed is None or name in allowed)
    asked = None if query is None else Query.of_prompt(searchable(query))
    # With a prompt, a few well described skills serve better than the names of all.
    is_asked = asked is not None and bool(asked.text.strip())
    complete = everything(entries, listed, writer, least=LEAST_DESCRIPTION if is_asked else 0)
    if complete is not None:
        _, unplaced = pinned(pins, lambda name: _get(view, name), listed)
        return replace(complete, unplaced_pins=unplaced)
    listed = Listed(machine, names, bare)
    cards, unplaced = pinned(pins, lambda name: _get(view, name), listed)
    total, groups = finder().overview(snapshot, caller, listed)
    most = writer.most_cards + len(cards)
    best = [result.entry for result in finder().search(snapshot, caller, asked, most, listed)] if asked else []
    others = _first(view, snapshot, listed, allowed, most) if len(best) < most else []
    relevant = [Card.of(entry, listed) for entry in dict.fromkeys((*best, *others))]
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
    """What to show where no prompt says more: the strongest layers first, by name."""
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
