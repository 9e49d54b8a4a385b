"""`metier test`."""

from __future__ import annotations

from argparse import Namespace

from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.output import print_json
from metier.cli.parser import Parser, library_of
from metier.proof.report import TIERS
from metier.proof.runner import TestSettings, test_skills


def add(parser: Parser) -> None:
    parser.example("metier test pdf-forms --tier routing --tier scripts")
    parser.library()
    parser.option("names", "SKILL", "skills of the library, or folders (default: all)", nargs="*", complete="names")
    parser.option("--tier", "TIER", "only this tier (repeatable)", action="append", choices=TIERS, dest="tiers")
    parser.json()


def run(options: Namespace) -> int:
    library = library_of(options)
    entries = [library.get(name) for name in options.names] if options.names else list(library)
    report = test_skills(library, entries, TestSettings(tiers=tuple(options.tiers or TIERS)))
    print_json(report)
    return PROBLEMS if report.verdict == "failed" else FINE
