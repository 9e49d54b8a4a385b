"""`metier outdated` and `metier update`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.exit_codes import FINE
from metier.cli.installer import installing
from metier.cli.lock import add_place, locks_of
from metier.cli.output import Progress, Style, print_done, print_json, print_warning, table
from metier.cli.parser import Parser
from metier.errors import InvalidArgument, MetierError, SourceUnavailable

if TYPE_CHECKING:
    from metier.cli.installer import Installer
    from metier.hub.install_plan import InstallPlan
    from metier.hub.sources.fetch import Fetched
    from metier.hub.updates import InstalledSkill
    from metier.library.lock_file import LockedSkill


def add(parser: Parser) -> None:
    if parser.command == "outdated":
        parser.example("metier outdated")
        add_place(parser)
        parser.json()
        return
    parser.example("metier update pdf --dry-run")
    parser.option("skill", "NAME", "the skills to update, by name", nargs="*")
    parser.flag("--all", "all that are installed here")
    add_place(parser)
    parser.flag("--dry-run", "only show what would change, and what decides")
    parser.installs("update")


def run(options: Namespace) -> int:
    return _outdated(options) if options.command == "outdated" else _update(options)


def _outdated(options: Namespace) -> int:
    from metier.hub.install_plan import source_permit
    from metier.hub.sources.fetch import Transfer
    from metier.hub.updates import installed_skills, source_states

    with Progress() as progress:
        transfer = Transfer(progress=progress.transfer, permit=source_permit(metier.Guard()))
        states = list(source_states(installed_skills(locks_of(options)), transfer))
    newer = [
        (one, state.resolved.revision_of(one.locked.path), (state.resolved.versions or {}).get(one.locked.path, ""))
        for state in states
        for one in state.newer
        if state.resolved is not None
    ]
    notices = [text for state in states for text in state.notices]
    problems = [{"source": state.address.name, "reason": state.problem} for state in states if state.problem]
    if options.json:
        shapes = [
            {
                "name": one.locked.name,
                "location": one.location,
                "version": one.locked.version,
                "installed": one.locked.revision or one.locked.digest,
                "newest": newest,
                "newest_version": version,
                "source": one.locked.source,
                "ref": one.locked.ref,
                "pinned": one.locked.pinned,
            }
            for one, newest, version in newer
        ]
        print_json({"skills": shapes, "notes": notices, "problems": problems})
        return FINE
    if newer:
        rows = [
            (
                f"{one.locked.name} (pinned)" if one.locked.pinned else one.locked.name,
                *_states(one.locked, newest, version),
                one.locked.source,
            )
            for one, newest, version in newer
        ]
        print(table(Style(sys.stdout), ("NAME", "INSTALLED", "NEWEST", "SOURCE"), rows))
        print("`metier update NAME --dry-run` shows what changed, if the skill itself did.")
    elif not problems:
        print_done("All that is installed is what its sources have.")
    for text in (*notices, *(f"{one['source']}: {one['reason']}" for one in problems)):
        print_warning(text)
    return FINE


def _states(locked: LockedSkill, newest: str, version: str) -> tuple[str, str]:
    """The installed and the newest state of a skill in the same terms: versions where they tell, else revisions."""
    if version not in ("", locked.version) and locked.version:
        return locked.version, version
    return _short(locked.revision or locked.digest), _short(newest) or "changed"


def _short(revision: str) -> str:
    return Style.text(revision.removeprefix("sha256:"), 12)


def _update(options: Namespace) -> int:
    from metier.hub.sources.fetch import fetch
    from metier.hub.updates import installed_skills, source_states

    if bool(options.skill) is bool(options.all):
        raise InvalidArgument(
            "Name the skills to update, or add --all.", hint="`metier outdated` says which have news."
        )
    skills = installed_skills(locks_of(options), options.skill)
    plans: dict[str, InstallPlan] = {}
    hint = "Add --yes to update, or --dry-run to look first."
    with installing(options, hint) as installer, contextlib.ExitStack() as stack:
        states = list(source_states(skills, installer.transfer))
        for state in states:
            installer.warnings += state.notices
            wanted = [one for one in state.newer if not one.locked.pinned]
            if state.problem:
                installer.problems.append((state.address.name, SourceUnavailable(state.problem)))
            if state.resolved is None or not wanted:
                continue
            try:
                fetched = stack.enter_context(fetch(state.resolved, installer.transfer))
            except MetierError as error:
                installer.problems.append((state.address.name, error))
                continue
            for one in wanted:
                try:
                    for plan in _plans(installer, one, fetched, stack):
                        plans.setdefault(plan.home.location, plan)
                except MetierError as error:
                    installer.problems.append((one.locked.name, error))
        pinned = [one.locked.name for state in states for one in state.newer if one.locked.pinned]
        if not options.json:
            for name in pinned:
                print(f"{Style.text(name)} is pinned, and stays as it is.")
        code = installer.carry_out(list(plans.values()), "Update", otherwise="Everything is up to date.")
        if options.json:
            problems = [f"{name}: {why.message}" for name, why in installer.problems]
            shape = {"updated": installer.changed, "pinned": pinned, "notes": installer.warnings}
            print_json({**installer.shape, **shape, "problems": problems})
    return code


def _plans(
    installer: Installer, one: InstalledSkill, fetched: Fetched, stack: contextlib.ExitStack
) -> list[InstallPlan]:
    """The plan of a skill, behind those of the skills that it newly needs; none where it stays as it is."""
    from metier.hub.resolution import with_requirements
    from metier.hub.updates import candidate_for, is_rewritten, other_sources

    locked, lock, folder = one.locked, one.lock, os.path.dirname(one.location)
    candidate, source = candidate_for(locked, fetched.candidates), fetched.resolved.address
    if candidate is None:
        installer.warnings.append(f"{locked.name} is no longer in {locked.source}, and stays as it is.")
    elif candidate.yanked:
        installer.warnings.append(f"The newest {locked.name} was withdrawn by its author: {candidate.yanked}")
    elif is_rewritten(locked, candidate, source):
        installer.warnings.append(
            f"{locked.source} has another content for {locked.name} {locked.version} than it had, and it "
            "stays as it is: a version never changes. Ask whoever publishes it, and add it again if that is right."
        )
    else:
        plan = installer.plan(candidate, fetched.resolved, lock, folder=folder)
        if plan.is_unchanged or not plan.skill.requires:
            return [plan]
        elsewhere = other_sources(lock, source.name, installer.transfer, stack)
        needed, lacking = with_requirements(
            [candidate], fetched.candidates, lock.skills, installer.library, source=source.name, elsewhere=elsewhere
        )
        installer.warnings += lacking
        pinned = {skill.path for skill in lock.skills if skill.pinned}
        others = [other for other in needed if other is not candidate and other.path not in pinned]
        return [*(installer.plan(other, fetched.resolved, lock, folder=folder) for other in others), plan]
    return []
