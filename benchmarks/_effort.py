"""What a piece of work costs on a machine that others use: processor and waiting, but not the turns of others.

The clock finds a path that sleeps or waits for the disk, which costs no CPU. Where Linux tells it, the time that
threads of ours were ready and another program had the processor is taken off: so a busy neighbour changes little.
"""

from __future__ import annotations

import contextlib
import os
import resource
import runpy
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

SAMPLE_NS = 300_000
"""A sample is at least so long: shorter ones drown in the cost of looking at the clock."""
SYNCING = ("COMMIT", "END", "RELEASE", "PRAGMA WAL_CHECKPOINT")
"""Statements of SQLite that wait for the disk."""

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hot path and the least that anybody must do instead of it."""

    work: Work
    baseline: Work
    processes: Callable[[], Iterable[int]] = tuple
    """Other processes that do the work."""
    prepare: Work | None = None
    """What is done before each call of the work, and not measured."""
    is_timed: bool = False
    """Whether work and baseline return their own nanoseconds, because they end processes."""
    syncs: Callable[[], float] | None = None
    """Counts the waits for the disk, where other processes do the work."""


@dataclass(slots=True)
class Effort:
    """The least nanoseconds of a path and of its baseline so far."""

    ours: float = float("inf")
    baseline: float = float("inf")

    @property
    def ratio(self) -> float:
        return self.ours / self.baseline


def threads_of(process: int) -> dict[str, tuple[int, int]]:
    """Nanoseconds that each thread of a process ran, and waited for a processor; empty where no system tells."""
    found = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/schedstat", "rb") as file:
                ran, queued, _ = file.read().split()
                found[thread] = int(ran), int(queued)
    return found


def effort_ns(work: Work, processes: Sequence[int]) -> float:
    """Nanoseconds of a piece of work by these processes: CPU and waiting, without the turns of other programs."""
    before = list(map(threads_of, processes))
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    work()
    clock, cpu = time.perf_counter_ns() - start, time.process_time_ns() - cpu
    queued = 0
    for number, (process, threads) in enumerate(zip(processes, before, strict=True)):
        passed = [
            (ran - threads.get(thread, (0, 0))[0], waited - threads.get(thread, (0, 0))[1])
            for thread, (ran, waited) in threads_of(process).items()
        ]
        # Threads of one process mostly wait at the same time, one for the other.
        queued += max((waited for _, waited in passed), default=0)
        cpu += sum(ran for ran, _ in passed) if number else 0
    return max(cpu, clock - queued)


def sample(work: Work, calls: int, processes: Sequence[int], prepare: Work | None = None) -> float:
    """Nanoseconds of one call, of so many in a row by this process and others."""

    def several() -> None:
        for _ in range(calls):
            work()

    if prepare is None:
        return effort_ns(several, processes) / calls
    spent = 0.0
    for _ in range(calls):
        prepare()
        spent += effort_ns(work, processes)
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
    processes = [os.getpid(), *case.processes()]
    calls = [_calls(case.work, case.prepare), _calls(case.baseline)]
    until = time.monotonic() + seconds
    for number in range(rounds):
        effort.baseline = min(effort.baseline, sample(case.baseline, calls[1], processes))
        effort.ours = min(effort.ours, sample(case.work, calls[0], processes, case.prepare))
        if number and time.monotonic() > until:
            break


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
        queued = max((waited for _, waited in threads_of(process.pid).values()), default=0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    if not hasattr(os, "waitid"):
        clock = time.perf_counter_ns() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e9
    return max(cpu, clock - queued)


def syncs_of(make: Callable[[Path], contextlib.AbstractContextManager[Case]]) -> float:
    """How often one call of a path waits for the disk."""
    counts = []
    with (
        counted_syncs() as syncs,
        tempfile.TemporaryDirectory(prefix="metier-bench-") as folder,
        make(Path(folder).resolve()) as case,
    ):
        for _ in range(4):
            if case.prepare:
                case.prepare()
            before = len(syncs)
            case.work()
            counts.append(len(syncs) - before)
    return min(counts)


def run_counted(out: str, arguments: Sequence[str]) -> None:
    """Run the command in this process, and write down how often it waited for the disk."""
    sys.argv = ["metier", *arguments]
    with counted_syncs() as syncs:
        try:
            runpy.run_module("metier", run_name="__main__", alter_sys=True)
        finally:
            Path(out).write_text(str(len(syncs)))


@contextlib.contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """Collect each wait for the disk: `fsync` by Python, and commits on connections that are opened meanwhile."""
    syncs: list[str] = []
    real_connect = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = real_connect(*args, **options)
        connection.set_trace_callback(
            lambda statement: syncs.append(statement) if statement.upper().startswith(SYNCING) else None
        )
        return connection

    def noting(name: str) -> Callable[[int], None]:
        real = getattr(os, name)

        def sync(file: int) -> None:
            syncs.append(name)
            real(file)

        return sync

    with contextlib.ExitStack() as patches:
        for name in ("fsync", "fdatasync"):
            if hasattr(os, name):
                patches.enter_context(mock.patch.object(os, name, noting(name)))
        for module in (sqlite3, sqlite3.dbapi2):
            patches.enter_context(mock.patch.object(module, "connect", connect))
        yield syncs


if __name__ == "__main__":
    run_counted(sys.argv[1], sys.argv[2:])
