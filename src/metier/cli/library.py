"""The library that a command works on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier import Library
from metier.cli.output import Progress

if TYPE_CHECKING:
    import argparse

    from metier import Library as Searchable
    from metier.library import Entry


def library_of(options: argparse.Namespace, *, start: str | None = None) -> Library:
    """The folders named with `--skills`, else the places of this machine, user and project; as its caller sees it.

    The project is the one around `start`, by default around here.
    """
    folders = [*(options.skills_before or []), *(getattr(options, "skills_after", None) or [])]
    cache = not (options.no_cache_before or getattr(options, "no_cache_after", False))
    library = Library.from_folder(*folders, cache=cache) if folders else Library.discover(start, cache=cache)
    who = {key: getattr(options, key, None) for key in ("agent", "tenant", "environment")}
    if who["tenant"] is None and "METIER_API_TOKEN" in os.environ:
        from metier.cli.identity import token_tenant

        who["tenant"] = token_tenant()
    return library.as_caller(**who)


def out_of_scope(library: Library) -> list[Entry]:
    """Skills that are not there for the caller; whoever runs this command may know of them."""
    return [entry for entry in library.snapshot.entries if not entry.is_visible_to(library.caller)]


def indexed(library: Searchable) -> None:
    """Bring the search index up to date, and say how far it is when that takes a while."""
    progress: list[Progress] = []

    def step(done: int, total: int) -> None:
        if not progress:
            progress.append(Progress("Indexing", total))
        progress[0].reach(done)

    library.update_index(step)
    for shown in progress:
        shown.end()
