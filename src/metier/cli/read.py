"""`metier read`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.library import library_of
from metier.skill import shown

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    library = library_of(options)
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
