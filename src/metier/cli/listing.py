"""`metier list`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.library import library_of, out_of_scope
from metier.cli.output import Progress, Style, plural, print_json, table
from metier.cli.shapes import entry_shape

if TYPE_CHECKING:
    import argparse

    from metier.library import Entry, Library


def run(options: argparse.Namespace) -> int:
    library = library_of(options)
    entries = library.entries(all=options.all)
    hidden = out_of_scope(library) if options.all else []
    if options.json:
        _print_json(entries, hidden)
        return 0
    style = Style(sys.stdout)
    if not entries and not hidden:
        print("No skills here. `metier doctor` shows where they are looked for; `metier new NAME` writes one.")
        return 0
    paint = {0: style.strong, 1: style.dim}
    if options.all:
        rows = [(entry.name, _layer(entry), entry.source, str(entry.status), _one_line(entry)) for entry in entries]
        rows += [(entry.name, _layer(entry), entry.source, "hidden", _one_line(entry)) for entry in hidden]
        print(table(style, ("NAME", "LAYER", "SOURCE", "STATUS", "DESCRIPTION"), sorted(rows), paint=paint))
    else:
        rows3 = [(entry.name, _layer(entry), _one_line(entry)) for entry in entries]
        print(table(style, ("NAME", "LAYER", "DESCRIPTION"), rows3, paint=paint))
    print(_summary(library, entries, style, options.all))
    return 0


def _print_json(entries: tuple[Entry, ...], hidden: list[Entry]) -> None:
    progress = Progress("Reading", len(entries) + len(hidden))
    shapes = []
    for number, entry in enumerate((*entries, *hidden)):
        shapes.append(entry_shape(entry, is_hidden=number >= len(entries)))
        progress.step()
    progress.end()
    print_json(sorted(shapes, key=lambda shape: str(shape["name"])))


def _layer(entry: Entry) -> str:
    return entry.layer if entry.trusted else f"{entry.layer}, untrusted"


def _one_line(entry: Entry) -> str:
    if entry.is_broken:
        return next((found.message for found in entry.diagnostics if found.severity == "error"), "mended just now")
    return " ".join(entry.description.split())


def _summary(library: Library, entries: tuple[Entry, ...], style: Style, everything: bool) -> str:
    parts = [plural(len(entries), "skill")]
    scoped = len(out_of_scope(library))
    if scoped:
        parts.append(f"{scoped:,} hidden by scope; `--agent NAME` shows what an agent sees")
    if not everything:
        others = library.entries(all=True)
        broken = sum(entry.is_broken for entry in others)
        shadowed = sum(entry.shadowed_by is not None for entry in others)
        if broken:
            parts.append(f"{broken:,} cannot be loaded")
        if shadowed:
            parts.append(f"{shadowed:,} hidden by another of the same name")
        if broken or shadowed:
            parts.append("`metier list --all` shows them")
    if any(not entry.trusted for entry in entries):
        parts.append("`metier trust` trusts this project's")
    return style.dim(". ".join(parts) + ".")
