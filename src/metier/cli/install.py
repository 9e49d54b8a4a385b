"""`metier install`."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier._lazy import replace
from metier.cli.exit_codes import FINE, PROBLEMS, exit_code_of
from metier.cli.identity import acting, may_decide
from metier.cli.install_view import TransferLine, asks_first, print_plan, terms_of
from metier.cli.lock import add_place, locks_of
from metier.cli.output import Style, plural, print_done, print_json, print_warning
from metier.cli.parser import Parser, library_of
from metier.errors import IntegrityFailed, MetierError, PackagesMissing
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.hub.install_plan import InstallPlan
    from metier.hub.updates import InstalledSkill


def add(parser: Parser) -> None:
    parser.example("metier install --frozen")
    parser.flag("--frozen", "for CI: ask nobody; where anything is not as locked, change nothing and exit 3")
    add_place(parser, "only")
    parser.flag("--yes", "install without asking, and approve of it", short="-y")
    parser.accept_findings("install it")
    parser.signature_exceptions()
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.install_plan import plan_install, source_permit
    from metier.hub.installation import install
    from metier.hub.sources.fetch import Transfer
    from metier.hub.updates import installed_skills, locked_candidates
    from metier.run.packages import has_packages

    asks = asks_first(options, "Add --yes, or --frozen for exactly what is locked.")
    plans: list[tuple[InstalledSkill, InstallPlan]] = []
    problems: list[tuple[InstalledSkill, MetierError]] = []
    withdrawn: list[str] = []
    done = []
    every = installed_skills(locks_of(options))
    with TransferLine() as line, acting(options) as (scope, person):
        there = {one.location: _digest_of(one.location) for one in every}
        wanted = [
            one
            for one in every
            if there[one.location] != one.locked.digest
            or scope.installs.get(one.location) is None
            or (one.locked.packages and not has_packages(one.locked.digest, one.locked.packages))
        ]
        changed = [one for one in wanted if there[one.location] not in (None, one.locked.digest)]
        if options.frozen and changed:
            hint = "`metier lock --check` says what differs."
            problems = [(one, IntegrityFailed(f"{one.location} is not as locked.", hint=hint)) for one in changed]
            wanted = []
        with locked_candidates(
            scope, wanted, Transfer(progress=line.show, permit=source_permit(metier.Guard(), person, scope))
        ) as found:
            line.end()
            guard, library = metier.Guard(), library_of(options)
            for one, candidate, resolved in found:
                # What was changed by hand stays in the history.
                lock = replace(one.lock, skills=(replace(one.locked, replaces=there[one.location] or ""),))
                terms = terms_of(options, os.path.dirname(one.location), line, is_pinned=one.locked.pinned)
                try:
                    if isinstance(candidate, MetierError):
                        raise candidate
                    plan = plan_install(
                        scope, guard, person, candidate, resolved, terms=terms, lock=lock, library=library
                    )
                    if not plan.decision.is_allowed:
                        raise plan.decision.as_error()
                except MetierError as error:
                    problems.append((one, error))
                else:
                    plans.append((one, plan))
                    if candidate.yanked:
                        withdrawn.append(f"{one.locked.name} was withdrawn by its author: {candidate.yanked}")
            if not options.json:
                for _, plan in plans:
                    if not plan.is_unchanged or plan.packages.lines:
                        print_plan(plan)
            is_agreed = not (options.frozen and problems) and (not asks or not plans or _agreed(plans))
            for one, plan in plans if is_agreed else ():
                done.append(
                    install(
                        scope,
                        person,
                        guard,
                        plan,
                        lock_path=one.lock.path,
                        approves=not options.frozen and may_decide(scope.store),
                        as_locked=one.locked,
                    )
                )
    names = [result.plan.skill.name for result in done if result.plan.there != result.plan.digest]
    lacking = [result for result in done if result.packages_problem]
    if options.json:
        shapes = [{"name": one.locked.name, "code": why.code, "reason": why.message} for one, why in problems]
        for result in lacking:
            name = result.plan.skill.name
            shapes.append({"name": name, "code": PackagesMissing.code, "reason": result.packages_problem})
        print_json(
            {"ok": not shapes, "checked": len(every), "installed": names, "problems": shapes, "warnings": withdrawn}
        )
    else:
        for text in withdrawn:
            print_warning(text)
        for one, problem in problems:
            print_warning(f"{one.locked.name}: {problem.message} {for_person(problem.hint)}")
        for result in lacking:
            print_warning(f"Scripts of {result.plan.skill.name} lack their packages. {result.packages_problem}")
        for name in names:
            print_done(f"{Style.text(name)} is as locked now.")
        if not names:
            print("Nothing was changed." if problems or not is_agreed else f"{plural(len(every), 'skill')} as locked.")
    if not problems:
        return PROBLEMS if lacking else FINE
    return max(exit_code_of(why) for _, why in problems)


def _digest_of(location: str) -> str | None:
    from metier.hub.folder_replacement import digest_at

    try:
        return digest_at(location)
    except MetierError:
        return ""  # whatever it is, it is not what is locked


def _agreed(plans: list[tuple[InstalledSkill, InstallPlan]]) -> bool:
    from metier.cli.terminal import ask_yes

    return ask_yes(f"Install {plural(len(plans), 'skill')} as locked, and approve of what they can do?")
