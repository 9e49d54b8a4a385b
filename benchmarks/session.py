"""What sessions and the guard cost: for each tool call, for each model call, for each load.

    python benchmarks/session.py [--skills 1000] [--calls 400] [--json] [--check]

CPU time in microseconds, the median over many calls, with eight skills active that all restrict tools. The baseline is
the same tool call without a session, in the same run. A decision alone is all that happens before the tool is called; a
record alone is its durable record, in a file or in the store; guard per call is both, in a call through an executor.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from _limits import most
from _table import Row, add_options, cells, report
from _workload import make_skills
from metier import Guard, Library, Policy, Session
from metier.dialect import definitions
from metier.guard import FileLog
from metier.guard.audit.store_log import StoreLog
from metier.tools import Executor, FunctionTool, ToolRegistry
from metier.tools.tool import ToolResult

ACTIVE = 8


def median_us(work: Callable[[], object], calls: int) -> float:
    """The median CPU time of one call."""
    times = []
    for _ in range(calls):
        start = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - start)
    return statistics.median(times) / 1_000


def make_active(root: Path) -> list[str]:
    """Skills that each allow a few tools, so that all of their rules are looked at for every call."""
    names = [f"active-{number}" for number in range(ACTIVE)]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Works on a repository.\n"
            f"allowed-tools: Read, Grep, echo_back, Bash(git:*), Bash(ls:*), Write(docs/**)\n---\n" + "Do it.\n" * 400
        )
    return names


async def call_median(executor: Executor, name: str, arguments: Callable[[], dict[str, str]], calls: int) -> float:
    """The median CPU time of one call through an executor, inside one event loop."""
    times = []
    for _ in range(calls):
        given = arguments()
        start = time.process_time_ns()
        result = await executor.execute(name, given)
        times.append(time.process_time_ns() - start)
        assert result.success, result.error
    return statistics.median(times) / 1_000


async def echo_back(command: str) -> str:
    """Give the command back.

    Args:
        command: What to give back.
    """
    return command


async def decision_median(
    session: Session, name: str, arguments: Callable[[], dict[str, str]], calls: int
) -> tuple[float, float]:
    """The median CPU times of all that happens before a tool is called, and of the record."""
    decisions, records = [], []
    for _ in range(calls):
        given = arguments()
        start = time.process_time_ns()
        admission = await session.calls.admit_async(name, given)
        against = await admission.before()
        decided = time.process_time_ns()
        assert admission.decision.is_allowed and against is None
        admission.record(ToolResult(success=True))
        records.append(time.process_time_ns() - decided)
        decisions.append(decided - start)
    return statistics.median(decisions) / 1_000, statistics.median(records) / 1_000


def calls(session: Session, count: int, where: str) -> list[Row]:
    """A tool call, with and without a session around it that records `where`."""
    plain = FunctionTool(echo_back, name="echo_back")
    shell = FunctionTool(echo_back, name="Bash")
    bare = Executor(ToolRegistry([plain]))
    guarded = Executor(ToolRegistry([plain, shell]), session.calls)
    number = itertools.count()

    def same() -> dict[str, str]:
        return {"command": "git status"}

    def one_new() -> dict[str, str]:
        return {"command": f"git log --oneline -n {next(number)}"}

    def three_new() -> dict[str, str]:
        return {"command": f"git log --oneline -n {next(number)} && git diff --stat | git apply --check"}

    kinds: tuple[tuple[str, str, Callable[[], dict[str, str]]], ...] = (
        ("a tool that rules name", "echo_back", same),
        ("Bash, a command seen before", "Bash", same),
        ("Bash, a new command", "Bash", one_new),
        ("Bash, three new commands in one", "Bash", three_new),
    )

    async def measure() -> list[Row]:
        without = await call_median(bare, "echo_back", same, count)
        alone, both, recorded = [], [], 0.0
        for what, tool, arguments in kinds:
            decided, recorded = await decision_median(session, tool, arguments, count)
            alone.append(Row(f"decision alone: {what}", decided))
            with_record = await call_median(guarded, tool, arguments, count) - without
            both.append(Row(f"guard per call: {what}{where}", with_record))
        record = Row(f"record alone{where or ', in a file'}", recorded)
        if where:
            return [record, *both]
        return [Row("a tool call without a session (baseline)", without), *alone, record, *both]

    return anyio.run(measure)


def texts(session: Session, others: list[str], count: int) -> list[Row]:
    """What happens before every model call, and at a load."""
    switching = itertools.cycle(others)

    def after_a_load() -> str:
        session.load([next(switching)], "add")
        session.unload([session.active[-1].name])
        return session.instructions()

    def listed() -> object:
        return definitions(session.tools(), "openai")

    return [
        Row("instructions(), nothing changed", median_us(session.instructions, count)),
        Row("tools(), nothing changed", median_us(session.tools, count)),
        Row("tools() as definitions for a provider", median_us(listed, count)),
        Row(
            "catalog in the tool's description (tool dialect)",
            median_us(lambda: session.tools("tool")[0].description, count),
        ),
        Row("load one skill, unload it, instructions()", median_us(after_a_load, min(60, count))),
    ]


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=400, help="how many of each are measured")
    add_options(parser)
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_skills(root / "many", options.skills, plain=True)
        names = make_active(root / "active")
        os.environ["METIER_DATA"] = str(root / "data")
        library = Library.from_folder(root / "active", root / "many", cache=root / "cache")
        in_store = StoreLog()
        in_store.prepare()  # decisions look into the store that there is
        guard, recording = (
            Guard(Policy(deny="Bash(curl:*), WebFetch"), audit=log) for log in (FileLog(root / "audit.jsonl"), in_store)
        )
        with library.session(skills=names, guard=recording, max_active=ACTIVE, workspace=root) as session:
            stored = calls(session, options.calls, ", in the store")
        for delivery in ("result", "instructions"):
            session = library.session(
                skills=names[: ACTIVE - 1], guard=guard, max_active=ACTIVE + 1, delivery=delivery, workspace=root
            )
            session.load([names[-1]], "add")
            measured = [] if rows else [*calls(session, options.calls, ""), *stored]
            others = [entry.name for entry in library if entry.name not in names][:5]
            suffix = "" if delivery == "result" else " [bodies at the top level]"
            measured += texts(session, others, options.calls)
            rows.extend(Row(row.what + suffix, row.us, most("session", row.what)) for row in measured)
    title = f"{options.skills:,} skills in the library, {ACTIVE} active; CPU microseconds, medians"
    return report(rows, options, title, cells)


if __name__ == "__main__":
    sys.exit(main())
