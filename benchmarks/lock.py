"""The cost of what is installed: comparing 1,000 skills with their lock, and asking the sources of 200 for news.

    python benchmarks/lock.py [--skills 1000] [--json] [--check]

CPU seconds (user and system) of the whole command, the start of Python included, with files that were read before; and
how often sources are asked by `metier update --all` where nothing changed, for each of ten sources.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from _limits import most
from _table import add_options, mark, report
from _workload import make_skills
from metier.hub import updates
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer, resolve
from metier.library.lock_file import LockedSkill, LockFile
from metier.skill import FolderPackage

CHECK, ASKED = "metier lock --check", "metier update --all: requests"
SOURCES, OF_EACH = 10, 20


class Row(NamedTuple):
    """One line of the table."""

    what: str
    found: float

    @property
    def limit(self) -> float | None:
        return most("lock", self.what)

    @property
    def holds(self) -> bool | None:
        return None if self.limit is None else self.found <= self.limit


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    return row.what, f"{row.found:.2f}", "" if row.limit is None else f"{row.limit:g}", mark(row)


def checked(folder: Path, skills: int) -> float:
    """The CPU seconds of comparing so many skills with their lock."""
    (folder / ".git").mkdir()
    make_skills(folder / ".metier/skills", skills, plain=True)
    lock = LockFile(path=str(folder / "metier.lock")).with_skill(
        *(
            LockedSkill(name=each.name, folder=f".metier/skills/{each.name}", digest=FolderPackage(each).digest())
            for each in (folder / ".metier/skills").iterdir()
        )
    )
    lock.write()
    environment = {**os.environ, "HOME": str(folder), "USERPROFILE": str(folder), "METIER_DATA": str(folder / "data")}
    command = [sys.executable, "-m", "metier", "lock", "--check"]
    subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def asked(folder: Path) -> float:
    """How often a source of unchanged skills is asked, on average."""
    skills = []
    for number in range(SOURCES):
        with zipfile.ZipFile(folder / f"{number}.zip", "w") as archive:
            archive.writestr("x/SKILL.md", "---\nname: x\ndescription: Does x.\n---\nDo.\n")
        state = resolve(parse_address(str(folder / f"{number}.zip")))
        for each in range(OF_EACH):
            name = f"x-{number}-{each}"
            skills.append(
                LockedSkill(
                    name=name,
                    folder=f".metier/skills/{name}",
                    source=state.address.name,
                    revision=state.revision,
                    digest=f"sha256:{'0' * 64}",
                )
            )
    lock = LockFile(path=str(folder / "metier.lock")).with_skill(*skills)
    states = list(updates.source_states(updates.installed_skills([lock]), Transfer()))
    # A source with news is fetched as well.
    return sum(1 + bool(state.newer) for state in states) / SOURCES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1000)
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as one, tempfile.TemporaryDirectory() as other:
        rows = [Row(CHECK, checked(Path(one), options.skills)), Row(ASKED, asked(Path(other)))]
    title = f"{options.skills:,} skills compared with their lock, and {SOURCES * OF_EACH} skills of {SOURCES} sources"
    return report(rows, options, title, cells, ("what", "found", "limit", ""))


if __name__ == "__main__":
    sys.exit(main())
