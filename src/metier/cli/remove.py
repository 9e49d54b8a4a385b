"""`metier remove`."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.exit_codes import FINE
from metier.cli.identity import acting
from metier.cli.installer import asks_first
from metier.cli.lock import add_place, locks_of
from metier.cli.output import Style, print_done, print_json, print_warning
from metier.cli.parser import Parser
from metier.errors import InvalidArgument, SkillInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.updates import InstalledSkill
    from metier.library.lock_file import LockFile


def add(parser: Parser) -> None:
    parser.example("metier remove pdf")
    parser.option("skill", "NAME", "the skills to remove, by name", nargs="+")
    add_place(parser)
    parser.flag("--yes", "remove without asking", short="-y")
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.client_copies import remove_copies
    from metier.hub.installation import remove_skill
    from metier.hub.updates import installed_skills

    locks = locks_of(options)
    chosen = installed_skills(locks, options.skill)
    doubles = {one.locked.name for one in chosen if sum(one.locked.name == other.locked.name for other in chosen) > 1}
    if doubles:
        raise InvalidArgument(
            f"{', '.join(sorted(map(Style.text, doubles)))} is installed for you and for the project.",
            hint="Add --from personal or --from project.",
        )
    needed = _needed_by(locks, chosen)
    if not options.json:
        for name, others in needed.items():
            print_warning(f"{', '.join(others)} needs {name}.")
    if asks_first(options, "Add --yes to remove it."):
        from metier.cli.terminal import ask_yes

        if not ask_yes(f"Remove {', '.join(Style.text(one.locked.name) for one in chosen)}?"):
            print("Nothing was changed.")
            return FINE
    done: list[tuple[InstalledSkill, str | None, list[str]]] = []
    with acting(options) as (scope, person):
        effective = metier.Guard().governance.effective
        for one in chosen:
            copies = remove_copies(os.path.realpath(one.location), one.locked.name, layer=one.layer)
            done.append((one, remove_skill(scope, effective, person, one), copies))
    if options.json:
        shapes = [
            {
                "name": one.locked.name,
                "location": one.location,
                "digest": digest,
                "copies": copies,
                "needed_by": needed.get(one.locked.name, []),
            }
            for one, digest, copies in done
        ]
        print_json({"skills": shapes})
        return FINE
    for one, digest, copies in done:
        again = Style.text(one.add_command, 1_000)
        kept = f" `{again}` brings it again; the store keeps its content, {digest[:19]}…" if digest else ""
        print_done(f"{Style.text(one.locked.name)} is removed: {Style.text(one.location, 4_096)}.{kept}")
        for folder in copies:
            print(f"  and its copy in {Style.text(folder, 4_096)}")
    return FINE


def _needed_by(locks: Sequence[LockFile], removed: Sequence[InstalledSkill]) -> dict[str, list[str]]:
    """The skills that stay and require one that is removed, by the name of that one."""
    from metier.skill.skill_requirement import parse_skill_requirement

    names = {one.locked.name for one in removed}
    needed: dict[str, list[str]] = {}
    for locked in (locked for lock in locks for locked in lock.skills if locked.name not in names):
        for required in locked.requires:
            with contextlib.suppress(SkillInvalid):  # a lock file is not believed about more than its skills
                if (name := parse_skill_requirement(required).name) in names:
                    needed.setdefault(name, []).append(locked.name)
    return needed
