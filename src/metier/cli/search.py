"""`metier search`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier.find
from metier.cli.output import Progress, Style, plural, print_json, table
from metier.cli.parser import Parser, library_of, positive
from metier.cli.policy_view import PolicyView, warn_of_denied

if TYPE_CHECKING:
    from metier import Library
    from metier.cli.policy_view import PolicyStatus
    from metier.library import Entry


def add(parser: Parser) -> None:
    parser.example('metier search "plot a csv file" tag:data -k 3')
    parser.library()
    parser.option("query", "QUERY", 'words, "a phrase", /name, tag:NAME, layer:NAME; quoted for the shell', nargs="+")
    parser.option("-k", "N", "how many at most (default: 10)", type=positive, default=10)
    parser.flag("--for-models", "only what models may find: ready, and not for people only")
    parser.json()


def run(options: Namespace) -> None:
    library = library_of(options)
    update_index(library)
    # A person may use skills that models are not shown; on behalf of an agent it is what its model would find.
    query = " ".join(options.query)
    for_people = options.agent is None and not options.for_models
    policy = PolicyView(library)
    names = None if for_people else policy.names()
    results = library.search(
        query, options.k, include_unlisted=for_people, names=names, listing=policy.governance.listings
    )
    statuses = policy.among(result.entry for result in results)
    if options.json:
        shapes = [
            {
                "name": result.name,
                "score": result.score,
                "description": result.description,
                "layer": result.layer,
                "why": result.why,
            }
            | ({"policy": statuses[result.entry].as_json()} if result.entry in statuses else {})
            for result in results
        ]
        print_json(shapes)
        return
    warn_of_denied(statuses)
    style = Style(sys.stdout)
    if not results:
        print(_nothing(library, query))
        return
    rows = [
        (
            result.name,
            f"{result.score:.2f}",
            result.layer,
            _why(result.why, result.entry, statuses.get(result.entry)),
            " ".join(result.description.split()),
        )
        for result in results
    ]
    paint = {0: style.strong, 1: style.dim, 2: style.dim, 3: style.good}
    print(table(style, ("NAME", "SCORE", "LAYER", "WHY", "DESCRIPTION"), rows, paint=paint, most_lines=3))
    print(style.dim(f"`metier show {results[0].name}` shows more of the first."))


def update_index(library: Library) -> None:
    """Bring the search index up to date, with a progress line when that takes a while."""
    progress: list[Progress] = []

    def step(done: int, total: int) -> None:
        if not progress:
            progress.append(Progress("Indexing", total))
        progress[0].reach(done)

    library.update_index(step)
    for one in progress:
        one.end()


def _nothing(library: Library, text: str) -> str:
    """Explain an empty result, with advice."""
    if not len(library):
        return "No skills here. `metier doctor` shows where they are looked for; `metier new NAME` writes one."
    query = metier.find.Query.read(text)
    filters = [f"tag:{tag}" for tag in query.tags] + [f"layer:{layer}" for layer in query.layers]
    if query.only_phrases:
        return f"No skill has that phrase. Without the quotes: {_count(library, query.text.replace(chr(34), ' '))}."
    if filters:
        said = Style.text(" ".join(filters))
        if not query.stems:
            return f"No skill has {said}. `metier list --json` shows the tags of each."
        return f"Nothing fits with {said}. Without: {_count(library, query.text)}."
    if not query.stems:
        return "There is no word to search for in that. Say what the skill should do."
    return f"Nothing fits among {plural(len(library), 'skill')}. Try other words; `metier list` shows them all."


def _count(library: Library, text: str) -> str:
    return plural(len(library.search(text, 100, include_unlisted=True)), "skill")


def _why(why: str, entry: Entry, status: PolicyStatus | None) -> str:
    state = entry.readiness()
    notes = [] if state.is_ready else [str(state)]
    if entry.is_hidden_from_models:
        notes.append("not for models")
    if status is not None:
        notes.append(status.status)
    return f"{why} ({'; '.join(notes)})" if notes else why
