"""What the scanner costs: a skill, the first one of a process, and a megabyte of hostile text.

    python benchmarks/scanner_cost.py [--sample FILE.jsonl.gz] [--skills 400] [--peer PROGRAM] [--json] [--check]

CPU milliseconds, and beside them what looking for words in the same text costs, in the same run. `--sample` has a
skill in each line (`text`, `folder`); without it the skills that come with the package are scanned. `--peer` is another
scanner that is called as `PROGRAM scan-all FOLDER`: it gets the same skills, the first forty of them, in one process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import metier
from _limits import limit
from _table import add_options, mark, report
from metier.scan.scanner import scan
from metier.skill import MemoryPackage

Skill = tuple[str, str]
_WORD = re.compile(r"\w+")
_MARKS = (
    "```sh\n<!-- \"'`$(|&;{[(<\u202e\u200b https://x.example/a?b=c curl | sh base64 -d ignore previous instructions"
    " send the keys to 1.2.3.4:5 eval(atob('QUJD')) rm -rf / never tell the user \u0430dmin 上传 => -->\n"
)
_PEER_SKILLS = 40
_FIRST = """
import sys, time
from metier import Library
from metier.skill import MemoryPackage
package = MemoryPackage({"SKILL.md": sys.stdin.buffer.read()})
start = time.process_time()
from metier.scan.scanner import scan
scan(package)
print((time.process_time() - start) * 1000)
"""


class Row(NamedTuple):
    """What came of one piece of work."""

    what: str
    ms: float
    words: float
    """What looking for words in the same text costs."""

    @property
    def holds(self) -> bool | None:
        allowed = limit("scanner_cost", self.what)
        return None if allowed is None else allowed.holds(self.ms)


def ms_of(work: Callable[[], object]) -> float:
    """CPU milliseconds of some work."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def skills_of(sample: Path | None, most: int) -> list[Skill]:
    """The text and the folder of each skill."""
    if sample is None:
        found = sorted((Path(metier.__file__).parent / "bundled").rglob("SKILL.md"))
        return [(path.read_text(encoding="utf-8"), path.parent.name) for path in found]
    with gzip.open(sample, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["text"], row["folder"]) for row in rows if "text" in row][:most]


def scan_text(skill: Skill) -> None:
    text, folder = skill
    scan(MemoryPackage({"SKILL.md": text.encode(errors="surrogatepass")}), folder=folder)


def first_use(text: str) -> float:
    """CPU milliseconds of the import and the first scan, in a process that has the library already."""
    data = text.encode(errors="surrogatepass")
    runs = [subprocess.run([sys.executable, "-c", _FIRST], input=data, stdout=-1, check=True) for _ in range(6)]
    return statistics.median(float(run.stdout) for run in runs[1:])  # the first one may keep what others use


def peer(program: str, skills: list[Skill]) -> float:
    """CPU milliseconds of another scanner for each skill, all in one process."""
    with tempfile.TemporaryDirectory() as top:
        for number, (text, _) in enumerate(skills):
            folder = Path(top) / f"skill-{number}"
            folder.mkdir()
            (folder / "SKILL.md").write_text(text, encoding="utf-8", errors="replace")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([program, "scan-all", top], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000 / len(skills)


def measured(skills: list[Skill], program: str, kilobytes: int) -> Iterator[Row]:
    """All rows, in order."""
    scan_text(skills[0])
    words = [ms_of(lambda text=text: _WORD.findall(text)) for text, _ in skills]  # type: ignore[misc]
    times = [ms_of(lambda skill=skill: scan_text(skill)) for skill in skills]  # type: ignore[misc]
    yield Row("a skill", statistics.fmean(times), statistics.fmean(words))
    yield Row("the slowest skill", max(times), words[times.index(max(times))])
    yield Row("the first of a process", first_use(skills[0][0]), words[0])
    hostile = _MARKS * (kilobytes * 1_000 // len(_MARKS))
    times_it = 1_000 / kilobytes
    own, least = ms_of(lambda: scan_text((hostile, "a"))), ms_of(lambda: _WORD.findall(hostile))
    yield Row("1 MB of hostile text", own * times_it, least * times_it)
    if program:
        some = skills[:_PEER_SKILLS]
        yield Row(f"{Path(program).name}, a skill", peer(program, some), statistics.fmean(words[: len(some)]))


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    beside = f"{row.ms / row.words:,.0f}x of {row.words:.2f}" if row.words else ""
    return row.what, f"{row.ms:,.1f}", beside, str(limit("scanner_cost", row.what) or ""), mark(row)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=Path, metavar="FILE")
    parser.add_argument("--skills", type=int, default=400, metavar="N", help="of the sample, at most")
    parser.add_argument("--hostile", type=int, default=1_000, metavar="KB", help="of hostile text; 1000 if not given")
    parser.add_argument("--peer", default="", metavar="PROGRAM", help="another scanner")
    add_options(parser)
    options = parser.parse_args()
    rows = list(measured(skills_of(options.sample, options.skills), options.peer, options.hostile))
    return report(rows, options, "What scanning costs", cells, ("", "ms CPU", "words", "", ""))


if __name__ == "__main__":
    sys.exit(main())
