"""`metier read`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.barred import Barred, warn
from metier.cli.library import library_of
from metier.skill import shown

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    library = library_of(options)
    # A person must be able to look at what is denied; a session hands out nothing of it.
    warn(Barred(library).among([library.get(options.name)]))
    if options.file is None:
        data = (library.document(options.name).body + "\n").encode(errors="surrogateescape")
    else:
        data = library.read(options.name, options.file)
    if sys.stdout.isatty():
        # A person looks: what acts on a terminal is shown instead of sent.
        for line in data.decode(errors="replace").splitlines():
            print("\t".join(shown(part, limit=100_000) for part in line.split("\t")))
    else:
        sys.stdout.buffer.write(data)
    return 0
