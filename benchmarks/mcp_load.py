"""Many clients of one `metier mcp --http` at once: no error, and nobody sees what belongs to another.

    python benchmarks/mcp_load.py [--clients 100] [--seconds 20] [--json]

Every client has a skill of its own and a conversation of its own, half of them by the handshake protocols and half by
2026-07-28. In turns it loads its skill, reads a file of whatever is loaded, tries a file of its neighbour's skill, and
unloads. Whatever does not come out as it must is a problem, and then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from _limits import check
from _table import aligned

KEY = re.compile(r'conversation="([^"]+)"')
MODES = ("legacy", "auto")


@dataclass(slots=True, kw_only=True)
class Findings:
    """What came of it."""

    calls: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def write_skills(root: Path, count: int) -> None:
    for number in range(count):
        folder = root / f"skill-{number:03d}"
        (folder / "references").mkdir(parents=True)
        text = f"---\nname: {folder.name}\ndescription: Does what client {number} needs.\n---\nBody of {folder.name}.\n"
        (folder / "SKILL.md").write_text(text)
        (folder / "references" / "own.md").write_text(f"Belongs to {folder.name}.\n")


class Talker:
    """One client in its conversation."""

    def __init__(self, client: Client, number: int, count: int, findings: Findings) -> None:
        self._client, self._findings = client, findings
        self._mine = f"skill-{number:03d}"
        self._other = f"skill-{(number + 1) % count:03d}"
        self._key: str | None = None

    async def turn(self) -> None:
        self._key = None
        loaded, _ = await self._call("skills_load", skills=[self._mine])
        key = KEY.search(loaded)
        self._key = key[1] if key else None
        self._expect("load", f"Body of {self._mine}." in loaded and f"loaded last: {self._mine}." in loaded, loaded)
        own, failed = await self._call("skills_read", path="references/own.md")
        self._expect("read", not failed and f"Belongs to {self._mine}." in own, own)
        others, failed = await self._call("skills_read", path="references/own.md", skill=self._other)
        self._expect("refusal", failed and "Belongs to" not in others, others)
        left, failed = await self._call("skills_unload", all=True)
        self._expect("unload", not failed and "No skill is active." in left, left)

    async def _call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        if self._key is not None:
            arguments["conversation"] = self._key
        begun = time.perf_counter()
        result = await self._client.call_tool(tool, arguments)
        self._findings.seconds.append(time.perf_counter() - begun)
        return "".join(getattr(part, "text", "") for part in result.content), bool(result.is_error)

    def _expect(self, what: str, is_so: bool, got: str) -> None:
        self._findings.calls[what] += 1
        if not is_so:
            self._findings.problems.append(f"{self._mine}, {what}: {got[:200]!r}")


async def run(url: str, count: int, seconds: float) -> Findings:
    findings = Findings()
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        try:
            async with Client(url, mode=MODES[number % len(MODES)]) as client:
                talker = Talker(client, number, count, findings)
                await talker.turn()
                while time.monotonic() < until:
                    await talker.turn()
        except Exception as error:
            findings.problems.append(f"client {number}: {type(error).__name__}: {error}"[:300])

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return findings


def table(findings: Findings, count: int, took: float) -> str:
    times = sorted(findings.seconds)
    percentiles = statistics.quantiles(times, n=100) if len(times) > 1 else [0.0] * 99
    rows = [
        ("clients at once", f"{count:,}"),
        ("seconds", f"{took:.1f}"),
        *((f"calls: {what}", f"{number:,}") for what, number in findings.calls.items()),
        ("calls a second", f"{len(times) / took:,.0f}"),
        ("ms a call, median / 95 % / 99 %", " / ".join(f"{percentiles[n] * 1_000:,.0f}" for n in (49, 94, 98))),
        ("problems", f"{len(findings.problems):,}"),
    ]
    return aligned(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100, help="how many at once")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long")
    parser.add_argument("--json", action="store_true", help="print figures instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_skills(Path(folder) / "skills", options.clients)
        env = {**os.environ, "METIER_AUDIT": f"{folder}/audit.jsonl", "METIER_CACHE": f"{folder}/cache"}
        command = [sys.executable, "-m", "metier", "--skills", f"{folder}/skills", "mcp", "--http", "127.0.0.1:0"]
        command.append("--no-token")
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                # Warnings about the skills come first.
                lines = map(re.compile(r"http://\S+/mcp").search, server.stderr)
                url = next((found for found in lines if found), None)
                if url is None:
                    print("The server did not start.", file=sys.stderr)
                    return 1
                begun = time.monotonic()
                findings = anyio.run(run, url[0], options.clients, options.seconds)
                took = time.monotonic() - begun
            finally:
                server.terminate()
                server.wait(timeout=30)
            code = server.returncode
    if code:
        findings.problems.append(f"the server ended with {code}")
    if options.json:
        print(json.dumps({"calls": findings.calls, "problems": findings.problems, "seconds": took}, indent=2))
    else:
        print(table(findings, options.clients, took))
        for problem in findings.problems[:20]:
            print(problem, file=sys.stderr)
        return check("mcp_load", {"problems": len(findings.problems)})
    return 1 if findings.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
