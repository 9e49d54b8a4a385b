"""What a decision through the hook of a client costs, beside a hook that runs `true`.

    python benchmarks/client_hooks.py [--calls 100] [--rounds 5] [--rest 65] [--json] [--check]

Both are started as clients start hooks: by a program of Node, through a shell, with the event on standard input. CPU
time (user and system) of everything: Node without its start, the shell, the program of the hook, and the resident
process. The median of several rounds in turns. The home is a new one with five skills, one of which is used in the
conversation, and each decision is recorded in its store. For information: the same from Python, and the hook without
the resident process. Needs Node, Perl and Linux.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import metier
from _limits import NOTHING_TO_MEASURE, most
from _table import add_options, mark, report
from _workload import make_skills

CLIENT = """
const { spawn } = require("child_process");
const [command, count, ...events] = process.argv.slice(1);
function call(number) {
  if (number == count) return;
  const child = spawn(command, { shell: true });
  child.stdout.on("data", () => {});
  child.stderr.on("data", (data) => process.stderr.write(data));
  child.stdin.on("error", () => {});
  child.on("close", (code) => { if (code) process.exit(code); call(number + 1); });
  child.stdin.end(events[number % events.length]);
}
call(0);
"""
COMMANDS = ("git log --oneline", "ls -la src", "grep -rn name . | head -5", "cat README.md", "git diff && git status")
BARE = "a hook that runs `true`"


class Row(NamedTuple):
    """One line of the table."""

    what: str
    value: float
    unit: str
    ratio: float | None = None

    @property
    def limit(self) -> float | None:
        return most("client_hooks", self.what)

    @property
    def holds(self) -> bool | None:
        found = self.value if self.ratio is None else self.ratio
        return None if self.limit is None else found <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("a hook", 4.0, "ms", 2.0))
    ('a hook', '4.00 ms', '2.00x', '', '')
    """
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    limit = "" if row.limit is None else f"{row.limit:g}" + ("x" if row.ratio is not None else f" {row.unit}")
    return row.what, f"{row.value:,.2f} {row.unit}", ratio, limit, mark(row)


class Home:
    """A user who has a client protected, and a conversation that uses a skill."""

    def __init__(self, folder: str) -> None:
        self.folder, self.project = folder, os.path.join(folder, "work")
        make_skills(Path(folder, ".claude", "skills"), 5, plain=True)
        os.makedirs(os.path.join(self.project, ".git"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_"))}
        self.environ = {**kept, "HOME": folder, "METIER_PLUGINS": "metier", "XDG_RUNTIME_DIR": folder}
        os.chmod(folder, 0o700)
        code = "from metier.serve.client_hooks.fast_client import *; hook_program(); print(hook_command('claude-code'))"
        done = subprocess.run([sys.executable, "-c", code], env=self.environ, check=True, stdout=subprocess.PIPE)
        self.hook = done.stdout.decode().strip()
        self.events = [self.event("Bash", {"command": command}) for command in COMMANDS]

    def event(self, tool: str, arguments: dict[str, str]) -> str:
        told = {"hook_event_name": "PreToolUse", "session_id": "c", "cwd": self.project, "tool_use_id": "t"}
        return json.dumps({**told, "tool_name": tool, "tool_input": arguments, "permission_mode": "default"})

    def call(self, command: str, event: str) -> None:
        subprocess.run(
            command, shell=True, input=event.encode(), env=self.environ, check=True, stdout=subprocess.DEVNULL
        )

    def warm(self) -> int:
        """Have the resident process started and a skill used; the id of the process."""
        loading = self.event("Skill", {"skill": "skill-000001"})
        self.call(self.hook, loading)
        until = time.monotonic() + 30
        while not list(Path(self.folder, "metier").glob("*.sock")):
            if time.monotonic() > until:
                raise SystemExit("The resident process does not start.")
            time.sleep(0.05)
        for event in (loading, *self.events):
            self.call(self.hook, event)
        found = [line for line in processes() if f"--resident {self.folder}".encode() in line[1]]
        [(number, _)] = found
        return number


def processes() -> list[tuple[int, bytes]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ")))
        except OSError:
            continue
    return found


def cpu_of(process: int) -> float:
    """The CPU seconds of another process so far, with those of its threads that ended."""
    user, system = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> float:
    """The resident memory of a process in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc", str(process), "status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def cpu(work: Callable[[], object], process: int | None = None) -> float:
    """The CPU seconds of the children that some work waits for, and of a process that works for them."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime + (cpu_of(process) if process else 0)

    before = used()
    work()
    return used() - before


def from_node(home: Home, command: str, calls: int) -> Callable[[], object]:
    words = ["node", "-e", CLIENT, command, str(calls), *home.events]
    return lambda: subprocess.run(words, env=home.environ, check=True)


def from_python(home: Home, command: str, calls: int) -> Callable[[], object]:
    def work() -> None:
        for number in range(calls):
            home.call(command, home.events[number % len(home.events)])

    return work


def measure(calls: int, rounds: int, rest: float) -> list[Row]:
    compileall.compile_dir(Path(metier.__file__).parent, quiet=2, rx=re.compile("bundled"))
    with tempfile.TemporaryDirectory(prefix="mb-", dir="/tmp") as folder:
        home = Home(folder)
        resident = home.warm()
        try:
            direct = f"{sys.executable} -I -m metier.serve.client_hooks claude-code"
            few = max(calls // 20, 2)
            ways: dict[str, list[float]] = {}

            def add(name: str, work: Callable[[], object], each: int, of: int | None = None, less: float = 0) -> None:
                ways.setdefault(name, []).append((cpu(work, of) - less) / each * 1000)

            for _ in range(rounds):
                start = cpu(from_node(home, "true", 0))
                add(BARE, from_node(home, "true", calls), calls, less=start)
                add("a decision through the hook", from_node(home, home.hook, calls), calls, resident, start)
                add("of that, the resident process", lambda: None, 1)
                before = cpu_of(resident)
                from_node(home, home.hook, calls)()
                ways["of that, the resident process"][-1] = (cpu_of(resident) - before) / calls * 1000
                add("`true`, from Python", from_python(home, "true", calls), calls)
                add("the hook, from Python", from_python(home, home.hook, calls), calls, resident)
                add("the hook without the resident process", from_python(home, direct, few), few)
            figures = {name: statistics.median(found) for name, found in ways.items()}
            bases = {"a decision through the hook": BARE, "the hook, from Python": "`true`, from Python"}
            # Of each round by itself, as others use the machine at one time more than at another.
            ratios = {
                name: statistics.median(one / other for one, other in zip(ways[name], ways[base], strict=True))
                for name, base in bases.items()
            }
            rows = [Row(name, value, "ms", ratios.get(name)) for name, value in figures.items()]
            rows.append(Row("memory of the resident process, after these calls", memory_of(resident), "MB"))
            time.sleep(rest)
            return [*rows, Row("memory of the resident process at rest", memory_of(resident), "MB")]
        finally:
            os.kill(resident, 15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="hooks in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=65, help="seconds without a call before its memory is read")
    add_options(parser)
    options = parser.parse_args()
    if not (shutil.which("node") and os.path.exists("/usr/bin/perl") and sys.platform == "linux"):
        print("Node, Perl or Linux is missing.")
        return NOTHING_TO_MEASURE
    rows = measure(options.calls, options.rounds, options.rest)
    return report(rows, options, "Hooks of clients, CPU of everything for each call", cells)


if __name__ == "__main__":
    sys.exit(main())
