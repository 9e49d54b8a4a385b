"""One process of the stress test: writes, refreshes and reads until time is up; prints what it saw go wrong.

python stress_worker.py SKILLS CACHE SECONDS SEED
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
import traceback
from pathlib import Path

from metier import Library
from metier.errors import MetierError

SHARED = 12
BODY_LINES = 40


def text_of(name: str, version: int) -> str:
    """A skill whose body tells whether all of it comes from one version."""
    middle = "\n".join(f"line {number} of version {version}" for number in range(BODY_LINES))
    return (
        f"---\nname: {name}\ndescription: Version {version} of {name}.\n---\nBEGIN {version}\n{middle}\nEND {version}\n"
    )


def problem_in(name: str, body: str) -> str | None:
    """What is wrong with a body: torn, or not one of ours.

    A skill that is rewritten in place is half a file for as long as its writer is kept from going on: no reader can
    tell that from a short one. What was on disk at one moment is right then; parts of two moments never are.
    """
    lines = body.split("\n")
    if not name.startswith("shared-") and lines[0].startswith("BEGIN "):
        whole = text_of(name, int(lines[0].removeprefix("BEGIN "))).partition("---\n")[2].partition("---\n")[2]
        if whole.startswith(body):
            return None
    begin, end = lines[0].split(" "), lines[-1].split(" ")
    if begin[0] != "BEGIN" or end[0] != "END" or begin[1] != end[1] or len(lines) != BODY_LINES + 2:
        return f"torn body: {lines[0]!r} to {lines[-1]!r}, {len(lines)} lines"
    if any(not line.endswith(f"of version {begin[1]}") for line in lines[1:-1]):
        return f"mixed body of version {begin[1]}"
    return None


class Worker:
    """Edits some skills, and looks at all of them."""

    def __init__(self, skills: Path, cache: Path, seed: int) -> None:
        self.skills = skills
        self.chance = random.Random(seed)
        self.seed = seed
        self.library = Library.from_folder(skills, cache=cache)
        self.cache = cache
        self.versions = 0
        self.problems: list[str] = []
        self.done = 0

    def run(self, until: float) -> None:
        try:
            while time.monotonic() < until and not self.problems:
                self.step()
                self.done += 1
        except Exception:
            self.problems.append(traceback.format_exc())

    def step(self) -> None:
        action = self.chance.randrange(10)
        if action < 2:
            self.replace(f"shared-{self.chance.randrange(SHARED):02d}")
        elif action < 4:
            self.rewrite(f"own-{self.seed}-{self.chance.randrange(3)}")
        elif action == 4:
            self.come_and_go(f"guest-{self.seed}")
        elif action < 7:
            self.library.refresh()
        elif action == 7 and self.chance.random() < 0.2:
            self.library = Library.from_folder(self.skills, cache=self.cache)
        else:
            self.read()

    def replace(self, name: str) -> None:
        """As good editors do: a new file moved over the old one; several processes may write the same skill."""
        self.versions += 1
        folder = self.skills / name
        beside = folder / f".{os.getpid()}-{threading.get_ident()}"
        beside.write_text(text_of(name, self.versions))
        os.replace(beside, folder / "SKILL.md")

    def rewrite(self, name: str) -> None:
        """As careless programs do: truncated and written in place, in two pieces."""
        self.versions += 1
        text = text_of(name, self.versions)
        (self.skills / name).mkdir(exist_ok=True)
        with open(self.skills / name / "SKILL.md", "w") as file:
            file.write(text[: len(text) // 2])
            file.flush()
            file.write(text[len(text) // 2 :])

    def come_and_go(self, name: str) -> None:
        folder = self.skills / name
        if folder.exists():
            shutil.rmtree(folder)
        else:
            self.rewrite(name)

    def read(self) -> None:
        for entry in self.library.entries(all=True):
            if not entry.name.startswith(("shared-", "own-", "guest-")):
                self.problems.append(f"a skill of no known name: {entry!r}")
            if not entry.is_broken and not entry.is_stale and not entry.description.startswith("Version "):
                self.problems.append(f"{entry!r} is described as {entry.description!r}")
        names = [entry.name for entry in self.library]
        missing = {f"shared-{number:02d}" for number in range(SHARED)} - set(names)
        if missing:
            self.problems.append(f"skills that nobody removed are missing: {missing}")
        for name in self.chance.sample(names, min(4, len(names))):
            try:
                body = self.library.document(name).body
            except MetierError:
                if name.startswith("shared-"):
                    raise  # nobody removes or half writes these
                continue
            if (problem := problem_in(name, body)) is not None:
                self.problems.append(f"{name}: {problem}")


def main() -> int:
    skills, cache, seconds, seed = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    worker = Worker(skills, cache, seed)
    worker.run(time.monotonic() + seconds)
    for problem in worker.problems:
        print(problem)
    print(f"{worker.done} steps", file=sys.stderr)
    return 1 if worker.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
