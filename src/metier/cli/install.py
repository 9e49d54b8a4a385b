"""`metier install`."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.cli.installer import installing
from metier.cli.lock import add_place, required_locks_of
from metier.cli.output import plural, print_json
from metier.cli.parser import Parser
from metier.errors import IntegrityFailed, MetierError

if TYPE_CHECKING:
    from metier.cli.installer import Installer
    from metier.hub.install_plan import InstallPlan
    from metier.hub.updates import InstalledSkill


def add(parser: Parser) -> None:
    parser.example("metier install --frozen")
    parser.flag("--frozen", "for CI: ask nobody; where anything is not as locked, change nothing and exit 3")
    add_place(parser)
    parser.installs("install")


def run(options: Namespace) -> int:
    from metier.hub.updates import installed_skills, locked_candidates

    every = installed_skills(required_locks_of(options))
    there = {one.location: _digest_of(one.location) for one in every}
    plans: list[InstallPlan] = []
    with installing(options, "Add --yes, or --frozen for exactly what is locked.") as installer:
        wanted = [one for one in every if _is_open(installer, one, there[one.location])]
        if options.frozen:
            hint = "`metier lock --check` says what differs."
            installer.problems += [
                (one.locked.name, IntegrityFailed(f"{one.location} is not as locked.", hint=hint))
                for one in wanted
                if there[one.location] not in (None, one.locked.digest)
            ]
        asked = [] if installer.problems else wanted
        is_proven = installer.is_source_limited
        with locked_candidates(installer.scope, asked, installer.transfer, is_source_proven=is_proven) as found:
            for one, candidate, resolved in found:
                # What was changed by hand stays in the history.
                lock = replace(one.lock, skills=(replace(one.locked, replaces=there[one.location] or ""),))
                terms = {"is_pinned": one.locked.pinned, "as_locked": one.locked}
                try:
                    if isinstance(candidate, MetierError):
                        raise candidate
                    plan = installer.plan(candidate, resolved, lock, folder=os.path.dirname(one.location), **terms)
                    if options.frozen and not plan.decision.is_allowed:
                        raise plan.decision.as_error()
                except MetierError as error:
                    installer.problems.append((one.locked.name, error))
                    continue
                plans.append(plan)
                if candidate.yanked:
                    installer.warnings.append(f"{one.locked.name} was withdrawn by its author: {candidate.yanked}")
            if options.frozen and installer.problems:
                plans = []
            code = installer.carry_out(plans, "Install", otherwise=f"{plural(len(every), 'skill')} as locked.")
        if options.json:
            problems = [{"name": name, "code": why.code, "reason": why.message} for name, why in installer.problems]
            shape = {"ok": not problems, "checked": len(every), "installed": installer.changed}
            print_json({**installer.shape, **shape, "problems": problems, "warnings": installer.warnings})
    return code


def _is_open(installer: Installer, one: InstalledSkill, there: str | None) -> bool:
    """Whether a skill is not as locked, has no records, lacks its packages, or waits for an approval."""
    from metier.hub.skill_location import location_at
    from metier.run.packages import has_packages

    locked = one.locked
    return (
        there != locked.digest
        or installer.scope.installs.get(one.location) is None
        or (bool(locked.packages) and not has_packages(locked.digest, locked.packages))
        or installer.lacks_approval(location_at(one.location, locked.name), locked.digest, locked.packages)
    )


def _digest_of(location: str) -> str | None:
    from metier.hub.folder_replacement import digest_at

    try:
        return digest_at(location)
    except MetierError:
        return ""  # whatever it is, it is not what is locked
