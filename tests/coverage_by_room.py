"""A table of how much of each room the tests have run, lines and branches; exit code 1 if one is below the least.

    python -m tests.coverage_by_room [LEAST]

Reads what `make coverage` has measured. The modules of a room that are covered least stand below it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage

LEAST = 85.0
SHOWN = 5
_COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def percent(counts: dict[str, int]) -> float:
    """Lines and branches together, as coverage.py counts them.

    >>> percent({"num_statements": 8, "covered_lines": 7, "num_branches": 2, "covered_branches": 1})
    80.0
    """
    all_of_them = counts["num_statements"] + counts["num_branches"]
    return 100 * (counts["covered_lines"] + counts["covered_branches"]) / all_of_them if all_of_them else 100.0


def by_room(files: dict[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of each module, by room; modules of the top package are one of their own."""
    rooms: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for name, found in files.items():
        inside = name.replace("\\", "/").split("src/metier/")[-1]
        room = inside.partition("/")[0] if "/" in inside else "the package"
        rooms[room][inside] = {count: found["summary"][count] for count in _COUNTS}
    return dict(rooms)


def table(rooms: dict[str, dict[str, dict[str, int]]], least: float) -> tuple[list[str], list[str]]:
    """The lines of the table, and the rooms that are below the least."""
    lines = [f"{'room':<14}{'lines':>8}{'branches':>10}{'covered':>9}"]
    below = []
    for room, modules in sorted(rooms.items()):
        total = {count: sum(module[count] for module in modules.values()) for count in _COUNTS}
        start = f"{room:<14}{total['num_statements']:>8,}{total['num_branches']:>10,}{percent(total):>7.1f} %"
        if percent(total) >= least:
            lines.append(start)
            continue
        below.append(room)
        lines.append(f"{start}  below {least:g} %")
        worst = sorted(modules.items(), key=lambda module: percent(module[1]))[:SHOWN]
        lines += [f"    {name:<40}{percent(counts):>6.1f} %" for name, counts in worst]
    lines.append(f"Below {least:g} %: {', '.join(below)}" if below else f"Every room is at {least:g} % or above.")
    return lines, below


def main() -> int:
    least = float(sys.argv[1]) if len(sys.argv) > 1 else LEAST
    measured = coverage.Coverage()
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "coverage.json"
        with contextlib.redirect_stdout(io.StringIO()):
            measured.json_report(outfile=str(out))
        rooms = by_room(json.loads(out.read_text())["files"])
    lines, below = table(rooms, least)
    print(*lines, sep="\n")
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
