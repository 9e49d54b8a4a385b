"""Slow down each hot path, one at a time, and see whether `benchmarks/quick.py` catches it.

    python benchmarks/sabotage.py [--only ROW ...]

A copy of the package gets one more statement in one function of the path: a `time.sleep` as long as the path takes, or
one more wait for the disk. Then the row of that path is measured as continuous integration measures it. The exit code
is 1 if one slowed path passes, or if a path that nobody slowed fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import metier
from _table import aligned

PACKAGE = Path(metier.__file__).parent
SYNC = (
    "import os as _os; _file = _os.open({path!r}, _os.O_CREAT | _os.O_WRONLY); _os.write(_file, b'x'); "
    "_os.fsync(_file); _os.close(_file)"
)
FAILS, MISSED = "FAILS", "NOT CAUGHT"
SLEEP = "import time as _time; _time.sleep({seconds!r})"


class Place(NamedTuple):
    """A function of a hot path, and how often one call of the row enters it."""

    file: str
    function: str
    calls: int = 1


PLACES = {
    "command: --version": Place("cli/main.py", "main"),
    "command: list": Place("cli/list.py", "run"),
    "command: validate": Place("skill/validate.py", "check", 5),
    "cold index": Place("source/folder.py", "FolderSource.find_skills"),
    "list from the cache": Place("library/index_cache.py", "IndexCache.load"),
    "load a body": Place("library/index.py", "SkillIndex.document", 60),
    "build the search index": Place("find/search_index.py", "SearchIndex.update"),
    "search": Place("find/search_engine.py", "SearchEngine.search"),
    "decision": Place("guard/guard.py", "Guard.decide"),
    "decision under policy": Place("guard/governance.py", "Governance.in_force_for"),
    "call, recorded in a file": Place("guard/audit/log.py", "FileLog.append"),
    "call, recorded in the store": Place("store/audit_log.py", "AuditTable.append"),
    "audit append, file": Place("guard/audit/log.py", "FileLog.append"),
    "audit append, store": Place("store/audit_log.py", "AuditTable.append"),
    "audit verify": Place("guard/audit/verification.py", "verify"),
    "scan a skill": Place("scan/scanner.py", "scan"),
    "validate a skill": Place("skill/validate.py", "check"),
    "load and unload in a session": Place("session/loader.py", "Loader.load"),
    "run a script, plain": Place("run/plain.py", "PlainRunner.run_blocking"),
    "run a script, native:namespaces": Place("run/native/runner.py", "NativeRunner.run_blocking"),
    "run a script, virtual:job": Place("run/virtual/runner.py", "VirtualRunner.run_blocking"),
    "run a script, virtual:shell": Place("run/virtual/shell.py", "VirtualShell.execute"),
    "MCP tool call": Place("serve/mcp/tools.py", "ServedTools.call"),
    "MCP resource read": Place("serve/mcp/resources.py", "Resources.read"),
}


def slowed(text: str, function: str, statement: str) -> str:
    """A module with one more statement at the beginning of a function.

    >>> print(slowed("class A:\\n    def f(self):\\n        return 1\\n", "A.f", "wait()"))
    class A:
        def f(self):
            wait()
            return 1
    <BLANKLINE>
    """
    body: list[ast.stmt] = ast.parse(text).body
    node: Any = None
    for name in function.split("."):
        node = next((one for one in body if getattr(one, "name", None) == name), None)
        if node is None:
            raise SystemExit(f"There is no {function}: name the function of the hot path anew.")
        body = node.body
    first = node.body[1] if ast.get_docstring(node, clean=False) is not None and len(node.body) > 1 else node.body[0]
    lines = text.splitlines(keepends=True)
    lines.insert(first.lineno - 1, f"{' ' * first.col_offset}{statement}\n")
    return "".join(lines)


def judged(rows: list[str], package: Path | None = None) -> dict[str, dict[str, Any]]:
    """What the quick subset finds, by row: of the package, or of a copy in this folder."""
    command = [sys.executable, str(Path(__file__).with_name("quick.py")), "--json"]
    command += [word for row in rows for word in ("--only", row)]
    env = {**os.environ, "PYTHONPATH": str(package)} if package else None
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    return {found["what"]: found for found in json.loads(done.stdout)}


def figures(found: dict[str, Any]) -> tuple[str, str]:
    """How many times as slow as is normal, and how often it waits."""
    return f"{found['ratio'] / found['normal']:.2f}", f"{found['waits']:g} of {found['normal_waits']:g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ROW", choices=sorted(PLACES), help="just this row")
    options = parser.parse_args()
    begun = time.monotonic()
    clean = judged(options.only or list(PLACES))
    table = [("hot path", "slowed in", "by", "factor", "waits", "")]
    table += [(row, "", "nothing", *figures(found), "" if found["holds"] else FAILS) for row, found in clean.items()]
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder:
        copy = Path(folder) / "metier"
        shutil.copytree(PACKAGE, copy)
        for row, found in clean.items():
            place = PLACES[row]
            seconds = found["us"] / 1_000_000 / place.calls
            ways = {
                f"sleep({seconds:.6f})": SLEEP.format(seconds=seconds),
                "one more fsync": SYNC.format(path=f"{folder}/synced"),
            }
            original = (copy / place.file).read_text(encoding="utf-8")
            for way, statement in ways.items():
                print(f"{row}: {way} in {place.function} ...", file=sys.stderr)
                (copy / place.file).write_text(slowed(original, place.function, statement), encoding="utf-8")
                hurt = judged([row], Path(folder))[row]
                caught = MISSED if hurt["holds"] else "caught"
                table.append((row, f"{place.file}: {place.function}", way, *figures(hurt), caught))
            (copy / place.file).write_text(original, encoding="utf-8")
    print(aligned(table))
    print(f"{time.monotonic() - begun:.0f} s")
    return int(any(line[-1] in (FAILS, MISSED) for line in table))


if __name__ == "__main__":
    sys.exit(main())
