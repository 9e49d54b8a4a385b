"""The words of `metier scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.cli.parser import Command

# As `metier.scan.SEVERITIES` has them; every command would pay for importing it here.
_SEVERITIES = ("info", "low", "medium", "high", "critical")


def add(command: Command) -> None:
    """Add them to the parser."""
    added = command(
        "scan", "look for signs of an attack in skills, without running anything", "metier scan ./skills", library=True
    )
    added.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a SKILL.md, a skill's folder, a folder of skills, an archive; or the name of a skill that is there",
    )
    added.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        choices=_SEVERITIES,
        default="high",
        help=f"exit with 1 from this severity on: {', '.join(_SEVERITIES)} (default: high)",
    )
    added.add_argument("--suppressions", metavar="FILE", help="findings that somebody takes responsibility for (YAML)")
    added.add_argument(
        "--import",
        metavar="FILE",
        action="append",
        default=[],
        dest="imported",
        help="add what another scanner found (SARIF 2.1.0); may be given again",
    )
    added.add_argument(
        "--with",
        metavar="COMMAND",
        action="append",
        default=[],
        dest="scanners",
        help="run another scanner that writes SARIF, with {dir} for the skill's folder; may be given again",
    )
    added.add_argument(
        "--keep",
        action="store_true",
        help="also run the scanners that policy names, and keep what all of them say for whoever decides",
    )
    form = added.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON for a program to read")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0")
