"""`metier catalog`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from metier.cli.barred import Barred
from metier.cli.library import indexed, library_of
from metier.cli.output import Style, plural, print_json
from metier.skill.listing import Listings

if TYPE_CHECKING:
    import argparse

    from metier.find import Catalog
    from metier.skill.listing import Mode

_SHOWN = 5


def run(options: argparse.Namespace) -> int:
    library = library_of(options)
    pins: dict[str, Mode] = dict.fromkeys(options.pin or (), "pinned")
    if len(library) > 200:
        # So many hardly ever fit, and then the first catalog indexes them.
        indexed(library)
    barred = Barred(library)
    words = barred.among(library)
    catalog = library.catalog(
        options.budget,
        query=options.query,
        format=options.format,
        names=barred.names(),
        listing=barred.governance.listings + Listings.of(pins, "--pin"),
    )
    kept = {entry.name: word.sentence for entry, word in words.items() if word.is_kept_from_models}
    catalog = replace(catalog, withheld={**catalog.withheld, **kept})
    if options.json:
        print_json(
            {
                "text": catalog.text,
                "size": catalog.size,
                "budget": catalog.budget,
                "rung": catalog.rung,
                "shown": list(catalog.shown),
                "shortened": list(catalog.shortened),
                "named": list(catalog.named),
                "left_out": catalog.left_out,
                "withheld": dict(catalog.withheld),
                "unplaced_pins": dict(catalog.unplaced_pins),
            }
        )
        return 0
    if catalog.text:
        # Exactly the text and one line feed: what a model would be given can be piped.
        print(catalog.text)
    _explain(catalog, Style(sys.stderr))
    return 0


def _explain(catalog: Catalog, style: Style) -> None:
    """What was cut and why, on standard error."""
    if catalog.rung == "none":
        said = ["No skill to show" + ("" if catalog.withheld else "; `metier doctor` shows where they are looked for")]
    else:
        said = [f"{catalog.size:,} of {catalog.budget:,} bytes, {plural(len(catalog.shown), 'skill')} shown"]
    if catalog.shortened:
        said.append(f"{len(catalog.shortened):,} shortened")
    if catalog.named:
        said.append(f"{len(catalog.named):,} by name only")
    if catalog.left_out:
        said.append(f"{catalog.left_out:,} left out")
    for reasons, what in ((catalog.withheld, "withheld"), (catalog.unplaced_pins, "pins not placed")):
        if reasons:
            first = "; ".join(f"{Style.text(name)} ({why})" for name, why in list(reasons.items())[:_SHOWN])
            more = f" and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
            said.append(f"{what}: {first}{more}")
    print(style.dim(", ".join(said)), file=sys.stderr)
