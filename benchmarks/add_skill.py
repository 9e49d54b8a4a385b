"""The cost of adding one skill out of a repository of 1,000, beside a bare clone of it and beside `npx skills`.

    python benchmarks/add_skill.py [--skills 1000] [--rounds 5] [--json] [--check]

CPU time (user and system) of each command and of all that it started, the median of several rounds in turns; the
repository is packed and lies on the disk, so that the work of the server is part of each. `metier add` is measured
without its scan, which is a row of its own. The limit is about what is left when a bare start is taken off.
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
from pathlib import Path
from typing import NamedTuple

import metier
from _limits import most
from _table import add_options, mark, report
from _workload import make_skills

NPM = Path(__file__).resolve().parents[1] / "tests" / "npm" / "node_modules" / ".bin"
CLONE, START, ADD, SCAN, PEER = "git clone --depth 1", "metier --version", "metier add", "its scan", "npx skills add"
FIRST = "metier add, the first in a new home"


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ms: float
    ratio: float | None = None

    @property
    def limit(self) -> float | None:
        return most("add_skill", self.what)

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None or self.ratio is None else self.ratio <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed.

    >>> cells(Row("its scan", 40.0))
    ('its scan', '40.0 ms', '', '', '')
    """
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    return row.what, f"{row.ms:,.1f} ms", ratio, "" if row.limit is None else f"{row.limit:g}x", mark(row)


def make_repository(folder: Path, skills: int) -> str:
    """The address of a packed bare repository with so many skills."""
    work, bare = folder / "work", folder / "skills.git"
    make_skills(work / "skills", skills, plain=True)
    me = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (
        ["init", "-q", "-b", "main", str(work)],
        ["-C", str(work), "add", "-A"],
        [*me, "-C", str(work), "commit", "-q", "-m", "All"],
        ["clone", "-q", "--bare", str(work), str(bare)],
        ["-C", str(bare), "gc", "-q"],
    ):
        subprocess.run(["git", *words], check=True, env=environment(folder))
    shutil.rmtree(work)
    return f"file://{bare}"


def environment(home: Path) -> dict[str, str]:
    """The environment of a command whose user has this home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_", "GIT_"))}
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


def cpu(command: list[str], home: Path) -> tuple[float, bytes]:
    """The CPU milliseconds of a command and of all that it waited for, and its output."""
    here = home / "here"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, check=True, env=environment(home), cwd=here, stdin=subprocess.DEVNULL, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000, done.stdout


def measure(skills: int, rounds: int) -> list[Row]:
    """Each command by turns, so that a slow minute hits all of them."""
    compileall.compile_dir(Path(metier.__file__).parent, quiet=2, rx=re.compile("bundled"))
    times: dict[str, list[float]] = {}
    has_peer = all((NPM / name).exists() for name in ("node", "skills"))
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder:
        home = Path(folder, "home")
        home.mkdir()
        address = make_repository(Path(folder), skills)
        for number in range(rounds + 1):
            name = f"skill-{number:06d}"
            ours, said = cpu([sys.executable, "-m", "metier", *_add(address, name)], home)
            scan = json.loads(said)["skills"][0]["scan_seconds"] * 1000
            found = {SCAN: scan, ADD if number else FIRST: ours - scan}
            found[CLONE], _ = cpu(["git", "clone", "-q", "--depth", "1", address, "out"], home)
            found[START], _ = cpu([sys.executable, "-m", "metier", "--version"], home)
            if has_peer:
                peer = [str(NPM / "node"), str((NPM / "skills").resolve())]
                found[PEER], _ = cpu([*peer, "add", address, "--skill", name, "-a", "claude-code", "-y"], home)
            for what, ms in found.items():
                times.setdefault(what, []).append(ms)
    middle = {what: statistics.median(each) for what, each in times.items()}
    rows = [Row(CLONE, middle[CLONE]), Row(START, middle[START])]
    rows += [Row(what, middle[what], (middle[what] - middle[START]) / middle[CLONE]) for what in (ADD, FIRST)]
    rows.append(Row(SCAN, middle[SCAN]))
    if has_peer:
        rows.append(Row(PEER, middle[PEER], middle[PEER] / middle[CLONE]))
    return rows


def _add(address: str, name: str) -> list[str]:
    return ["add", f"git+{address}", name, "--to", "personal", "--yes", "--json"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser)
    options = parser.parse_args()
    rows = measure(options.skills, options.rounds)
    title = f"one skill out of {options.skills:,}: CPU, and without a start as a multiple of the clone"
    return report(rows, options, title, cells, ("what", "CPU", "of the clone", "limit", ""))


if __name__ == "__main__":
    sys.exit(main())
