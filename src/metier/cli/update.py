"""`metier outdated` and `metier update`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.exit_codes import FINE, PROBLEMS, exit_code_for
from metier.cli.identity import acting, looking, may_decide
from metier.cli.install_view import TransferLine, asks_first, plan_shape, print_plan, terms_of
from metier.cli.lock import add_place, locks_of
from metier.cli.output import Style, plural, print_done, print_json, print_warning, table
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument, MetierError
from metier.hub.proposal_page import shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard import Guard
    from metier.hub.install_plan import InstallPlan
    from metier.hub.sources.fetch import Candidate, Fetched, Transfer
    from metier.hub.updates import InstalledSkill, SourceState
    from metier.library import SkillLookup
    from metier.store import Person, TenantScope


def add(parser: Parser) -> None:
    if parser.command == "outdated":
        parser.example("metier outdated")
        add_place(parser, "only")
        parser.json()
        return
    parser.example("metier update pdf --dry-run")
    parser.option("skill", "NAME", "the skills to update, by name", nargs="*")
    parser.flag("--all", "all that are installed here")
    add_place(parser, "only")
    parser.flag("--yes", "update without asking", short="-y")
    parser.flag("--dry-run", "only show what would change, and what decides")
    parser.accept_findings("update it")
    parser.signature_exceptions()
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.install_plan import source_permit
    from metier.hub.sources.fetch import Transfer
    from metier.hub.updates import installed_skills, source_states

    names = getattr(options, "skill", ())
    if options.command == "update" and bool(names) is bool(options.all):
        raise InvalidArgument(
            "Name the skills to update, or add --all.", hint="`metier outdated` says which have news."
        )
    skills = installed_skills(locks_of(options), names)
    with TransferLine() as line:
        permitted = Transfer(progress=line.show, permit=source_permit(metier.Guard()))
        states = list(source_states(skills, permitted))
        line.end()
        return (
            _outdated(options, states) if options.command == "outdated" else _update(options, states, line, permitted)
        )


def _outdated(options: Namespace, states: list[SourceState]) -> int:
    rows = [(state, one) for state in states for one in state.newer]
    if options.json:
        found = [
            {
                "name": one.locked.name,
                "location": one.location,
                "version": one.locked.version,
                "installed": one.locked.revision or one.locked.digest,
                "newest": state.resolved.revision if state.resolved is not None else "",
                "source": one.locked.source,
                "ref": one.locked.ref,
                "pinned": one.locked.pinned,
            }
            for state, one in rows
        ]
        problems = [{"source": state.address.name, "reason": state.problem} for state in states if state.problem]
        print_json({"skills": found, "problems": problems})
        return FINE
    style = Style(sys.stdout)
    if rows:
        lines = [
            (
                Style.text(one.locked.name) + (" (pinned)" if one.locked.pinned else ""),
                _short(one.locked.version or one.locked.revision or one.locked.digest),
                _short(state.resolved.revision if state.resolved is not None else "") or "changed",
                Style.text(one.locked.source, 300),
            )
            for state, one in rows
        ]
        print(table(style, ("NAME", "INSTALLED", "NEWEST", "SOURCE"), lines))
        print("`metier update NAME --dry-run` shows what changed.")
    else:
        print_done("All that is installed is what its sources have.")
    for problem in _problems(states):
        print_warning(problem)
    return FINE


def _short(revision: str) -> str:
    return Style.text(revision.removeprefix("sha256:"), 12)


def _problems(states: list[SourceState]) -> list[str]:
    return [f"{state.address.name} could not be asked. {state.problem}" for state in states if state.problem]


def _update(options: Namespace, states: list[SourceState], line: TransferLine, transfer: Transfer) -> int:
    from metier.hub.installation import install
    from metier.hub.sources.fetch import fetch
    from metier.hub.updates import other_sources

    asks = asks_first(options, "Add --yes to update, or --dry-run to look first.")
    plans: list[tuple[InstalledSkill, InstallPlan]] = []
    notes: list[str] = []
    problems = _problems(states)
    store = looking(options) if options.dry_run else acting(options)
    with contextlib.ExitStack() as stack:
        scope, person = stack.enter_context(store)
        guard, library = metier.Guard(), library_of(options)
        for state in states:
            wanted = [one for one in state.newer if not one.locked.pinned]
            if state.resolved is None or not wanted:
                continue
            try:
                fetched = stack.enter_context(fetch(state.resolved, transfer))
            except MetierError as error:
                problems.append(f"{state.address.name}: {error.message}")
                continue
            line.end()
            for one in wanted:
                try:
                    elsewhere = other_sources(one.lock, state.address.name, transfer, stack)
                    found = _planned(scope, person, guard, library, options, one, fetched, elsewhere, notes, line)
                except MetierError as error:
                    problems.append(f"{one.locked.name}: {error.message}")
                    continue
                known = {plan.home.location for _, plan in plans}
                plans += [(one, plan) for plan in found if plan.home.location not in known]
        changed = [(one, plan) for one, plan in plans if not plan.is_unchanged]
        if not options.json:
            for _, plan in changed:
                print_plan(plan)
                print(shown_lines(_difference(plan)), end="")
        refused = [plan.decision for _, plan in changed if not plan.decision.is_allowed]
        done = []
        is_agreed = not options.dry_run and (not asks or not changed or _agreed(changed))
        for one, plan in plans if is_agreed else ():
            if plan.decision.is_allowed:
                # What has not changed was neither shown nor agreed to.
                approves = not plan.is_unchanged and may_decide(scope.store)
                done.append(install(scope, person, guard, plan, lock_path=one.lock.path, approves=approves))
    updated = [one for one in done if not one.plan.is_unchanged]
    problems += [
        f"Scripts of {one.plan.skill.name} lack their packages. {one.packages_problem}"
        for one in done
        if one.packages_problem
    ]
    pinned = [one.locked.name for state in states for one in state.newer if one.locked.pinned]
    if options.json:
        shapes = [plan_shape(plan) | {"diff": _difference(plan)} for _, plan in changed]
        shape = {"dry_run": options.dry_run, "skills": shapes, "updated": [one.plan.skill.name for one in updated]}
        print_json({**shape, "pinned": pinned, "notes": notes, "problems": problems})
    else:
        for text in (*notes, *problems):
            print_warning(text)
        for name in pinned:
            print(f"{Style.text(name)} is pinned, and stays as it is.")
        for result in updated:
            print_done(
                f"{Style.text(result.plan.skill.name)} is updated: {Style.text(result.plan.home.location, 4_096)}"
            )
            if result.not_approved:
                why = Style.text(result.not_approved, 1_000)
                print(Style(sys.stdout).warn(f"  Its content is not approved by that. {why}"))
        if not updated:
            print("Nothing was changed." if changed else "Everything is up to date.")
    if refused:
        return exit_code_for(refused[0].code)
    return PROBLEMS if problems else FINE


def _planned(
    scope: TenantScope,
    person: Person,
    guard: Guard,
    library: SkillLookup,
    options: Namespace,
    one: InstalledSkill,
    fetched: Fetched,
    elsewhere: Iterable[Candidate],
    notes: list[str],
    line: TransferLine,
) -> list[InstallPlan]:
    """The plan of a skill, behind those of the skills that it newly needs; none where it stays as it is."""
    from metier.hub.install_plan import plan_install
    from metier.hub.resolution import with_requirements
    from metier.hub.updates import candidate_for, is_rewritten

    candidate = candidate_for(one.locked, fetched.candidates)
    if candidate is None:
        notes.append(f"{one.locked.name} is no longer in {one.locked.source}, and stays as it is.")
        return []
    if candidate.yanked:
        notes.append(f"The newest {one.locked.name} was withdrawn by its author: {candidate.yanked}")
        return []
    if is_rewritten(one.locked, candidate, fetched.resolved.address):
        notes.append(
            f"{one.locked.source} has another content for {one.locked.name} {one.locked.version} than it had, and it "
            "stays as it is: a version never changes. Ask whoever publishes it, and add it again if that is right."
        )
        return []
    terms = terms_of(options, os.path.dirname(one.location), line)

    def planned(candidate: Candidate) -> InstallPlan:
        return plan_install(
            scope, guard, person, candidate, fetched.resolved, terms=terms, lock=one.lock, library=library
        )

    plan = planned(candidate)
    if plan.is_unchanged or not plan.skill.requires:
        return [plan]
    source = fetched.resolved.address.name
    needed, lacking = with_requirements(
        [candidate], fetched.candidates, one.lock.skills, library, source=source, elsewhere=elsewhere
    )
    notes += lacking
    pinned = {skill.path for skill in one.lock.skills if skill.pinned}
    return [*(planned(other) for other in needed if other is not candidate and other.path not in pinned), plan]


def _difference(plan: InstallPlan) -> str:
    from metier.hub.diff import difference
    from metier.skill import FolderPackage
    from metier.skill.package import files_of

    return difference(files_of(FolderPackage(plan.home.folder)) if plan.there is not None else {}, plan.files)


def _agreed(changed: list[tuple[InstalledSkill, InstallPlan]]) -> bool:
    from metier.cli.terminal import ask_yes

    if len(changed) == 1:
        return ask_yes(f"Update {changed[0][1].skill.name}, and approve of what it can do now?")
    return ask_yes(f"Update {plural(len(changed), 'skill')}, and approve of what they can do now?")
