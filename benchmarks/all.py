"""Run all benchmarks, and say in the end which limits are not met.

    python benchmarks/all.py [NAME ...]

Each runs in a process of its own, also after one that failed. The limits stand in limits.toml. What limits are not met
is said again in the end, and then the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from _limits import NOTHING_TO_MEASURE
from _table import NOT_MET, aligned

HERE = Path(__file__).parent
BENCHMARKS = sorted(file.stem for file in HERE.glob("[a-z]*.py") if file.stem not in ("all", "quick", "sabotage"))
NO_LIMITS = {"peers"}
"""Benchmarks that compare and judge nothing."""
NO_DATA = "no data here"


def run(name: str) -> tuple[int, list[str]]:
    """Run one benchmark and show what it prints; its exit code, and the rows whose limit does not hold."""
    options = [] if name in NO_LIMITS | {"mcp_load", "writers"} else ["--check"]
    missed = []
    with subprocess.Popen(
        [sys.executable, str(HERE / f"{name}.py"), *options], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.rstrip().endswith(NOT_MET):
                missed.append(line.rstrip().removesuffix(NOT_MET).rstrip())
    return process.returncode, missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    names = parser.parse_args().names or BENCHMARKS
    summary: list[tuple[str, str, str]] = []
    missed: list[str] = []
    begun = time.monotonic()
    for number, name in enumerate(names, 1):
        print(f"\n== {name} ({number} of {len(names)})", flush=True)
        start = time.monotonic()
        code, rows = run(name)
        missed += [f"{name}: {row}" for row in rows]
        is_absent = code == NOTHING_TO_MEASURE
        if code and not rows and not is_absent:
            missed.append(f"{name}: ended with {code}")
        verdict = NO_DATA if is_absent else str(len(rows) or code or "ok")
        summary.append((name, f"{time.monotonic() - start:.0f} s", verdict))
    print(f"\n== {len(names)} benchmarks in {time.monotonic() - begun:.0f} s")
    print(aligned([("benchmark", "clock", "not met"), *summary]))
    if missed:
        print("", "Limits that are not met (their reasons: benchmarks/limits.toml):", *missed, sep="\n")
    else:
        absent = [name for name, _, verdict in summary if verdict == NO_DATA]
        print("\nAll limits are met" + (f" but those of {', '.join(absent)}, without data." if absent else "."))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
