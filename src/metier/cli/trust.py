"""`metier trust` and `metier untrust`."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import metier
import metier.agent
import metier.guard
import metier.scan
from metier._paths import is_inside
from metier.cli.agents import problems_of
from metier.cli.identity import open_store, require_person, who
from metier.cli.output import Style, plural
from metier.cli.parser import Parser
from metier.errors import MetierError

if TYPE_CHECKING:
    from metier import Library
    from metier.library import Entry
    from metier.scan import ScanReport


def add(parser: Parser) -> None:
    parser.example(f"metier {parser.command} .")
    parser.option("path", "DIR", "the project's folder (default: the one around here)", nargs="?")
    if parser.command == "trust":
        parser.flag("--list", "list the folders that are trusted", dest="list_trusted")
        parser.accept_findings("trust them")


def run(options: Namespace) -> int:
    from metier.agent.project import FILES
    from metier.library.places import TrustStore, project_root

    store = TrustStore()
    style = Style(sys.stdout)
    if getattr(options, "list_trusted", False):
        folders = store.trusted()
        for folder in folders:
            print(Style.text(str(folder), 4_096))
        if not folders and style.is_terminal:
            print("No project is trusted.")
        return 0
    path = Path(os.path.realpath(options.path)) if options.path else project_root(Path.cwd())
    shown = Style.text(str(path), 4_096)
    if options.command == "trust":
        require_person()
        _require_looked_at(path, options.accept_findings.strip())
        store.trust(path)
        covered = _skills_of(path)
        print(f"{style.good('✓')} The skills of {shown} are trusted; `metier untrust` undoes it.")
        print(f"It has {plural(len(covered), 'skill')} now{': ' if covered else '.'}{', '.join(covered)}")
        agents, unusable = _agents_of(path)
        if agents:
            print(f"Its {plural(len(agents), 'agent')} can be used too: {', '.join(agents)}")
        texts = [name for name in FILES if (path / name).is_file()]
        if texts:
            print(f"Agents that work there are told what it says in {' and '.join(texts)}.")
        if unusable:
            print(f"{plural(unusable, 'agent')} cannot be used yet; `metier agents` there says why.")
        return 0
    was_trusted = store.untrust(path)
    if was_trusted:
        print(f"{style.good('✓')} The skills of {shown} are no longer trusted.")
    above = store.trusted_through(path)
    if above is not None:
        print(f"{shown} is trusted through {above}; `metier untrust {shlex.quote(str(above))}` takes that back.")
        return 0 if was_trusted else 1
    if not was_trusted:
        print(f"{shown} was not trusted. `metier trust --list` shows what is.", file=sys.stderr)
        return 1
    return 0


def _require_looked_at(project: Path, accepted: str) -> None:
    """Scan what is about to be trusted; raises `Refused` for findings of severity high, unless somebody accepted them.

    Those are kept, so that whoever loads such a skill is told.
    """
    if not os.path.isdir(project):
        return  # which cannot be trusted at all
    library = metier.Library.discover(project)
    found = [one for one in library.entries(all=True) if one.layer == "project" and not one.is_broken]
    entries = [one for one in found if is_inside(os.path.dirname(one.location), str(project))]
    if not entries:
        return  # the scanner takes a moment to be there
    from metier.hub.scan_findings import against, is_bad, named_findings

    reports = [(entry.location, _scan(library, entry)) for entry in entries]
    bad = [(location, report) for location, report in reports if is_bad(report)]
    decision = against(bad[0][1], accepted) if bad else None
    # An error tells of the first by itself.
    for _, report in bad if decision is None else bad[1:]:
        print(f"{Style.text(report.name)}: {Style.text(named_findings(report), 2_000)}", file=sys.stderr)
    if decision is not None:
        raise decision.as_error()
    _keep(bad)


def _scan(library: Library, entry: Entry) -> ScanReport:
    from metier.guard.decision_context import DecisionContext
    from metier.guard.governance import Governance
    from metier.session.active_skills import subject_of

    digest = library.digest(entry)
    action = metier.guard.Action(point="install", skill=subject_of(entry, digest), by="user")
    try:
        return DecisionContext(action=action, actor=metier.guard.Actor(), governance=Governance.default()).report
    except MetierError as error:
        return metier.scan.ScanReport(name=entry.name, digest=digest, status="error", error=str(error))


def _keep(reports: list[tuple[str, ScanReport]]) -> None:
    if not reports:
        return
    from metier.guard.scan_records import record_scans

    with contextlib.suppress(MetierError), open_store() as store:
        scope = store.of("")
        for location, report in reports:
            record_scans(scope, who(scope), {"core": report}, path=location)


def _skills_of(project: Path) -> list[str]:
    """The names of the project's skills, as far as they lie below the folder that is trusted."""
    library = metier.Library.discover(project)
    names = (entry.name for entry in library.entries(all=True) if entry.layer == "project" and entry.trusted)
    return [Style.text(name) for name in dict.fromkeys(names)]


def _agents_of(project: Path) -> tuple[list[str], int]:
    """The ids of the project's agents that can be used, and how many cannot."""
    agents = metier.agent.Agents.discover(start=project)
    problems = problems_of(agents)
    ids = [agent.id for agent in agents if agent.layer == "project"]
    broken = sum(is_inside(failure.folder, str(project)) for failure in agents.failures.values())
    usable = [Style.text(name) for name in ids if name not in problems]
    return usable, len(ids) - len(usable) + broken
