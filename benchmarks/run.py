"""What it costs to start a job: under each runner, against a bare `subprocess.run(["true"])`.

    python benchmarks/run.py [--runs 40] [--rounds 5] [--work 2000000] [--json] [--check]

CPU time of this side and of everything that was started, launcher, supervisor and job included. Each figure is the
difference between twice as many runs and once as many, each in a process of its own that has ended everything before it
is measured: what is started once and stays does not count. Then how eight jobs that only compute share the processors:
eight at once against eight in a row.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from _limits import most
from _table import add_options, mark, report

BARE = 'subprocess.run(["true"])'
WAYS = (
    "plain",
    "native:namespaces",
    "native:namespaces, a new sandbox for each",
    "native:bubblewrap",
    "native:landlock",
    "virtual:job",
    "virtual:shell",
)
"""The ways to start a job; those have a limit that are used where all is allowed."""
JOBS = 8
MORE = 40
"""How many times as often what takes next to no time is done, to be told from noise."""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.value <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    said = "" if row.limit is None else f"limit {row.limit:.2g}x"
    return row.what, f"{row.value:,.2f} {row.unit:<2}", said, mark(row)


class NotHere(Exception):
    """This machine, or this installation, does not have it."""


def starter(way: str, folder: str) -> tuple[Callable[[], object], Callable[[], None]]:
    """What starts a program that does nothing, in one of the ways, and what ends all that stays for the next."""
    if way == BARE:
        return lambda: subprocess.run(["true"], cwd=folder, check=True), lambda: None
    from metier.run import Job

    name, _, tier = way.partition(":")
    tier, _, is_new = tier.partition(", ")
    job = Job(argv=("true",), folder=folder)
    if name == "plain":
        from metier.run import PlainRunner

        return lambda: PlainRunner().run_blocking(job), lambda: None
    from metier.run.native import NativeRunner, launcher
    from metier.run.native.launcher import close_shared

    if name == "native":
        native = NativeRunner(tier=tier or None)  # type: ignore[arg-type]
        if native.tier is None:
            raise NotHere(f"{way}: {native.capabilities().how}")

        def run() -> None:
            outcome = native.run_blocking(job)
            assert outcome.is_success, outcome
            if is_new:
                launcher.close_idle()

        return run, close_shared
    return virtual_starter(tier, folder, close_shared)


def virtual_starter(
    kind: str, folder: str, close_rest: Callable[[], None]
) -> tuple[Callable[[], object], Callable[[], None]]:
    """The same in the virtual shell: a job with an interpreter of its own, or a command in a shell that stays."""
    from metier.errors import ShellUnavailable
    from metier.run import Job
    from metier.run.virtual import VirtualRunner, VirtualShell

    job = Job(argv=("bash", "-c", "true"), folder=folder)
    try:
        shell = VirtualShell()
    except ShellUnavailable as error:
        raise NotHere(error.message) from None
    runner = VirtualRunner()

    def close() -> None:
        shell.close()
        runner.close()
        close_rest()

    def run() -> None:
        outcome = runner.run_blocking(job) if kind == "job" else shell.execute("true")
        assert outcome.is_success, outcome

    return run, close


def start_many(way: str, runs: int) -> None:
    """Start so many, end everything, and print the CPU time of it all in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            start, close = starter(way, folder)
        except NotHere as error:
            print(json.dumps({"missing": str(error)}))
            return
        start()
        for _ in range(runs):
            start()
        close()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"us": sum(one.ru_utime + one.ru_stime for one in used) * 1_000_000}))


def cpu_of(way: str, runs: int) -> float:
    """CPU microseconds of a process that makes so many starts, and of everything that it started."""
    command = [sys.executable, __file__, "--way", way, "--runs", str(runs)]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if "missing" in answer:
        raise NotHere(answer["missing"])
    return float(answer["us"])


def start_up(runs: int, rounds: int) -> list[Row]:
    """What one start costs, in each way that this machine has."""
    found: dict[str, list[float]] = {BARE: [], **{way: [] for way in WAYS}}
    for _ in range(rounds):
        for way in list(found):
            try:
                many = runs * (MORE if way.startswith("virtual") else 1)
                found[way].append((cpu_of(way, 2 * many) - cpu_of(way, many)) / many)
            except NotHere as error:
                print(f"not here: {error}", file=sys.stderr)
                del found[way]
    bare = statistics.median(found.pop(BARE))
    rows = [Row(f"start-up, {BARE} (baseline)", bare, "us")]
    for way, times in found.items():
        rows.append(Row(f"start-up, {way}", statistics.median(times), "us"))
        rows.append(Row(f"start-up, {way}, of the baseline", statistics.median(times) / bare, "x", most("run", way)))
    return rows


def side_by_side(work: int) -> list[Row]:
    """How long eight jobs that only compute take at once, of what they take one after the other."""
    from metier.run import Job, PlainRunner, Runner
    from metier.run.native import NativeRunner

    runners: dict[str, Runner] = {"plain": PlainRunner()}
    native = NativeRunner()
    if native.tier is not None:
        runners["native"] = native
    rows = []
    ideal = 1 / min(JOBS, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(argv=("python3", "-c", f"for _ in range({work}): pass"), folder=folder)
        for name, runner in runners.items():

            def one(runner: Runner = runner) -> None:
                outcome = runner.run_blocking(job)
                assert outcome.is_success, outcome

            one()
            in_a_row = _wall(lambda one=one: [one() for _ in range(JOBS)])  # type: ignore[misc]
            at_once = _wall(lambda one=one: _in_threads(one))  # type: ignore[misc]
            what = f"{JOBS} jobs at once, {name}"
            rows.append(Row(f"{what}, of {JOBS} in a row", at_once / in_a_row, "x", most("run", what, ideal)))
    return rows


def _in_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(JOBS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wall(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=int, default=2_000_000, help="turns of the loop of a job that only computes")
    add_options(parser)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        start_many(options.way, options.runs)
        return 0
    rows = [*start_up(options.runs, options.rounds), *side_by_side(options.work)]
    title = f"{options.rounds} rounds of {options.runs} runs; CPU microseconds of everything started, medians"
    return report(rows, options, title, cells)


if __name__ == "__main__":
    sys.exit(main())
