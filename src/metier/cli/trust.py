"""`metier trust` and `metier untrust`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metier.cli.agents import problems_of
from metier.cli.output import Style, plural
from metier.library import Library
from metier.library.places import project_root
from metier.library.trust import TrustStore
from metier.skill.folder import is_inside

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    store = TrustStore()
    style = Style(sys.stdout)
    if getattr(options, "list_trusted", False):
        for folder in store.trusted():
            print(Style.text(str(folder), 4_096))
        return 0
    path = Path(os.path.realpath(options.path)) if options.path else project_root(Path.cwd())
    shown = Style.text(str(path), 4_096)
    if options.command == "trust":
        _require_person()
        store.trust(path)
        covered = _skills_of(path)
        print(f"{style.good('✓')} The skills of {shown} are trusted; `metier untrust` undoes it.")
        print(f"It has {plural(len(covered), 'skill')} now{': ' if covered else '.'}{', '.join(covered)}")
        agents, unusable = _agents_of(path)
        if agents:
            print(f"Its {plural(len(agents), 'agent')} can be used too: {', '.join(agents)}")
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


def _require_person() -> None:
    from metier.cli.identity import require_person  # not for a list, which is shown at once

    require_person()


def _skills_of(project: Path) -> list[str]:
    """The names of the project's skills, as far as they lie below the folder that is trusted."""
    library = Library.discover(project)
    names = (entry.name for entry in library.entries(all=True) if entry.layer == "project" and entry.trusted)
    return [Style.text(name) for name in dict.fromkeys(names)]


def _agents_of(project: Path) -> tuple[list[str], int]:
    """The ids of the project's agents that can be used, and how many cannot."""
    from metier.agent.agents import Agents

    agents = Agents.discover(start=project)
    problems = problems_of(agents)
    ids = [agent.id for agent in agents if agent.layer == "project"]
    broken = sum(is_inside(failure.folder, str(project)) for failure in agents.failures.values())
    usable = [Style.text(name) for name in ids if name not in problems]
    return usable, len(ids) - len(usable) + broken
