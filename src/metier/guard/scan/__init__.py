"""The scanner: looks for signs of an attack in a skill, and says what it found and where.

It reads and never runs, imports or fetches anything of a skill. What it finds can only tighten a decision.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.guard.scan.external import ExternalScanner as ExternalScanner
    from metier.guard.scan.external import scanner_of as scanner_of
    from metier.guard.scan.finding import SEVERITIES as SEVERITIES
    from metier.guard.scan.finding import Finding as Finding
    from metier.guard.scan.finding import Severity as Severity
    from metier.guard.scan.reading import view_of as view_of
    from metier.guard.scan.report import Report as Report
    from metier.guard.scan.rule import Hit as Hit
    from metier.guard.scan.rule import Rule as Rule
    from metier.guard.scan.sarif import sarif_of as sarif_of
    from metier.guard.scan.sarif_in import read_sarif as read_sarif
    from metier.guard.scan.scanner import scan as scan
    from metier.guard.scan.suppression import Suppression as Suppression
    from metier.guard.scan.suppression import read_suppressions as read_suppressions
    from metier.guard.scan.view import OpaqueFile as OpaqueFile
    from metier.guard.scan.view import Part as Part
    from metier.guard.scan.view import View as View
    from metier.guard.scan.view import ViewFile as ViewFile

__getattr__, __dir__, __all__ = lazy_names(__name__)
