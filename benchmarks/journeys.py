"""How many modules a reader has to enter to follow one thing from its beginning to its end.

    python benchmarks/journeys.py [--list] [--json] [--check]

Three journeys are played with `sys.setprofile`: (a) a folder on disk becomes the catalog line of a model, (b) the
shell command of a model in a warm session is decided and recorded, (c) a script is run from the command line, seen
from the parent process. Each runs in a process of its own. Only calls of functions in this package count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from _limits import most
from _table import add_options, mark, report

TITLES = {
    "a": "a: a folder on disk -> the catalog line that a model sees",
    "b": 'b: Bash("git log | sh") in a warm session -> decision -> audit record',
    "c": "c: metier run csv-analyst peek_csv.py -- f.csv, parent process",
}
SKILL = "---\nname: reads-git\ndescription: Reads a history.\nallowed-tools: Bash(git:*)\n---\nRun git log.\n"


class Journey(NamedTuple):
    """The way of one journey through the package."""

    journey: str
    modules: int
    changes: int
    """How often the next function called lies in another module than the one before."""
    calls: int
    limit: float

    @property
    def holds(self) -> bool:
        return self.modules <= self.limit


@contextmanager
def profiled(calls: list[str]) -> Iterator[None]:
    """Collect the module of each function of the package that is called."""
    import metier

    root = str(Path(metier.__file__).parent) + os.sep
    # They stand for `dataclasses` and `logging` of the standard library, which nobody enters either.
    left_out = (f"{root}_dataclasses.py", f"{root}_log.py")

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # The bodies of modules and classes are no functions.
        path = code.co_filename
        if event == "call" and code.co_flags & CO_OPTIMIZED and path.startswith(root) and path not in left_out:
            calls.append(path.removeprefix(root))

    threading.setprofile(note)  # threads that start from now on
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def folder_to_catalog(folder: Path) -> list[str]:
    """Journey (a)."""
    from metier import Library

    calls: list[str] = []
    with profiled(calls):
        text = Library.from_folder(folder / "skills").session().instructions()
    assert "reads-git" in text
    return calls


def command_to_record(folder: Path) -> list[str]:
    """Journey (b)."""
    import anyio

    from metier import Library

    session = Library.from_folder(folder / "skills").session(workspace=folder / "work")
    session.load("reads-git")
    executor = session.executor(builtin=["Bash"])
    calls: list[str] = []

    async def call() -> None:
        await executor.execute("Bash", {"command": "git log | cat"})
        with profiled(calls):
            result = await executor.execute("Bash", {"command": "git log | sh"})
        assert not result.success

    anyio.run(call)
    return calls


def script_from_the_command_line(folder: Path) -> list[str]:
    """Journey (c)."""
    from metier.cli.main import main

    os.chdir(folder / "work")
    calls: list[str] = []
    with profiled(calls):
        code = main(["run", "csv-analyst", "peek_csv.py", "--", "f.csv"])
    assert code == 0
    return calls


JOURNEYS: dict[str, Callable[[Path], list[str]]] = {
    "a": folder_to_catalog,
    "b": command_to_record,
    "c": script_from_the_command_line,
}


def play(journey: str) -> None:
    """Play one journey in a home of its own and print the module of each call as JSON."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("home", "work", "skills/reads-git"):
            (folder / name).mkdir(parents=True)
        (folder / "skills/reads-git/SKILL.md").write_text(SKILL)
        (folder / "work/f.csv").write_text("month,sales\n1,20\n")
        os.environ.update(HOME=str(folder / "home"), XDG_CACHE_HOME=str(folder / "home/.cache"))
        calls = JOURNEYS[journey](folder)
        os.chdir("/")
    print(json.dumps(calls))


def traced(journey: str) -> list[str]:
    """The module of each call of one journey, played in a process of its own."""
    command = [sys.executable, __file__, "--play", journey]
    played = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    modules: list[str] = json.loads(played.stdout.splitlines()[-1])
    return modules


def measured(journey: str, calls: list[str]) -> Journey:
    """The figures of one journey.

    >>> measured("a", ["x.py", "x.py", "y.py"])
    Journey(journey='a', modules=2, changes=1, calls=3, limit=40)
    """
    changes = sum(before != after for before, after in itertools.pairwise(calls))
    return Journey(journey, len(set(calls)), changes, len(calls), most("journeys", journey) or 0)


def cells(row: Journey) -> tuple[str, ...]:
    """A row as it is printed."""
    numbers = (f"{number:,}" for number in (row.modules, row.limit, row.changes, row.calls))
    return TITLES[row.journey], *numbers, mark(row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="print the modules of each journey too")
    parser.add_argument("--play", choices=sorted(JOURNEYS), help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    if options.play:
        play(options.play)
        return 0
    calls = {journey: traced(journey) for journey in JOURNEYS}
    if options.list:
        for journey, modules in calls.items():
            print(TITLES[journey])
            for module, count in sorted(Counter(modules).items()):
                print(f"{count:6}  {module}")
    rows = [measured(journey, modules) for journey, modules in calls.items()]
    return report(rows, options, "Journeys", cells, ("journey", "modules", "limit", "changes", "calls", ""))


if __name__ == "__main__":
    sys.exit(main())
