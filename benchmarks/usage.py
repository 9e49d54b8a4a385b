"""What usage costs: to add up one record of the audit log, and to show what is added up already.

    python benchmarks/usage.py [--records 100000] [--json] [--check]

CPU time. The records are those of a year: 300 skills, 5 agents and 3 models, one of which nobody has a price for. To
write a million of them takes some minutes, and they make no other figures.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from _limits import most
from _table import Row, add_options, cells, report
from metier.proof.usage import roll_up
from metier.proof.usage_report import usage_report
from metier.store import Store, TenantScope

_BATCH = 20_000
_DAYS = 28
_MODELS = ("gpt-5", "claude-sonnet-4-5", "own")


def record(number: int, count: int) -> dict[str, Any]:
    """One record of a year: mostly calls, some loads, runs, refusals and failures."""
    kind = ("skill.activated", "script.run", "tool.called", "tool.called", "tool.called", "tool.denied")[number % 6]
    skill, month, day = f"skill-{number * 7 % 300}", 1 + number * 12 // count, 1 + number % _DAYS
    about = {"skill": skill, "source": "acme", "layer": "personal", "digest": f"sha256:{'a' * 64}"}
    tokens = {"tokens_in": 1_000 + number % 5_000, "tokens_out": number % 700} if kind == "tool.called" else {}
    return {
        "timestamp": f"2026-{month:02}-{day:02}T10:{number % 60:02}:00.000+00:00",
        "type": kind,
        "decision": "deny" if kind == "tool.denied" else "allow",
        "reason": "Nothing is against it.",
        "policy": f"sha256:{'b' * 64}",
        "active": ["house-style", skill],
        "skills": ["house-style@enterprise#0123456789ab", f"{skill}@acme#0123456789ab"],
        "tool": "" if "skill" in kind or "script" in kind else "Bash",
        "arguments": f'{{"command": "git log -n {number}"}}',
        "by": "model",
        "trigger": "model",
        "agent": f"agent-{number % 5}",
        "model": _MODELS[number % 3],
        "user": f"user-{number % 20}",
        "session": f"session-{number // 40}",
        "success": number % 11 > 0,
        "duration_ms": number % 977 / 8,
        **tokens,
        **({} if "tool" in kind else about),
    }


def cpu_us(work: Callable[[], object]) -> float:
    """The CPU time of a piece of work."""
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1_000


def measure(scope: TenantScope, count: int) -> list[Row]:
    """All of it."""
    for first in range(0, count, _BATCH):
        numbers = range(first, min(count, first + _BATCH))
        scope.audit.append_all(lambda numbers=numbers: [record(number, count) for number in numbers])  # type: ignore[misc]
    each = cpu_us(lambda: roll_up(scope)) / count
    month = functools.partial(usage_report, [scope], since="2026-06-01", until="2026-06-30")
    work: dict[str, Callable[[], object]] = {
        "add up what is new, of which there is nothing": lambda: roll_up(scope),
        "stats of a month, by skill": month,
        "stats of a month, by day": lambda: month(by="day"),
        "stats of a year, by skill": lambda: usage_report([scope], since="2026-01-01", until="2026-12-31"),
    }
    return [
        Row("add up one record", each, most("usage", "add up one record")),
        *(Row(what, min(cpu_us(one) for _ in range(3)), most("usage", what)) for what, one in work.items()),
    ]


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/metier.db") as store:
        rows = measure(store.of(f"benchmark-{os.urandom(4).hex()}"), options.records)
    return report(rows, options, f"{options.records:,} records; microseconds of CPU", cells)


if __name__ == "__main__":
    sys.exit(main())
