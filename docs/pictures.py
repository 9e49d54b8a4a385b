"""Draws what commands print at a terminal as SVG files for these pages, from scenes that are really played.

python docs/pictures.py            draw all pictures again
python docs/pictures.py --check    only say whether what the commands print has changed
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "pictures"
BUNDLED = Path(__file__).parents[1] / "src" / "metier" / "bundled"
ROW, COLUMN, LEFT, TOP = 19, 8.43, 16, 44
_CODES = {"1": "bold", "2": "dim", "31": "bad", "32": "good", "33": "warn"}
_STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#d8dee4}
.back{fill:#161b22}.bar{fill:#21262d}.bold{font-weight:700}.dim{fill:#8b949e}.bad{fill:#ff7b72}.good{fill:#56d364}
.warn{fill:#e3b341}.title{fill:#8b949e}"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A picture: files that are written, then commands whose output is shown."""

    title: str
    files: dict[str, str]
    commands: tuple[str, ...]
    before: tuple[str, ...] = ()
    """Commands that are not shown."""


_SKILL = """\
---
name: unit-prices
description: Prices for people.
allowed-tools: Bash(python3 scripts/price.py:*) Read
---

Run `scripts/price.py AMOUNT SIZE` and read out what it prints. Look at references/units.md first.
"""
_MENDED = """\
---
name: unit-prices
description: >-
  Compares prices of packages of different size by the price per kilo or litre. Use when somebody asks which package is
  cheaper, or what something costs per unit.
metadata:
  version: "1.0"
allowed-tools: Bash(python3 scripts/price.py:*) Read
---

Run `scripts/price.py AMOUNT SIZE` for each package and read out what it prints.
"""
_SCRIPT = """\
import sys
print(f"{float(sys.argv[1]) / float(sys.argv[2]):.2f}")
"""
_MENDED_SCRIPT = '''\
"""price.py AMOUNT SIZE: the price per unit."""
import argparse

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("amount", type=float)
parser.add_argument("size", type=float)
options = parser.parse_args()
if options.size <= 0:
    parser.error("SIZE must be above 0")
print(f"{options.amount / options.size:.2f}")
'''
SUITE = """\
version: 1
routing:
  - {prompt: "Which package is cheaper, 2.49 for 500 g or 4.29 for a kilo?", should_trigger: true, top: 1}
  - {prompt: "What does this cost per litre?", should_trigger: true, top: 1}
  - {prompt: "Plot the prices in sales.csv", should_trigger: false}
scripts:
  - id: a price per unit
    script: scripts/price.py
    args: ["2.49", "0.5"]
    assertions: [{exit: 0}, {stdout: {equals: "4.98"}}]
  - id: a size of nothing is refused in words
    script: scripts/price.py
    args: ["2.49", "0"]
    assertions: [{exit: 2}, {stderr: {contains: SIZE, excludes: Traceback}}]
rules:
  - {tool: Bash, arguments: {command: "python3 scripts/price.py 2.49 0.5"}, expect: allow}
  - {tool: Bash, arguments: {command: "rm -r prices"}, expect: deny}
"""
_FIRST = {
    "skills/unit-prices/SKILL.md": _SKILL,
    "skills/unit-prices/scripts/price.py": _SCRIPT,
    "skills/unit-prices/evals/suite.yaml": SUITE,
}
_LAST = _FIRST | {
    "skills/unit-prices/SKILL.md": _MENDED,
    "skills/unit-prices/scripts/price.py": _MENDED_SCRIPT,
}

SCENES = {
    "test-fails": Scene(title="see it fail", files=_FIRST, commands=("metier test ./skills/unit-prices",)),
    "test-passes": Scene(title="mend it", files=_LAST, commands=("metier test ./skills/unit-prices",)),
    "score": Scene(title="what would raise it", files=_LAST, commands=("metier score ./skills/unit-prices",)),
}


def play(scene: Scene) -> list[str]:
    """Play a scene in a folder of its own, and return what a terminal would have shown, with its colours."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        here = Path(folder) / "project"
        here.mkdir()
        home.mkdir()
        for path, text in scene.files.items():
            file = here / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        # Beside the skill there are those that come with the package, whatever else this environment has.
        command = f'#!/bin/sh\nexec "{sys.executable}" -m metier --skills "{BUNDLED}" "$@"\n'
        (home / "metier").write_text(command)
        (home / "metier").chmod(0o755)
        keep = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
        path = f"{home}{os.pathsep}{os.environ['PATH']}"
        env = {**keep, "HOME": str(home), "PATH": path, "FORCE_COLOR": "1", "METIER_ENTERPRISE": str(home / "none")}
        lines: list[str] = []
        for line in (*scene.before, *scene.commands):
            run = subprocess.run(
                line, shell=True, cwd=here, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if line in scene.commands:
                lines += [f"\x1b[2m$\x1b[0m \x1b[1m{line}\x1b[0m", *run.stdout.rstrip().splitlines(), ""]
        return [_steady(line.replace(str(here), ".")) for line in lines[:-1]]


def _steady(line: str) -> str:
    """A line without what differs each time: durations and digests."""
    return re.sub(r"\b\d+\.\d s\b", "0.6 s", re.sub(r"sha256:[0-9a-f]{8,64}", "sha256:9f86d081...", line))


def draw(title: str, lines: list[str]) -> str:
    """An SVG with the lines as a terminal shows them."""
    wrapped = [_wrap(line) for line in lines]
    width = int(max(len(_plain(row)) for rows in wrapped for row in rows) * COLUMN) + 2 * LEFT
    height = TOP + sum(map(len, wrapped)) * ROW + 8
    spans = [row for rows in wrapped for row in _spans(rows)]
    rows = "\n".join(
        f'<text x="{LEFT}" y="{TOP + ROW * at}">{row}</text>' for at, row in enumerate(spans, start=1) if row
    )
    told = html.escape(f"{title}: {_plain(lines[0])}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{told}">\n<title>{told}</title>\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>\n<rect class="bar" width="{width}" height="30" '
        f'rx="8"/>\n<text class="title" x="{LEFT}" y="20">{html.escape(title)}</text>\n{rows}\n</svg>\n'
    )


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def _wrap(line: str, width: int = 110) -> list[str]:
    """A line as rows of a terminal of that width, broken at spaces."""
    if len(_plain(line)) <= width:
        return [line]
    rows, indent = [""], " " * (len(_plain(line)) - len(_plain(line).lstrip()))
    for word in re.split(r"(?<= )", line):
        if len(_plain(rows[-1] + word.rstrip())) > width:
            rows.append(indent)
        rows[-1] += word
    return rows


def _spans(rows: list[str]) -> Iterator[str]:
    """The rows of one line as text of SVG; a colour lasts until it ends, also in the next row."""
    classes: list[str] = []
    for row in rows:
        spans = ""
        for part in re.split(r"(\x1b\[[0-9;]*m)", row):
            if part.startswith("\x1b["):
                code = part[2:-1]
                classes = [] if code in ("", "0") else [*classes, _CODES.get(code, "")]
            elif part:
                name = " ".join(filter(None, classes))
                text = html.escape(part, quote=False)
                spans += f'<tspan class="{name}">{text}</tspan>' if name else f"<tspan>{text}</tspan>"
        yield spans


def main() -> int:
    """Draw the pictures, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    outdated = []
    for name, scene in SCENES.items():
        file = FOLDER / f"{name}.svg"
        text = draw(scene.title, play(scene))
        if not check:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            outdated.append(name)
    if outdated:
        print(f"Out of date: {', '.join(outdated)}. Run `make docs`.", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
