"""`metier packages`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier
from metier._lazy import dataclass
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.json_shapes import digest_of
from metier.cli.output import Progress, Style, plural, print_done, print_json, table
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument, LockInvalid, MetierError
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.guard import Guard
    from metier.library import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageState:
    """The packages that a skill declares: where, whether they are built, and whether somebody agreed."""

    files: tuple[str, ...]
    missing: str = ""
    """The reason why they are not there for a run; empty where they are."""
    hint: str = ""
    """The command that builds them."""
    is_approved: bool = False

    @property
    def problem(self) -> str:
        """The state and what to do about it; empty where scripts can import them."""
        if self.missing:
            return f"{self}. {self.missing} {self.hint}"
        return "" if self.is_approved else f"{self}. A run asks for an approval of them."

    def __str__(self) -> str:
        return f"{'not built' if self.missing else 'built'}, {'approved' if self.is_approved else 'not approved'}"

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            "files": list(self.files),
            "built": not self.missing,
            "missing": self.missing,
            "approved": self.is_approved,
        }


def package_state(entry: Entry, guard: Guard) -> PackageState | None:
    """The state of the packages of a skill; None for one that declares none, or cannot be read."""
    from metier.skill.script_packages import declaring_files

    try:
        paths = [file.path for file in entry.package.listing().files if file.kind != "link"]
        declared = declaring_files(paths, entry.package.read)
    except (MetierError, OSError):
        return None
    if not declared:
        return None
    # Few skills declare any, and these parts take a while to load.
    from metier.guard import Action
    from metier.run.packages import packages_for
    from metier.session.active_skills import subject_of

    try:
        digest = entry.package.digest()
        considered = guard.consider(guard.context(Action(point="run", skill=subject_of(entry, digest), by="user")))
    except (MetierError, OSError):
        return None
    missing = hint = ""
    try:
        packages_for(entry.name, digest, set(declared.values()))
    except MetierError as error:
        missing, hint = error.message, for_person(error.hint)
    is_approved = not any(decision.check.startswith("packages") for decision in considered)
    return PackageState(files=tuple(declared), missing=missing, hint=hint, is_approved=is_approved)


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
    parser.flag(
        "--prune", "delete packages that no skill here and no installed skill uses, and say how large they were"
    )
    parser.json()


def run(options: Namespace) -> int:
    library = library_of(options)
    if options.prune:
        return _prune(options, library)
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
    style, shapes, line = Style(sys.stdout), [], Progress()
    for entry in entries:
        files = files_of(entry.package)
        plan = plan_packages(files, ("packages",), effective, locked=_locked(entry), progress=line.say)
        problem = build_packages(files, plan, effective, progress=line.say)
        shapes.append(
            {"name": entry.name, "digest": digest_of(entry), "packages": list(plan.lines), "problem": problem}
        )
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


def _locked(entry: Entry) -> tuple[str, ...]:
    """The packages that a lock names for what lies in the skill's folder, else those that it was given before."""
    from metier.library.lock_file import locked_skill
    from metier.skill.script_packages import package_record

    digest = digest_of(entry) or ""
    try:
        locked = locked_skill(os.path.dirname(entry.location))
    except LockInvalid:
        return ()
    return locked.packages if locked is not None and locked.digest == digest else package_record(digest).packages


def _prune(options: Namespace, library: metier.Library) -> int:
    from metier.cli.identity import looking
    from metier.hub.packages.build import prune

    if options.skill:
        raise InvalidArgument("--prune names no skills.", hint="It deletes what no skill uses.")
    with looking(options) as (scope, _):
        installed = {one.digest for one in scope.installs.all()}
    removed, size = prune({*installed, *filter(None, map(digest_of, library.entries(all=True)))})
    if options.json:
        print_json({"removed": removed, "bytes": size})
    else:
        print_done(f"{plural(removed, 'environment')} deleted, {size / 1e6:,.1f} MB.")
    return FINE
