"""Watch the hot paths: has one of them become twice as slow?

    python benchmarks/quick.py [--only ROW ...] [--json] [--renew]

Each row is the time of one hot path as a ratio to the least that anybody must do instead, measured by turns in the same
run: processor and waiting, without the turns of other programs. What is normal stands in limits.toml; a row fails at
1.6 times of it. A row that fails is measured again a few times, and the least counts, so that a noisy moment fails
nothing. No path may wait more often than is normal: for the disk, or by `time.sleep`. `--renew` writes the ratios of
this run, the median of three, into limits.toml.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from _effort import Effort, measure, waits_of
from _hot_paths import ROWS, NotHere
from _limits import TABLE, tables
from _table import add_options, mark, report

TOO_MUCH = 1.6
"""So many times what is normal fails: a path that takes twice as long surely does, noise and other machines do not."""
ROUNDS, SECONDS = 200, 0.6
"""How often a row is measured, and for how long at most."""
AGAIN = 4


class Row(NamedTuple):
    """What was measured of one hot path."""

    what: str
    us: float
    ratio: float
    normal: float | None
    waits: float
    normal_waits: float | None
    tries: int

    @property
    def factor(self) -> float:
        """How many times as slow as is normal."""
        return self.ratio / self.normal if self.normal else 1.0

    @property
    def is_quick(self) -> bool:
        times: float = tables()["quick"].get(self.what, {}).get("times", TOO_MUCH)
        return self.factor <= times

    @property
    def holds(self) -> bool:
        return self.is_quick and (self.normal_waits is None or self.waits <= self.normal_waits)


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    waits = f"{row.waits:g} of {row.normal_waits or 0:g}"
    return (
        row.what, f"{row.us:,.0f}", f"{row.ratio:,.2f}x", f"{row.normal or 0:,.2f}x", f"{row.factor:.2f}", waits,
        str(row.tries), mark(row),
    )  # fmt: skip


HEAD = ("hot path", "us", "of its baseline", "normal", "factor", "waits", "tries", "")


def measured(name: str, tries: int) -> Row:
    """One row, measured again and again while it fails."""
    normal = tables().get("quick", {}).get(name, {})
    effort = Effort()
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder, ROWS[name](Path(folder).resolve()) as case:
        waits = case.waits() if case.waits else waits_of(ROWS[name])
        for number in range(1, tries + 1):
            measure(case, effort, ROUNDS, SECONDS * number)
            row = Row(name, effort.ours / 1_000, effort.ratio, normal.get("normal"), waits, normal.get("waits"), number)
            if row.is_quick:
                break
    return row


def renew(rows: dict[str, list[Row]]) -> None:
    """Write the ratios that were measured into limits.toml, in place of those that are there."""
    text = TABLE.read_text(encoding="utf-8")
    for name, tries in rows.items():
        normal = statistics.median(row.ratio for row in tries)
        text = re.sub(rf'(?m)^("{re.escape(name)}" = {{ normal = )[\d.]+', rf"\g<1>{normal:.3g}", text)
        text = re.sub(rf'(?m)^("{re.escape(name)}" = .* waits = )[\d.]+', rf"\g<1>{tries[0].waits:g}", text)
    TABLE.write_text(text, encoding="utf-8")


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ROW", choices=sorted(ROWS), help="just this row")
    parser.add_argument("--renew", action="store_true", help="write what is measured as what is normal")
    add_options(parser)
    options = parser.parse_args()
    options.check = True
    begun = time.monotonic()
    rows: dict[str, list[Row]] = {}
    for name in options.only or ROWS:
        try:
            for _ in range(3 if options.renew else 1):
                rows.setdefault(name, []).append(measured(name, 1 if options.renew else AGAIN + 1))
        except NotHere as error:
            print(f"not here: {error}", file=sys.stderr)
    if options.renew:
        renew(rows)
        return 0
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    title = f"Hot paths; {time.monotonic() - begun:.0f} s on the clock, {cpu:.0f} s CPU"
    return report([tries[0] for tries in rows.values()], options, title, cells, HEAD)


if __name__ == "__main__":
    sys.exit(main())
