"""External scanners: plain processes with an environment of their own and bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import MetierError
from metier.guard.inspection import PackageSnapshot
from metier.run.job import CANNOT_START, Job, Limits
from metier.run.plain import PlainRunner
from metier.scan.external import Ended, scanner_of
from metier.scan.scanner import ScanReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill import Package

SECONDS = 120.0
"""Seconds that a scanner may take for one skill."""
MAX_OUTPUT = 32 * 1024 * 1024


def start_scanner(argv: tuple[str, ...], folder: str, *, seconds: float = SECONDS) -> Ended:
    """Run a scanner to its end. It is a program that an administrator chose, so it is not kept from the network.

    >>> start_scanner(("echo", "{}"), "/")
    Ended(exit_code=0, stdout='{}\\n', why_not='')
    """
    limits = Limits(seconds=seconds, output_bytes=MAX_OUTPUT, memory_bytes=4 * 1024**3, open_files=1024)
    outcome = PlainRunner().run_blocking(Job(argv=argv, folder=folder, limits=limits, network="host", sandbox=False))
    why_not = ""
    if outcome.timed_out:
        why_not = f"it took longer than {seconds:g} s"
    elif outcome.stdout_truncated:
        why_not = f"it wrote more than {MAX_OUTPUT:,} bytes"
    elif outcome.killed_by is not None:
        why_not = f"it was ended ({outcome.killed_by})"
    elif outcome.exit_code == CANNOT_START and not outcome.stdout:
        why_not = outcome.stderr.strip() or "it cannot be started"
    return Ended(outcome.exit_code, outcome.stdout, why_not)


def reports_of(commands: Mapping[str, str], package: Package, *, name: str, digest: str) -> dict[str, ScanReport]:
    """The reports of the scanners of a policy on the content of a digest, by their names in the policy.

    A scanner that cannot be run, gives no result, or would see other files than those of the digest has failed.
    """
    if not commands:
        return {}
    empty = ScanReport(name=name, digest=digest)
    try:
        snapshot = PackageSnapshot(package, digest)
    except (MetierError, OSError) as error:
        failed = empty.failed(f"The skill cannot be copied for a scanner: {error}")
        return {engine: _by(engine, failed) for engine in commands}
    return {engine: _by(engine, _report(command, snapshot, empty)) for engine, command in commands.items()}


def _report(command: str, snapshot: PackageSnapshot, empty: ScanReport) -> ScanReport:
    try:
        scanner = scanner_of(command)
    except MetierError as error:
        return empty.failed(error.message)
    return scanner.report(snapshot, start_scanner, name=empty.name, digest=empty.digest)


def _by(engine: str, report: ScanReport) -> ScanReport:
    """A report whose findings are those of one engine, whatever it calls itself."""
    return replace(report, findings=tuple(replace(found, engine=engine) for found in report.findings))
