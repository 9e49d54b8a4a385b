"""Other scanners: a command that an administrator names, run on a copy of a skill, whose SARIF is read.

This room starts nothing: whoever uses it says how a command is started. Whatever goes wrong is an error, and never a
report without findings.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument, MetierError
from metier.scan.finding import FAILURE
from metier.scan.report import ScanReport
from metier.scan.sarif import read_sarif
from metier.skill import is_valid_name, shown
from metier.skill.package import checked_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.scan.finding import Finding
    from metier.skill import Package

FOLDER = "{dir}"
"""What stands in a command for the folder with the copy."""


class Ended(NamedTuple):
    """What became of a command that was started."""

    exit_code: int
    stdout: str
    why_not: str = ""
    """Why its output cannot be used: it took too long, wrote too much, or never began."""


Start: TypeAlias = "Callable[[tuple[str, ...], str], Ended]"
"""Starts a program, given by its words, in a working folder, and waits for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScanner:
    """A command that scans a folder and writes SARIF 2.1.0.

    >>> scanner_of("skill-scanner scan {dir} --format sarif").argv
    ('skill-scanner', 'scan', '{dir}', '--format', 'sarif')
    """

    argv: tuple[str, ...]
    """Its words; `{dir}` in any of them is the folder."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return shown(os.path.basename(self.argv[0]), 60)

    def scan(self, package: Package, start: Start, *, folder: str = "") -> tuple[Finding, ...]:
        """What it finds in a copy of the package; raises `MetierError` when that cannot be told.

        Scanners end with all kinds of exit codes when they find something, so what they write counts: SARIF, whole.
        """
        with _copy(package, folder) as (scratch, copy):
            ended = start(tuple(word.replace(FOLDER, copy) for word in self.argv), scratch)
            if ended.why_not:
                raise _failed(self.name, ended.why_not)
            try:
                return read_sarif(ended.stdout.encode(errors="surrogateescape"), root=copy)
            except InvalidArgument as error:
                raise _failed(self.name, f"it ended with {ended.exit_code}. {error.message}") from None

    def report(self, package: Package, start: Start, *, name: str = "", digest: str = "") -> ScanReport:
        """What it says to a package of this name and digest, as a report of its own: failed, if anything went wrong."""
        started = time.monotonic()
        report = ScanReport(name=name, digest=digest)
        try:
            report = report.with_findings(self.scan(package, start, folder=name))
        except MetierError as error:
            report = report.failed(error.message)
        report = replace(report, ms=(time.monotonic() - started) * 1000)
        unfinished = next((found.message for found in report.findings if found.rule == FAILURE), "")
        return replace(report, status="error", error=unfinished) if unfinished else report


def scanner_of(command: str) -> ExternalScanner:
    """The scanner that a line names; raises `InvalidArgument`. The line is never given to a shell."""
    try:
        words = tuple(shlex.split(command.removeprefix("cmd:").strip()))
    except ValueError:
        words = ()
    if not words or FOLDER in words[0] or not any(FOLDER in word for word in words):
        raise InvalidArgument(
            f"{shown(command)!r} is no command that scans a folder.",
            hint="Write {dir} where the folder belongs: `skill-scanner scan {dir} --format sarif`.",
        )
    return ExternalScanner(argv=words)


def _failed(name: str, why: str) -> MetierError:
    return MetierError(
        f"The scanner {name} gave no result: {shown(why, 300).rstrip('.')}.",
        hint="Run it by hand on the skill's folder to see what it says.",
    )


@contextlib.contextmanager
def _copy(package: Package, folder: str) -> Iterator[tuple[str, str]]:
    """A folder that nobody else may enter, and in it the files of a package: no links, nothing executable."""
    scratch = os.path.realpath(tempfile.mkdtemp(prefix="metier-scan-"))
    try:
        root = os.path.join(scratch, folder if is_valid_name(folder) else "skill")
        os.mkdir(root)
        try:
            for entry in package.contents():
                if entry.mode != "link":
                    target = os.path.join(root, *checked_path(entry.path))
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "xb") as file:
                        file.write(package.read(entry.path))
        except OSError as error:
            raise MetierError(
                f"The skill cannot be copied for a scanner: {error.strerror or error}.",
                hint=f"Make room in {tempfile.gettempdir()}.",
            ) from None
        yield scratch, root
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
