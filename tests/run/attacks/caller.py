"""The program that runs jobs, as a host would, with secrets in its environment and a descriptor it forgot to close.

It reads what to run from its input, one JSON object a line, and answers in the same way. An attack may kill it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

from metier.errors import MetierError
from metier.run.job import Job, JobPath, Limits, Runner

LEAK = 9
MOST_SHOWN = 200_000


def runner_for(column: str) -> Runner:
    """The runner that a column of the table is about: `plain`, `native:landlock`, `virtual` ..."""
    name, _, tier = column.partition(":")
    if name == "plain":
        from metier.run.plain import PlainRunner

        return PlainRunner()
    from metier.run.native import NativeRunner

    if name == "native":
        return NativeRunner(tier=tier or None)  # type: ignore[arg-type]
    from metier.run.virtual import VirtualRunner

    return VirtualRunner(native=None if tier == "alone" else NativeRunner())


def leak(path: str) -> None:
    """Keep a file open that every child would inherit."""
    descriptor = os.open(path, os.O_RDONLY)
    os.dup2(descriptor, LEAK, inheritable=True)
    if descriptor != LEAK:
        os.close(descriptor)


def memory_peak() -> int:
    """The most memory of this process so far, in bytes, and begin again."""
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return peak * 1024


def run(runner: Runner, asked: dict[str, Any]) -> dict[str, Any]:
    """Run one job, and tell what can be told in a line."""
    leak(asked["secret"])
    job = Job(
        argv=tuple(asked["argv"]),
        folder=asked["folder"],
        stdin=asked["stdin"].encode(),
        limits=Limits(**asked["limits"]),
        places=tuple(JobPath(**place) for place in asked["places"]),
    )
    lines = 0

    def count(_: object) -> None:
        nonlocal lines
        lines += 1

    memory_peak()
    before = memory_peak()
    try:
        outcome = runner.run_blocking(job, on_output=count)
    except MetierError as error:
        return {"error": f"{error.code}: {error.message} {error.hint}"}
    return {
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout[:MOST_SHOWN],
        "stderr": outcome.stderr[-MOST_SHOWN:],
        "kept": max(len(outcome.stdout), len(outcome.stderr)),
        "truncated": outcome.is_truncated,
        "timed_out": outcome.timed_out,
        "killed_by": outcome.killed_by,
        "grown": memory_peak() - before,
        "lines": lines,
    }


def main() -> None:
    """Answer until there is no more to run."""
    leak(sys.argv[2])
    try:
        runner = runner_for(sys.argv[1])
        what = runner.capabilities()
    except (MetierError, ImportError) as error:
        print(json.dumps({"missing": f"{error} {getattr(error, 'hint', '')}"}), flush=True)
        return
    if sys.argv[1] != "plain" and not what.isolates_files:
        print(json.dumps({"missing": what.how}), flush=True)
        return
    print(json.dumps({"ready": what.how}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(runner, json.loads(line))), flush=True)
    close = getattr(runner, "close", None)
    if close is not None:
        close()


if __name__ == "__main__":
    main()
