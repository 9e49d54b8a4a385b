"""What finding, re-finding and loading skills costs, as ratios to bare loops in the same run.

    python benchmarks/library.py [--sizes 100,1000,10000] [--json] [--check]

Everything is CPU time, the best of several rounds, because machines are noisy. The bare loops are the least that any
program must do: list the folders, and `stat` each SKILL.md or read its first 4 KB.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from _limits import most
from _table import add_options, mark, report
from _workload import SAMPLE, make_skills
from metier import Library


class Row(NamedTuple):
    """One line of the table."""

    skills: int
    what: str
    ours: str
    baseline: str
    ratio: float | None
    limit: float | None

    @property
    def holds(self) -> bool | None:
        return None if self.ratio is None or self.limit is None else self.ratio <= self.limit


def bare_read(root: str) -> None:
    """List the folders and read the first 4 KB of each SKILL.md."""
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir():
                descriptor = os.open(f"{entry.path}/SKILL.md", os.O_RDONLY)
                os.read(descriptor, 4096)
                os.close(descriptor)


def bare_stat(root: str) -> None:
    """List the folders and `stat` each SKILL.md."""
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir():
                os.stat(f"{entry.path}/SKILL.md")


def look_at_all(root: Path) -> None:
    """A cold index of which every description is looked at, as a catalog does."""
    for entry in Library.from_folder(root, cache=False):
        entry.description  # noqa: B018


def cpu(work: Callable[[], object], rounds: int) -> float:
    """The least CPU seconds that a piece of work took."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def paired(ours: Callable[[], object], baseline: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Both measured by turns, so that a noisy minute hits both."""
    best, best_baseline = float("inf"), float("inf")
    gc.collect()
    for _ in range(rounds):
        best_baseline = min(best_baseline, cpu(baseline, 3))
        best = min(best, cpu(ours, 3))
    return best, best_baseline


def children_cpu(commands: list[list[str]], env: dict[str, str], rounds: int = 12) -> list[float]:
    """The least CPU seconds that each process took from start to end, measured by turns."""
    best = [float("inf")] * len(commands)
    for _ in range(rounds):
        for number, command in enumerate(commands):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            best[number] = min(best[number], used)
    return best


def measure(count: int, folder: Path) -> list[Row]:
    """All measurements that depend on the number of skills."""
    root, cache = folder / "skills", folder / "cache"
    root.mkdir(parents=True)
    make_skills(root, count)
    where = str(root)
    rounds = 40 if count <= 100 else 10 if count <= 1_000 else 3 if count <= 10_000 else 1
    rows: list[Row] = []

    def ratio(what: str, ours: float, baseline: float, name: str) -> None:
        rows.append(Row(count, what, _ms(ours), f"{_ms(baseline)} {name}", ours / baseline, most("library", what)))

    time.sleep(0.2)  # so that the files count as settled; not measured
    cold, read = paired(lambda: Library.from_folder(root, cache=False), lambda: bare_read(where), rounds)
    ratio("cold index, no cache", cold, read, "scandir + read")
    looked, read = paired(lambda: look_at_all(root), lambda: bare_read(where), rounds)
    ratio("the same, and every description", looked, read, "scandir + read")
    Library.from_folder(root, cache=cache)
    started, stat = paired(lambda: Library.from_folder(root, cache=cache), lambda: bare_stat(where), rounds)
    ratio("start from the cache", started, stat, "scandir + stat")
    library = Library.from_folder(root, cache=cache)
    again, stat = paired(library.refresh, lambda: bare_stat(where), rounds)
    ratio("re-scan, nothing changed", again, stat, "scandir + stat")

    some = library.entries()[0]
    path = Path(some.location)
    path.write_bytes(path.read_bytes() + b"\nOne more line.\n")
    rows.append(
        Row(count, "files read after one change", str(library.refresh().files_read), "", library_reads(library), None)
    )

    names = [entry.name for entry in library][:: max(1, count // 1_000)]
    for what in ("load a body the first time, median", "load it again, freshness included, median"):
        median = statistics.median(_load_times(library, names))
        allowed = most("library", what) or 1
        rows.append(Row(count, what, f"{median:.0f} us", f"limit {allowed:g} us", median / allowed, 1))
    rows.append(_memory(count, root))
    return rows


def _load_times(library: Library, names: list[str]) -> list[float]:
    """The CPU microseconds that loading each of these skills takes."""
    times = []
    for name in names:
        start = time.process_time_ns()
        library.document(name)
        times.append((time.process_time_ns() - start) / 1_000)
    return times


def library_reads(library: Library) -> float | None:
    """Nothing more to read once the change was seen; the ratio column stays empty."""
    library.refresh()
    return None


def _memory(count: int, root: Path) -> Row:
    gc.collect()
    tracemalloc.start()
    library = Library.from_folder(root, cache=False)
    for entry in library:
        entry.description  # noqa: B018
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    what = "Python memory, all looked at"
    allowed = (most("library", what) or 1) * 1_000 * count
    return Row(
        count,
        what,
        f"{used / 1e6:.2f} MB",
        f"limit {allowed / 1e6:.1f} MB",
        used / allowed,
        1,
    )


def measure_list(folder: Path) -> Row:
    """What listing costs as a command, beside Python alone."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["METIER_CACHE"] = str(folder / "cli-cache")
    command = [sys.executable, "-m", "metier", "--skills", str(folder / "skills"), "list"]
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)  # writes bytecode, and the cache
    bare, listed = children_cpu([[sys.executable, "-c", "pass"], command], env)
    what = "metier list, from the cache"
    return Row(1_000, what, _ms(listed), f"{_ms(bare)} python -c pass", listed / bare, most("library", what))


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.2f} ms"


HEAD = ("WHAT", "SKILLS", "METIER", "BASELINE", "RATIO", "LIMIT", "")


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    return (
        row.what,
        f"{row.skills:,}" if row.skills else "",
        row.ours,
        row.baseline,
        f"{row.ratio:.2f}x" if row.ratio is not None else "",
        f"{row.limit:g}x" if row.limit is not None else "",
        mark(row),
    )


def main() -> int:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1000,10000", help="numbers of skills, separated by commas")
    add_options(parser)
    options = parser.parse_args()
    rows: list[Row] = []
    for size in map(int, options.sizes.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="metier-bench-"))
        try:
            print(f"measuring {size:,} skills ...", file=sys.stderr)
            rows.extend(measure(size, folder))
            if size == 1_000:
                rows.append(measure_list(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    origin = "real, from the sample" if SAMPLE.exists() else "made up"
    return report(rows, options, f"frontmatter: {origin}; CPU time, best of several rounds\n", cells, HEAD)


if __name__ == "__main__":
    raise SystemExit(main())
