"""`metier help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.parser import make_parser

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    parser = make_parser(lazily=True)
    if options.words:
        # Ends with the exit code of what `--help` behind the words says.
        parser.parse_args([*options.words, "--help"])
    parser.print_help()
    return 0
