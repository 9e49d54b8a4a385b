"""`metier search`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.library import indexed, library_of
from metier.cli.output import Style, plural, print_json, table

if TYPE_CHECKING:
    import argparse

    from metier.library import Entry


def run(options: argparse.Namespace) -> int:
    library = library_of(options)
    indexed(library)
    # A person may use skills that models are not shown; on behalf of an agent it is what its model would find.
    query = " ".join(options.query)
    results = library.search(query, options.k, include_unlisted=options.agent is None)
    if options.json:
        shapes = [
            {
                "name": result.name,
                "score": result.score,
                "description": result.description,
                "layer": result.layer,
                "why": result.why,
            }
            for result in results
        ]
        print_json(shapes)
        return 0
    style = Style(sys.stdout)
    if not results:
        print(f"Nothing fits among {plural(len(library), 'skill')}. Try other words; `metier list` shows them all.")
        return 0
    rows = [
        (
            result.name,
            f"{result.score:.2f}",
            result.layer,
            _why(result.why, result.entry),
            _one_line(result.description),
        )
        for result in results
    ]
    paint = {0: style.strong, 1: style.dim, 2: style.dim, 3: style.good}
    print(table(style, ("NAME", "SCORE", "LAYER", "WHY", "DESCRIPTION"), rows, paint=paint))
    print(style.dim(f"`metier show {results[0].name}` shows more of the first."))
    return 0


def _why(why: str, entry: Entry) -> str:
    state = entry.readiness()
    notes = [] if state.is_ready else [str(state)]
    if entry.is_hidden_from_models:
        notes.append("not for models")
    return f"{why} ({'; '.join(notes)})" if notes else why


def _one_line(description: str) -> str:
    return " ".join(description.split())
