"""`metier trust` and `metier untrust`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metier.cli.output import Style
from metier.library.places import project_root
from metier.library.trust import TrustStore

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    store = TrustStore()
    style = Style(sys.stdout)
    if getattr(options, "list_trusted", False):
        for folder in store.trusted():
            print(Style.text(str(folder), 4_096))
        return 0
    path = Path(os.path.realpath(options.path)) if options.path else project_root(Path.cwd())
    if options.command == "trust":
        store.trust(path)
        print(
            f"{style.good('✓')} The skills of {Style.text(str(path), 4_096)} are trusted; `metier untrust` undoes it."
        )
        return 0
    if store.untrust(path):
        print(f"{style.good('✓')} The skills of {Style.text(str(path), 4_096)} are no longer trusted.")
        if store.is_trusted(path):
            print(style.warn("A folder above it is trusted still; `metier trust --list` shows which."))
        return 0
    print(f"{Style.text(str(path), 4_096)} was not trusted. `metier trust --list` shows what is.", file=sys.stderr)
    return 1
