"""What a piece of work costs on a machine that others use: processor and waiting, but not the turns of others.

The clock finds a path that sleeps or waits for the disk, which costs no CPU. Where Linux tells it, the time that
threads of ours were ready and another program had the processor is taken off: so a busy neighbour changes little.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import runpy
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

SAMPLE_NS = 300_000
"""A sample is at least so long: shorter ones drown in the cost of looking at the clock."""
SYNCING = ("COMMIT", "END", "RELEASE", "PRAGMA WAL_CHECKPOINT")
CHANGING = ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH")
"""Statements of SQLite that wait for the disk, and those that do so outside of a transaction."""

OURSELVES = (None, os.getpid())

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hot path and the least that anybody must do instead of it."""

    work: Work
    baseline: Work
    processes: tuple[int | None, int | None] = (os.getpid(), os.getpid())
    """Those that do the work and the baseline; None if each call starts one, whose waiting nobody tells."""
    prepare: Work | None = None
    """What is done before each call of the work, and not measured."""
    is_timed: bool = False
    """Whether work and baseline return their own nanoseconds, because they end processes."""
    waits: Callable[[], float] | None = None
    """Counts the waits where other processes do the work."""


@dataclass(slots=True)
class Effort:
    """The least nanoseconds of a path and of its baseline so far."""

    ours: float = float("inf")
    baseline: float = float("inf")

    @property
    def ratio(self) -> float:
        return self.ours / self.baseline


@functools.cache
def _schedule_of(process: int) -> int | None:
    """The open file that tells about the first thread of a process; None where no system tells."""
    try:
        return os.open(f"/proc/{process}/schedstat", os.O_RDONLY)
    except OSError:
        return None


def turns_ns(process: int | None) -> tuple[int, int]:
    """Nanoseconds that the first thread of a process ran, and was ready while another had the processor."""
    file = None if process is None else _schedule_of(process)
    if file is None:
        return 0, 0
    ran, queued, _ = os.pread(file, 99, 0).split()
    return int(ran), int(queued)


def effort_ns(work: Work, process: int | None) -> float:
    """Nanoseconds of a piece of work: CPU and waiting, without the turns that others had before this process."""
    cpu = time.process_time_ns()
    # Both looks at the queue are inside of the time on the clock: a turn of another between them would count twice.
    start = time.perf_counter_ns()
    ran_before, queued_before = turns_ns(process)
    work()
    ran, queued = turns_ns(process)
    clock = time.perf_counter_ns() - start
    cpu = time.process_time_ns() - cpu
    return max(cpu if process in OURSELVES else cpu + ran - ran_before, clock - (queued - queued_before))


def sample(work: Work, calls: int, process: int | None, prepare: Work | None = None) -> float:
    """Nanoseconds of one call, of so many in a row."""

    def several() -> None:
        for _ in range(calls):
            work()

    if prepare is None:
        return effort_ns(several, process) / calls
    spent = 0.0
    for _ in range(calls):
        prepare()
        spent += effort_ns(work, process)
    return spent / calls


def measure(case: Case, effort: Effort, rounds: int, seconds: float) -> None:
    """Measure a path and its baseline by turns, and keep the least of each."""
    if case.is_timed:
        until = time.monotonic() + seconds
        for number in range(rounds):
            effort.baseline = min(effort.baseline, float(case.baseline()))  # type: ignore[arg-type]
            effort.ours = min(effort.ours, float(case.work()))  # type: ignore[arg-type]
            if number and time.monotonic() > until:
                break
        return
    ours, bare = case.processes
    calls = [_calls(case.work, case.prepare), _calls(case.baseline)]
    until = time.monotonic() + seconds
    times: tuple[list[float], list[float]] = [], []
    for number in range(rounds):
        times[1].append(sample(case.baseline, calls[1], bare))
        times[0].append(sample(case.work, calls[0], ours, case.prepare))
        if number and time.monotonic() > until:
            break
    effort.ours = min(effort.ours, _low(times[0], ours))
    effort.baseline = min(effort.baseline, _low(times[1], bare))


def _low(times: list[float], process: int | None) -> float:
    """The least; of another process the lower quarter: it may queue before it is needed, which takes off too much."""
    return min(times) if process in OURSELVES else sorted(times)[len(times) // 4]


def _calls(work: Work, prepare: Work | None = None) -> int:
    """How many calls make a sample, after one that imports and opens what is needed."""
    took = []
    for _ in range(3):
        if prepare:
            prepare()
        start = time.perf_counter_ns()
        work()
        took.append(time.perf_counter_ns() - start)
    return max(1, SAMPLE_NS // min(took))


def process_ns(command: list[str], env: dict[str, str]) -> float:
    """Nanoseconds of a process from its start to its end, without the turns of other programs."""
    start = time.perf_counter_ns()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    queued = 0
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its figures are still there
        clock = time.perf_counter_ns() - start
        with contextlib.suppress(OSError):
            queued = int(Path(f"/proc/{process.pid}/schedstat").read_bytes().split()[1])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    if not hasattr(os, "waitid"):
        clock = time.perf_counter_ns() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e9
    return max(cpu, clock - queued)


def waits_of(make: Callable[[Path], contextlib.AbstractContextManager[Case]]) -> float:
    """How often one call of a path waits for the disk, or sleeps."""
    counts = []
    with (
        counted_waits() as waits,
        tempfile.TemporaryDirectory(prefix="metier-bench-") as folder,
        make(Path(folder).resolve()) as case,
    ):
        for _ in range(4):
            if case.prepare:
                case.prepare()
            before = len(waits)
            case.work()
            counts.append(len(waits) - before)
    return min(counts)


def run_counted(out: str, arguments: Sequence[str]) -> None:
    """Run the command in this process, and write down how often it waited."""
    sys.argv = ["metier", *arguments]
    with counted_waits() as waits:
        try:
            runpy.run_module("metier", run_name="__main__", alter_sys=True)
        finally:
            Path(out).write_text(str(len(waits)))


@contextlib.contextmanager
def counted_waits() -> Iterator[list[str]]:
    """Collect each wait: `fsync` and `sleep` by Python, and commits on connections that are opened meanwhile."""
    waits: list[str] = []
    real_connect = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = real_connect(*args, **options)

        last = ""

        def note(statement: str) -> None:
            nonlocal last
            is_change = statement.upper().startswith(CHANGING) and not connection.in_transaction
            # A trigger shows the statement that fired it once more.
            if statement != last and (is_change or statement.upper().startswith(SYNCING)):
                waits.append(statement)
            last = statement

        connection.set_trace_callback(note)
        return connection

    def noting(name: str, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def wait(what: Any) -> None:
            waits.append(name)
            real(what)

        return wait

    with contextlib.ExitStack() as patches:
        for module, name in ((os, "fsync"), (os, "fdatasync"), (time, "sleep")):
            if hasattr(module, name):
                patches.enter_context(mock.patch.object(module, name, noting(name, getattr(module, name))))
        for module in (sqlite3, sqlite3.dbapi2):
            patches.enter_context(mock.patch.object(module, "connect", connect))
        yield waits


if __name__ == "__main__":
    run_counted(sys.argv[1], sys.argv[2:])
