"""What each command costs from start to end, as a multiple of `python -c pass` in the same run.

    python benchmarks/commands.py [--rounds 9] [--only list,run] [--json] [--check]

CPU time (user and system) of the process and of all that it waited for, with compiled bytecode, the median of several
rounds in turns. The home folder is a new one: five skills of the user, those that come with the package, the index and
the store as earlier commands left them, and no policy. `metier run` is also measured against its script alone, as the
interpreter of the script costs what `python -c pass` does.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import metier
from _limits import most, tables
from _table import add_options, mark, report
from _workload import make_skills

BARE = "python -c pass"
SCRIPT = "the script alone"
WHATS = (*tables()["commands"], SCRIPT)
"""What is measured: all that has a limit, and the interpreter of the script."""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ms: float
    ratio: float
    limit: float | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.ratio <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("metier --version", 40.0, 2.5, 3.0))
    ('metier --version', '40.0 ms', '2.50x', '3x', '')
    """
    return row.what, f"{row.ms:,.1f} ms", f"{row.ratio:.2f}x", "" if row.limit is None else f"{row.limit:g}x", mark(row)


def prepare(folder: Path) -> dict[str, str]:
    """A home with five skills, and a store with a request that waits; returns the environment for commands in it."""
    home = folder / "home"
    make_skills(home / ".claude" / "skills", 5, plain=True)
    (home / "work").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_"))}
    # The bytecode of the package is there; that of the script is nobody's to write.
    env = {**kept, "HOME": str(home), "USERPROFILE": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    compileall.compile_dir(Path(metier.__file__).parent, quiet=2, rx=re.compile("bundled"))
    return env


def command_of(what: str, home: Path) -> list[str]:
    """The words to start."""
    if what == SCRIPT:
        return [sys.executable, str(home / ".claude/skills/skill-000001/scripts/run.py")]
    if what.startswith("python -c "):
        return [sys.executable, "-c", what.removeprefix("python -c ").strip("'")]
    words = what.split()[1:]
    if words[0] == "search":
        words = ["search", " ".join(words[1:])]
    return [sys.executable, "-m", "metier", *words]


def cpu(command: list[str], env: dict[str, str], folder: Path) -> float:
    """The CPU seconds of one process and of all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(names: list[str], rounds: int) -> list[Row]:
    """Each command by turns, so that a slow minute hits all of them."""
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as temporary:
        folder = Path(temporary)
        env = prepare(folder)
        work = folder / "home" / "work"
        commands = {what: command_of(what, folder / "home") for what in (BARE, *names)}
        # A run leaves records in the store; every command leaves the index.
        cpu(command_of("metier run skill-000001 run.py", folder / "home"), env, work)
        for command in commands.values():
            cpu(command, env, work)
        times: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(rounds):
            for what, command in commands.items():
                times[what].append(cpu(command, env, work))
    bare = statistics.median(times.pop(BARE))
    rows = [Row(BARE, bare * 1_000, 1.0)]
    for what, seconds in times.items():
        middle = statistics.median(seconds)
        rows.append(Row(what, middle * 1_000, middle / bare, most("commands", what)))
    return rows


def main() -> int:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured")
    parser.add_argument("--only", default="", help="those that contain one of these words, separated by commas")
    add_options(parser)
    options = parser.parse_args()
    words = options.only.split(",")
    names = [what for what in WHATS if any(word in what for word in words)]
    rows = measure(names, options.rounds)
    title = "CPU time from start to end; the median of several rounds, compiled\n"
    return report(rows, options, title, cells, ("WHAT", "CPU", "RATIO", "LIMIT", ""))


if __name__ == "__main__":
    raise SystemExit(main())
