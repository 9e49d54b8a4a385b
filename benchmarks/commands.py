"""What each command costs from start to end, as a multiple of `python -c pass` in the same run.

    python benchmarks/commands.py [--rounds 9] [--only list,run] [--json] [--check]

CPU time (user and system) of the process and of all that it waited for, with compiled bytecode, the median of several
rounds in turns. The home folder is a new one: five skills of the user, those that come with the package, the index as
earlier commands left it, and no policy; commands that need a store have one with records and a request in it. Of what
`metier run` costs, its script alone is shown too: an interpreter, as `python -c pass` is.
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
from _limits import most
from _table import add_options, mark, report
from _workload import make_skills

BARE = "python -c pass"
HOMES = ("new", "used")
"""Homes without a store, as before anything was governed; and with one in which there are records and a request."""
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "import metier": ("new", ["-c", "import metier"]),
    "from metier import Library": ("new", ["-c", "from metier import Library"]),
    "metier --version": ("new", ["-m", "metier", "--version"]),
    "metier --help": ("new", ["-m", "metier", "--help"]),
    "metier show --help": ("new", ["-m", "metier", "show", "--help"]),
    "metier list": ("new", ["-m", "metier", "list"]),
    "metier list, beside a store": ("used", ["-m", "metier", "list"]),
    "metier show": ("new", ["-m", "metier", "show", "skill-000001"]),
    "metier search, warm": ("new", ["-m", "metier", "search", "files that the user names"]),
    "metier policy show": ("new", ["-m", "metier", "policy", "show"]),
    "metier approve list": ("used", ["-m", "metier", "approve", "list"]),
    "metier audit tail": ("used", ["-m", "metier", "audit", "tail"]),
    "metier stats": ("used", ["-m", "metier", "stats"]),
    "metier run": ("used", ["-m", "metier", "run", "skill-000001", "run.py"]),
    "the script of `metier run` alone": ("used", ["../.claude/skills/skill-000001/scripts/run.py"]),
}
"""What is measured: the home that it is started in, and the words behind the interpreter."""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ms: float
    ratio: float

    @property
    def limit(self) -> float | None:
        return most("commands", self.what)

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.ratio <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("metier --version", 40.0, 2.5))
    ('metier --version', '40.0 ms', '2.50x', '3x', '')
    """
    return row.what, f"{row.ms:,.1f} ms", f"{row.ratio:.2f}x", "" if row.limit is None else f"{row.limit:g}x", mark(row)


def environment(home: Path) -> dict[str, str]:
    """The environment of a command whose user has this home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_"))}
    # The bytecode of the package is there; that of the script is nobody's to write. Other packages that are installed
    # here may have skills, too.
    more = {"PYTHONDONTWRITEBYTECODE": "1", "METIER_PLUGINS": "metier"}
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), **more}


def prepare(home: Path) -> None:
    """Make a home with five skills; in one that was used there are records, and a request that waits."""
    make_skills(home / ".claude" / "skills", 5, plain=True)
    (home / "work").mkdir()
    if home.name == "used":
        cpu(COMMANDS["metier run"][1], home)
        cpu(["-c", REQUEST], home)


REQUEST = """
from metier.store import ApprovalRequest, Store, default_store

store = Store.open(default_store())
asked = ApprovalRequest(digest="sha256:" + "0" * 64, skill="skill-000001", capabilities=("shell",))
store.of().approvals.request(asked)
store.close()
"""


def cpu(words: list[str], home: Path) -> float:
    """The CPU seconds of an interpreter and of all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command, env = [sys.executable, *words], environment(home)
    subprocess.run(command, check=True, env=env, cwd=home / "work", stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(names: list[str], rounds: int) -> list[Row]:
    """Each command by turns, so that a slow minute hits all of them."""
    commands = {BARE: ("new", ["-c", "pass"])} | {what: COMMANDS[what] for what in names}
    times: dict[str, list[float]] = {what: [] for what in commands}
    compileall.compile_dir(Path(metier.__file__).parent, quiet=2, rx=re.compile("bundled"))
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder:
        for home in HOMES:
            prepare(Path(folder, home))
        # What is measured once before the others leaves the index, and is not counted.
        for number in range(rounds + 1):
            for what, (home, words) in commands.items():
                used = cpu(words, Path(folder, home))
                times[what] += [used] if number else []
    middle = {what: statistics.median(seconds) for what, seconds in times.items()}
    return [Row(what, seconds * 1_000, seconds / middle[BARE]) for what, seconds in middle.items()]


def main() -> int:
    """Run the benchmark and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured")
    parser.add_argument("--only", default="", help="those that contain one of these words, separated by commas")
    add_options(parser)
    options = parser.parse_args()
    words = options.only.split(",")
    names = [what for what in COMMANDS if any(word in what for word in words)]
    rows = measure(names, options.rounds)
    title = "CPU time from start to end; the median of several rounds, compiled\n"
    return report(rows, options, title, cells, ("WHAT", "CPU", "RATIO", "LIMIT", ""))


if __name__ == "__main__":
    raise SystemExit(main())
