"""How good the scanner is on skills that somebody labelled, and what it costs.

    python benchmarks/scanner.py --malicious FOLDER --benign FOLDER [--vendors FOLDER] [--json] [--check]
    python benchmarks/scanner.py --injected FOLDER --bases FOLDER

A folder holds skills, each in a folder of its own at the top. A skill counts as flagged when anything below it is found
to be at least `high`. Where skills that carry an injection are given with the clean ones they were made from, both
shares stand side by side: a rule that raises both says nothing. Without any folder the skills that come with the
package are scanned.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import metier
from _limits import limit
from _table import add_options, mark, report
from metier.scan.finding import rank
from metier.scan.scanner import scan
from metier.skill import FolderPackage

KINDS = ("malicious", "benign", "vendors", "injected", "bases", "bundled")


class Row(NamedTuple):
    """What came of one folder."""

    kind: str
    skills: int
    high: float
    """The share that is flagged."""
    medium: float
    """The share that would be at the next lower severity."""
    ms: float
    """CPU time of one skill, on average."""

    @property
    def holds(self) -> bool | None:
        allowed = limit("scanner", self.kind)
        return None if allowed is None else allowed.holds(self.high)


def measured(kind: str, folder: Path) -> Row:
    """Every skill of a folder, scanned."""
    tops = sorted(path for path in folder.iterdir() if path.is_dir())
    worst = []
    start = time.process_time()
    for top in tops:
        found = [scan(FolderPackage(skill), folder=skill.name).max_severity for skill in skills_below(top)]
        if found:
            worst.append(max(rank(severity) for severity in found))
    if not worst:
        raise SystemExit(f"There is no skill in {folder}.")
    seconds = time.process_time() - start
    high, medium = (sum(severity >= rank(least) for severity in worst) / len(worst) for least in ("high", "medium"))
    return Row(kind, len(worst), high, medium, seconds / len(worst) * 1000)


def skills_below(top: Path) -> list[Path]:
    """The folders with a SKILL.md, however it is written."""
    return sorted({path.parent for path in top.rglob("*") if path.name.lower() == "skill.md" and path.is_file()})


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    shares = f"{row.high:.1%}", f"{row.medium:.1%}"
    return row.kind, f"{row.skills:,}", *shares, f"{row.ms:.1f}", str(limit("scanner", row.kind) or ""), mark(row)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for kind in KINDS:
        if kind != "bundled":
            parser.add_argument(f"--{kind}", type=Path, metavar="FOLDER")
    add_options(parser)
    options = parser.parse_args(arguments)
    folders = {kind: getattr(options, kind) for kind in KINDS if getattr(options, kind, None)}
    rows = [measured(kind, folder) for kind, folder in folders.items()]
    if not rows:
        rows = [measured("bundled", Path(metier.__file__).parent / "bundled")]
    head = ("", "skills", "high", "medium", "ms CPU", "", "")
    return report(rows, options, "The share of skills that are flagged", cells, head)


if __name__ == "__main__":
    sys.exit(main())
