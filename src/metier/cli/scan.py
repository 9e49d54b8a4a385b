"""`metier scan`."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from metier.cli.output import Progress, print_json
from metier.cli.scan_keeping import keeper_of
from metier.cli.scan_places import places_of, spread
from metier.cli.scan_text import print_kept, print_scanned
from metier.errors import InvalidArgument, PolicyInvalid
from metier.scan.finding import rank
from metier.scan.scanner import Report, scan
from metier.source import expanded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from metier.cli.scan_keeping import Keeper
    from metier.cli.scan_places import Place
    from metier.scan.external import ExternalScanner
    from metier.scan.finding import Finding
    from metier.scan.suppression import Suppression
    from metier.store import ScanRow

MAX_SUPPRESSIONS = 64 * 1024
_NOTHING = Report(name="", digest="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A skill and what scanning it said."""

    path: str
    """Where its SKILL.md is."""
    report: Report
    kept: tuple[ScanRow, ...] = ()
    """What the store has of it now."""

    def as_json(self) -> dict[str, Any]:
        kept = [{name: value for name, value in asdict(row).items() if name != "findings"} for row in self.kept]
        return {"path": self.path, **self.report.as_dict(), "kept": kept}


def run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    scanning = _Scanning(
        suppressions=_suppressions(options.suppressions) if options.suppressions else (),
        scanners=_scanners(options),
    )
    imported = {path: _imported(path) for path in options.imported}
    places = places_of(options)
    own: dict[str, list[Finding]] = {}
    strays: dict[str, list[Finding]] = {}
    for path, findings in imported.items():
        homes, strays[path] = spread(findings, places.found, options.paths)
        for location, more in homes.items():
            own.setdefault(location, []).extend(more)
    found: list[Scanned] = []
    with keeper_of(options) as keeper:
        progress = Progress("Scanning", len(places.found))
        for place in places.found.values():
            progress.step()
            found.append(scanning.look_at(place, own.get(place.location, ()), keeper))
        progress.end()
    failed = {**places.refused, **dict.fromkeys(places.missing, "There is nothing of that name.")}
    found += [Scanned(path=path, report=_NOTHING.failed(why)) for path, why in failed.items()]
    found += [
        Scanned(path=path, report=scanning.with_findings(_NOTHING, more)) for path, more in strays.items() if more
    ]
    _print(found, options, time.monotonic() - started)
    is_bad = any(one.report.status == "error" or _is_at(one.report, options.fail_on) for one in found)
    return 2 if places.missing else 1 if is_bad else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanning:
    """How skills are looked at."""

    suppressions: tuple[Suppression, ...]
    scanners: tuple[ExternalScanner, ...]

    def look_at(self, place: Place, imported: Sequence[Finding], keeper: Keeper | None) -> Scanned:
        report = own = scan(place.package, suppressions=self.suppressions, folder=place.folder)
        others: dict[str, Report] = {}
        kept: tuple[ScanRow, ...] = ()
        if keeper is not None and own.digest:
            others = keeper.others(place, own)
            kept = keeper.keep(place, own, others, imported)
        for other in (*others.values(), *self._beside(place, own)):
            report = self.with_findings(report, other.findings)
            if other.status == "error":
                report = replace(report, status="error", error=f"{report.error} {other.error}".strip())
        return Scanned(path=place.location, report=self.with_findings(report, imported), kept=kept)

    def _beside(self, place: Place, own: Report) -> list[Report]:
        if not self.scanners:
            return []
        from metier.run.external_scanner import start_scanner

        return [scanner.report(place.package, start_scanner, name=own.name) for scanner in self.scanners]

    def with_findings(self, report: Report, more: Iterable[Finding]) -> Report:
        return report.with_findings(more, self.suppressions)


def _print(found: Sequence[Scanned], options: argparse.Namespace, seconds: float) -> None:
    if options.json:
        print_json({"skills": [one.as_json() for one in found]})
    elif options.sarif:
        from metier.scan.sarif import sarif_of

        log = sarif_of([(_relative(os.path.dirname(one.path)), one.report) for one in found])
        print(json.dumps(log, indent=2))
    else:
        print_scanned([(one.path, one.report) for one in found], options.fail_on, seconds)
        if options.keep:
            print_kept([row for one in found for row in one.kept])


def _is_at(report: Report, severity: str) -> bool:
    return rank(report.max_severity) >= rank(severity)


def _suppressions(path: str) -> tuple[Suppression, ...]:
    from metier.scan.suppression import read_suppressions

    try:
        text = _read(path, MAX_SUPPRESSIONS).decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path!r} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    try:
        return read_suppressions(text, where=path)
    except PolicyInvalid as error:
        # A file that was named here and cannot be used is wrong usage, and must not look like a finding.
        raise InvalidArgument(error.message, hint=error.hint, **error.context) from None


def _scanners(options: argparse.Namespace) -> tuple[ExternalScanner, ...]:
    if not options.scanners:
        return ()
    if options.keep:
        # Whoever scans would else say by which scanner a content is clean.
        raise InvalidArgument(
            "Only what scanners say that policy names is kept.",
            hint="Name the scanner in `scan.engines` of a policy file, or leave out --with or --keep.",
        )
    from metier.scan.external import scanner_of

    return tuple(scanner_of(command) for command in options.scanners)


def _imported(path: str) -> tuple[Finding, ...]:
    from metier.scan.sarif_in import MAX_BYTES, read_sarif

    # Below the root every absolute path is relative, so that it can be told which skill it lies in.
    return read_sarif(_read(path, MAX_BYTES), root="/")


def _read(path: str, limit: int) -> bytes:
    try:
        with open(expanded(path), "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise InvalidArgument(f"{path!r} cannot be read: {error.strerror}.", hint="Check the path.") from None
    if len(data) > limit:
        raise InvalidArgument(f"{path!r} has more than {limit:,} bytes.", hint="Name the right file.")
    return data


def _relative(folder: str) -> str:
    """A folder as seen from here, where it is below; code hosts show findings by such paths."""
    here = os.getcwd()
    return os.path.relpath(folder, here) if folder.startswith(os.path.join(here, "")) else folder
