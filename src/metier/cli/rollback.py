"""`metier rollback`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from metier.cli.identity import acting
from metier.cli.library import library_of
from metier.cli.output import Style, print_json
from metier.guard import Guard
from metier.hub.history import rollback
from metier.hub.homes import find_home

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    with acting(options, decides=True) as (scope, person):
        home = find_home(library_of(options), scope, options.name)
        version = rollback(
            scope,
            person,
            home,
            to=options.to,
            reason=options.reason,
            environment=options.environment or "",
            guard=Guard(),
        )
    if options.json:
        print_json({"version": asdict(version)})
        return 0
    style = Style(sys.stdout)
    print(
        f"{style.good('✓')} {Style.text(home.ref)} is version {version.number} now. {Style.text(version.reason, 1_000)}"
    )
    print(style.dim(f"  {version.digest}"))
    return 0
