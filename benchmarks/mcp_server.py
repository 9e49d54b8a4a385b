"""Compare `metier mcp` with FastMCP's skills provider: its start, and what each request costs.

    python benchmarks/mcp_server.py [--skills 100] [--calls 100] [--fastmcp PYTHON] [--json] [--check]

The same skills over stdio, one process a server, spoken to line by line so that no client is measured. Start is until
the list of tools is there, on the clock and in CPU time, the median of several with warm bytecode; the rest is CPU time
of the server's process as Linux counts it, the median of several rounds in turns. The baseline is a server on the
official SDK that reads a file and does nothing else. `metier mcp` decides about each call and writes an audit record of
it, as it does by default. `--fastmcp` names an interpreter that has fastmcp 4.1 or later; without it, the running one
is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _limits import check
from _table import add_options, aligned
from _workload import make_skills

HERE = Path(__file__).parent
ROUNDS = 5
TICK = os.sysconf("SC_CLK_TCK")
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Connection:
    """A server that was started, and its standard input and output."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        self._number = 0
        self.request("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = self.request("tools/list", {})["tools"]

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._number:
                if "error" in answer or answer["result"].get("isError"):
                    raise RuntimeError(f"{method}: {json.dumps(answer)[:300]}")
                result: dict[str, Any] = answer["result"]
                return result
        raise RuntimeError(f"{method}: the server ended")

    @property
    def process(self) -> int:
        """The id of the server's process."""
        return self._process.pid

    def cpu(self) -> float:
        """Seconds of CPU that the server took so far, by all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Let the server end as it does when its client is gone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server, and how a skill is had from it by a tool and as a resource."""

    name: str
    command: list[str]
    tool: Callable[[str], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one server costs."""

    name: str
    start_ms: float
    start_cpu_ms: float
    tool_us: float
    read_us: float


def servers(root: Path, fastmcp: str) -> Iterator[Server]:
    yield Server(
        name="bare SDK (baseline)",
        command=[sys.executable, str(HERE / "_peers" / "bare_server.py"), str(root)],
        tool=lambda name: {"name": "read", "arguments": {"name": name}},
    )
    yield Server(
        name="metier mcp",
        command=[sys.executable, "-m", "metier", "mcp", "--skills", str(root)],
        tool=lambda name: {"name": "skills_load", "arguments": {"skills": [name]}},
    )
    if subprocess.run([fastmcp, "-c", "import fastmcp"], capture_output=True).returncode:
        print("fastmcp is not installed there: pip install 'fastmcp>=4.1', and name the interpreter.", file=sys.stderr)
        return
    yield Server(
        name="fastmcp skills provider",
        command=[fastmcp, str(HERE / "_peers" / "fastmcp_server.py"), str(root)],
        tool=lambda name: {"name": "read_resource", "arguments": {"uri": f"skill://{name}/SKILL.md"}},
    )


def environment(folder: str) -> dict[str, str]:
    """The variables of every server: a home of its own, and bytecode that is written, as after an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"HOME": folder, "METIER_DATA": folder, "METIER_AUDIT": f"{folder}/audit.jsonl"}
    return {**kept, **own, "METIER_CACHE": f"{folder}/cache"}


def started(server: Server, env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds until a server answered, on the clock and of CPU."""
    begun = time.perf_counter()
    connection = Connection(server.command, env)
    took, cpu = time.perf_counter() - begun, connection.cpu()
    connection.end()
    return took * 1_000, cpu * 1_000


def round_us(connection: Connection, requests: list[tuple[str, dict[str, Any]]]) -> float:
    before = connection.cpu()
    for method, params in requests:
        connection.request(method, params)
    return (connection.cpu() - before) * 1_000_000 / len(requests)


def measure(found: list[Server], names: list[str], calls: int, env: dict[str, str]) -> list[Row]:
    for server in found:
        started(server, env)  # writes bytecode, and the index between processes
    # In turns, so that a slow moment of the machine does not fall on one of them.
    starts = [[started(server, env) for server in found] for _ in range(ROUNDS)]
    asked = [names[number % len(names)] for number in range(calls)]
    reads = [("resources/read", {"uri": f"skill://{name}/SKILL.md"}) for name in asked]
    connections = [Connection(server.command, env) for server in found]
    costs = []
    for number in range(ROUNDS + 1):
        pairs = [
            (round_us(connection, [("tools/call", server.tool(name)) for name in asked]), round_us(connection, reads))
            for server, connection in zip(found, connections, strict=True)
        ]
        if number:  # the first round imports what is imported late
            costs.append(pairs)
    for connection in connections:
        connection.end()
    return [
        Row(
            name=server.name,
            start_ms=statistics.median(row[number][0] for row in starts),
            start_cpu_ms=statistics.median(row[number][1] for row in starts),
            tool_us=statistics.median(row[number][0] for row in costs),
            read_us=statistics.median(row[number][1] for row in costs),
        )
        for number, server in enumerate(found)
    ]


def table(rows: list[Row]) -> str:
    bare = rows[0]
    head = ("server", "start ms", "of bare", "start CPU ms", "tool call us", "of bare", "resource read us", "of bare")
    body = [
        (
            row.name,
            f"{row.start_ms:.0f}",
            f"{row.start_ms / bare.start_ms:.1f}x",
            f"{row.start_cpu_ms:.0f}",
            f"{row.tool_us:.0f}",
            f"{row.tool_us / bare.tool_us:.1f}x",
            f"{row.read_us:.0f}",
            f"{row.read_us / bare.read_us:.1f}x",
        )
        for row in rows
    ]
    return aligned([head, *body])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=100, help="how many skills there are")
    parser.add_argument("--calls", type=int, default=100, help="how many requests of each kind in a round")
    parser.add_argument("--fastmcp", default=sys.executable, metavar="PYTHON", help="an interpreter with fastmcp")
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "skills"
        root.mkdir()
        make_skills(root, options.skills, plain=True)
        env = environment(folder)
        names = sorted(os.listdir(root))
        rows = measure(list(servers(root, options.fastmcp)), names, options.calls, env)
    if not options.json:
        print(table(rows) + "\n")
    bare, ours = rows[:2]
    figures = {
        "start to first answer, CPU": ours.start_cpu_ms / bare.start_cpu_ms,
        "start to first answer, clock": ours.start_ms / bare.start_ms,
        "tool call": ours.tool_us / bare.tool_us,
        "resource read": ours.read_us / bare.read_us,
    }
    failed = check("mcp_server", figures, is_json=options.json)
    return failed if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
