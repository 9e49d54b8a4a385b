"""`metier packages`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.json_shapes import digest_of
from metier.cli.output import Style, plural, print_done, print_json, table
from metier.cli.package_state import package_state
from metier.cli.parser import Parser, library_of
from metier.errors import LockInvalid

if TYPE_CHECKING:
    from metier.hub.packages.plan import PackagePlan
    from metier.library import Entry


def add(parser: Parser) -> None:
    parser.example("metier packages csv-analyst")
    parser.library()
    parser.option(
        "skill",
        "SKILL",
        "build the packages that scripts of these skills declare (default: list what is declared)",
        nargs="*",
        complete="skills",
    )
    parser.json()


def run(options: Namespace) -> int:
    library = library_of(options)
    if options.skill:
        return _build(options, [library.get(name) for name in options.skill])
    guard = metier.Guard()
    found = [(entry, state) for entry in library.entries() if (state := package_state(entry, guard)) is not None]
    if options.json:
        print_json([{"name": entry.name, "digest": digest_of(entry), **state.as_dict()} for entry, state in found])
        return FINE
    if not found:
        print("No script of any skill here declares packages.")
        return FINE
    style = Style(sys.stdout)
    rows = [(entry.name, ", ".join(state.files), str(state)) for entry, state in found]
    print(table(style, ("SKILL", "DECLARED IN", "STATE"), rows))
    return FINE


def _build(options: Namespace, entries: list[Entry]) -> int:
    from metier.hub.packages.plan import build_packages, plan_packages
    from metier.skill.package import files_of

    effective = metier.Guard().governance.effective
    style, shapes = Style(sys.stdout), []
    for entry in entries:
        files = files_of(entry.package)
        plan = plan_packages(files, ("packages",), effective, locked=_locked(entry))
        problem = build_packages(files, plan, effective)
        shapes.append(_shape(entry, plan, problem))
        if options.json:
            continue
        if problem:
            print(style.bad(f"{Style.text(entry.name)}: {Style.text(problem, 2_000)}"))
        elif not plan.names:
            print(f"{Style.text(entry.name)} declares no packages.")
        else:
            named = f"{plural(len(plan.names), 'package')} of {Style.text(entry.name)}"
            print_done(f"{named}: {Style.text(', '.join(plan.names), 2_000)}")
            for note in plan.notes:
                print(style.dim(f"  {Style.text(note, 300)}"))
    if options.json:
        print_json(shapes)
    return PROBLEMS if any(shape["problem"] for shape in shapes) else FINE


def _shape(entry: Entry, plan: PackagePlan, problem: str) -> dict[str, object]:
    return {"name": entry.name, "digest": digest_of(entry), "packages": list(plan.lines), "problem": problem}


def _locked(entry: Entry) -> tuple[str, ...]:
    """The packages that a lock names for what lies in the skill's folder."""
    from metier.library.lock_file import locked_skill

    try:
        locked = locked_skill(os.path.dirname(entry.location))
    except LockInvalid:
        return ()
    return locked.packages if locked is not None and locked.digest == digest_of(entry) else ()
