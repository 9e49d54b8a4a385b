"""What governance costs: a decision under policy files and approvals, and the list of skills under a policy.

    python benchmarks/governance.py [--skills 1000] [--approvals 1000] [--calls 2000] [--json] [--check]

Decisions are CPU time in microseconds, the median over many; the list of skills is time on the clock. Each decision is
compared with the same one by a guard that knows no policy file and no store, in the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _limits import most
from _table import Row, add_options, cells, report
from metier import Guard, Library
from metier.guard import Action, Actor, MemoryLog
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.library import Place
from metier.session.active_skills import subject_of
from metier.source import FolderSource
from metier.store import Approval, Store

POLICY = """\
version: 1
mode: enforce
skill-policy:
  require-approval-for: [scripts, network-tools, file-write, hooks, inline-exec, new-capability]
  approval: {approvers: ["role:skill-admin"], self-approval: deny, quorum: 1, expires: 180d}
skills:
  deny: ["crypto-*@*", "*@clawhub/*"]
  listing: {legacy-*: name-only, old-skill: off}
  reserved: [data-handling]
tools:
  ask: ["Bash(git push:*)", WebFetch]
  deny: ["Bash(curl:*)", "Bash(wget:*)"]
rules:
  - {id: R1, point: script-run, layer: plugin, effect: ask}
  - {id: R2, point: activate, when: {scan: ">=high"}, effect: ask}
"""
ACTOR = Actor(user="ada", session="benchmark")


def median_us(work: Callable[[], object], calls: int) -> float:
    """The median CPU time of one call."""
    times = []
    for _ in range(calls):
        start = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - start)
    return statistics.median(times) / 1_000


def made_skills(folder: Path, count: int) -> Library:
    """So many skills of the project, each with a script."""
    for number in range(count):
        skill = folder / f"skill-{number:05}"
        (skill / "scripts").mkdir(parents=True)
        text = f"---\nname: skill-{number:05}\ndescription: Does number {number}.\n---\nRun scripts/run.py.\n"
        (skill / "SKILL.md").write_text(text)
        (skill / "scripts" / "run.py").write_text(f"print({number})\n")
    return Library([Place(layer="project", source=FolderSource(folder, name="project"))], cache=False)


def measured(folder: Path, skills: int, approvals: int, calls: int) -> list[Row]:
    """All figures."""
    library = made_skills(folder / "skills", skills)
    (folder / "policy.yaml").write_text(POLICY)
    url = f"sqlite:///{folder}/metier.db"
    policies = Policies([("enterprise", folder / "policy.yaml")])
    while time.time_ns() - (folder / "policy.yaml").stat().st_mtime_ns < 200_000_000:
        pass  # until a change of the file would have another time stamp, as for any file that is older than that
    governance = Governance(policies, store=url)
    guard = Guard(audit=MemoryLog(), governance=governance)
    bare = Guard(audit=MemoryLog(), governance=Governance(Policies(), store=None))
    entry = library.get("skill-00000")
    subject = subject_of(entry, library.digest(entry))
    capabilities = ("scripts", "network-tools", "file-write", "shell-instructions")
    with Store.open(url) as store:
        scope = store.of()
        with scope.transaction():
            for number in range(approvals):
                digest = subject.digest if number == 0 else f"sha256:{number:064x}"
                scope.approvals.add(
                    Approval(digest=digest, skill=f"skill-{number:05}@project", grants=capabilities, decided_by="grace")
                )
    actions = {
        "load an approved skill": Action(point="load", skill=subject, by="model"),
        "run a script of it": Action(point="run", skill=subject, path="scripts/run.py", command="python run.py"),
        "read a file of it": Action(point="read", skill=subject, path="references/a.md"),
        "call a tool": Action(point="call", tool="Bash", arguments={"command": "git status"}),
        "call a tool that is denied": Action(point="call", tool="Bash", arguments={"command": "curl example.com"}),
    }
    rows = []
    for what, action in actions.items():
        expected = "deny" if "denied" in what else "allow"
        found = guard.decide(action, ACTOR)
        if found.outcome != expected:
            raise SystemExit(f"{what}: {found}")
        ours, least = (
            median_us(lambda by=by, action=action: by.decide(action, ACTOR), calls)  # type: ignore[misc]
            for by in (guard, bare)
        )
        rows.append(Row(what, ours, most("governance", what), least))
    with library.session(guard=guard, workspace=folder) as session:
        session.instructions()
        start = time.perf_counter()
        text = session.instructions()
        warm = (time.perf_counter() - start) * 1e6
        limit = most("governance", "list the skills, warm (clock)")
        rows.append(Row(f"list {skills:,} skills, warm (clock)", warm, limit))
        with Store.open(url) as store:
            store.of().blocks.add("name", "skill-00001", reason="It is measured.", by="grace")
        start = time.perf_counter()
        again = session.instructions()
        rows.append(Row("the same after a quarantine (clock)", (time.perf_counter() - start) * 1e6))
        if not text or text == again:
            raise SystemExit("The quarantine was not seen.")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--skills", type=int, default=1_000)
    parser.add_argument("--approvals", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=2_000, help="how many decisions of each kind are measured")
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["METIER_DATA"] = folder
        rows = measured(Path(folder), options.skills, options.approvals, options.calls)
    title = f"{options.skills:,} skills, {options.approvals:,} approvals; microseconds"
    return report(rows, options, title, cells)


if __name__ == "__main__":
    sys.exit(main())
