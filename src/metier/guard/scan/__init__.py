"""The scanner: looks for signs of an attack in a skill, and says what it found and where.

It reads and never runs, imports or fetches anything of a skill. What it finds can only tighten a decision.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.guard.scan.external import ExternalScanner, scanner_of
    from metier.guard.scan.finding import SEVERITIES, Finding, Severity
    from metier.guard.scan.reading import view_of
    from metier.guard.scan.report import Report
    from metier.guard.scan.rule import Hit, Rule
    from metier.guard.scan.sarif import sarif_of
    from metier.guard.scan.sarif_in import read_sarif
    from metier.guard.scan.scanner import scan
    from metier.guard.scan.suppression import Suppression, read_suppressions
    from metier.guard.scan.view import OpaqueFile, Part, View, ViewFile

_NAMES = {
    "SEVERITIES": "metier.guard.scan.finding",
    "ExternalScanner": "metier.guard.scan.external",
    "Finding": "metier.guard.scan.finding",
    "Hit": "metier.guard.scan.rule",
    "OpaqueFile": "metier.guard.scan.view",
    "Part": "metier.guard.scan.view",
    "Report": "metier.guard.scan.report",
    "Rule": "metier.guard.scan.rule",
    "Severity": "metier.guard.scan.finding",
    "Suppression": "metier.guard.scan.suppression",
    "View": "metier.guard.scan.view",
    "ViewFile": "metier.guard.scan.view",
    "read_sarif": "metier.guard.scan.sarif_in",
    "read_suppressions": "metier.guard.scan.suppression",
    "sarif_of": "metier.guard.scan.sarif",
    "scan": "metier.guard.scan.scanner",
    "scanner_of": "metier.guard.scan.external",
    "view_of": "metier.guard.scan.reading",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "SEVERITIES",
    "ExternalScanner",
    "Finding",
    "Hit",
    "OpaqueFile",
    "Part",
    "Report",
    "Rule",
    "Severity",
    "Suppression",
    "View",
    "ViewFile",
    "read_sarif",
    "read_suppressions",
    "sarif_of",
    "scan",
    "scanner_of",
    "view_of",
]
