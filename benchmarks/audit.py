"""What the audit log costs: to add a record, to search many, to export and to verify them.

    python benchmarks/audit.py [--records 10000] [--store URL] [--json] [--check]

Adding is CPU time, the median of many; the others are time on the clock, as a person waits for them. A store at --store
is added to, under a tenant of its own; without, it is a new SQLite file.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _limits import most
from _table import Row, add_options, cells, report
from metier.guard import AuditRecord
from metier.guard.audit.checkpoints import checkpoints_of, make_checkpoint
from metier.guard.audit.export import export_lines
from metier.guard.audit.keys import known_keys
from metier.guard.audit.store_log import StoreLog
from metier.guard.audit.verification import ChainVerification, verify, verify_export
from metier.store import TenantScope


def records(tenant: str) -> Callable[[], AuditRecord]:
    """Makes records as a session leaves them: mostly calls, some loads, script runs and refusals."""
    numbers = itertools.count()

    def made() -> AuditRecord:
        number = next(numbers)
        kind = ("load", "run", "call", "call", "call")[number % 5]
        skill = f"skill-{number % 300}"
        return AuditRecord(
            timestamp=f"2026-01-{number % 28 + 1:02}T10:{number % 60:02}:00.000+00:00",
            event=kind,
            decision="deny" if number % 17 == 0 else "allow",
            reason="Nothing is against it.",
            rule="default",
            policy="sha256:" + "b" * 64,
            skill="" if kind == "call" else skill,
            source="" if kind == "call" else "acme",
            digest="" if kind == "call" else "sha256:" + "a" * 64,
            layer="" if kind == "call" else "personal",
            active=(skill,) if kind == "call" else (),
            tool="Bash" if kind == "call" else "",
            path="scripts/fill.py" if kind == "run" else "",
            command=f"scripts/fill.py form-{number}.pdf" if kind == "run" else "",
            arguments=json.dumps({"command": f"git log -n {number}"}) if kind == "call" else "",
            by="model",
            trigger="model",
            environment="production",
            tenant=tenant,
            agent="orchestrator",
            user=f"user-{number % 20}",
            session=f"session-{number % 100}",
            success=True,
            duration_ms=number % 977 / 7,
        )

    return made


def clock_us(work: Callable[[], object]) -> float:
    """The least time that a piece of work took, of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return min(times) / 1_000


def bare_us(folder: Path, count: int) -> float:
    """The median CPU time of the least that anybody must do: look at the last row, add one, have it on the disk."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE t (seq INTEGER, data TEXT)",
    ):
        connection.execute(statement)
    times = []
    for number in range(count):
        start = time.process_time_ns()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("SELECT seq FROM t ORDER BY rowid DESC LIMIT 1").fetchone()
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 1_200))
        connection.execute("COMMIT")
        times.append(time.process_time_ns() - start)
    connection.close()
    return statistics.median(times) / 1_000


def searches(scope: TenantScope, count: int) -> list[Row]:
    """What people look for, each over all records."""
    asked: dict[str, dict[str, Any]] = {
        "a session": {"session": "session-7"},
        "a skill": {"skill": "skill-7"},
        "a user's refusals": {"user": "user-7", "outcome": "deny"},
        "a text that is nowhere": {"text": "no such text"},
    }
    rows = []
    for what, given in asked.items():
        took = clock_us(functools.partial(scope.audit.search, **given))
        rows.append(Row(f"search {count:,}: {what}", took, most("audit", "search")))
    return rows


def measure(log: StoreLog, tenant: str, count: int, key: Path, folder: Path) -> list[Row]:
    """All of it."""
    made, times = records(tenant), []
    for _ in range(count):
        record = made()
        start = time.process_time_ns()
        log.append(record)
        times.append(time.process_time_ns() - start)
    limit = most("audit", "append, CPU, median") if log.store.kind == "sqlite" else None
    rows = [
        Row("append, CPU, median", statistics.median(times) / 1_000, limit),
        Row("the same bytes in bare SQLite (baseline)", bare_us(folder, count)),
    ]
    scope = log.store.of(tenant)
    make_checkpoint(log.store, tenant, key)
    rows.extend(searches(scope, count))
    path, keys, signed = folder / "export.jsonl", known_keys(key), checkpoints_of(scope)

    def export() -> None:
        path.write_text("".join(f"{line}\n" for line in export_lines(scope.audit.walk(), signed, "jsonl")))

    rows.append(Row(f"export {count:,} as JSON lines", clock_us(export)))
    checks: dict[str, Callable[[], ChainVerification]] = {
        "the export": lambda: verify_export(path, keys),
        "the store": lambda: verify(tenant, scope.audit.walk(), signed, keys),
    }
    for what, work in checks.items():
        verdict = work()
        if not verdict.is_ok or verdict.records != count or not verdict.checkpoints:
            raise SystemExit(f"{what} does not verify: {verdict}")
        rows.append(Row(f"verify {what}", clock_us(work)))
    return rows


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--store", metavar="URL")
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        key, tenant = root / "keys" / "audit.ed25519", f"benchmark-{os.urandom(4).hex()}"
        log = StoreLog(options.store or f"sqlite:///{root}/metier.db", key=key)
        rows = measure(log, tenant, options.records, key, root)
        log.close()
    return report(rows, options, f"{options.records:,} records; microseconds", cells)


if __name__ == "__main__":
    sys.exit(main())
