"""The scanner: looks for signs of an attack in a skill, and says what it found and where.

It reads and never runs, imports or fetches anything of a skill. Its findings can only tighten a decision. This room
imports `skill` alone; `guard` decides with its findings.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.scan.external import ExternalScanner as ExternalScanner
    from metier.scan.external import scanner_of as scanner_of
    from metier.scan.finding import SEVERITIES as SEVERITIES
    from metier.scan.finding import Finding as Finding
    from metier.scan.finding import Severity as Severity
    from metier.scan.pack_store import PackRef as PackRef
    from metier.scan.reading import view_of as view_of
    from metier.scan.report import ScanReport as ScanReport
    from metier.scan.rule import Hit as Hit
    from metier.scan.rule import ScanRule as ScanRule
    from metier.scan.sarif import read_sarif as read_sarif
    from metier.scan.sarif import sarif_of as sarif_of
    from metier.scan.scanner import scan as scan
    from metier.scan.suppression import Suppression as Suppression
    from metier.scan.suppression import read_suppressions as read_suppressions
    from metier.scan.view import OpaqueFile as OpaqueFile
    from metier.scan.view import Part as Part
    from metier.scan.view import SkillView as SkillView
    from metier.scan.view import ViewFile as ViewFile

__getattr__, __dir__, __all__ = lazy_names(__name__)
