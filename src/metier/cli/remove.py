"""`metier remove`."""

from __future__ import annotations

import os
from argparse import Namespace

import metier
from metier.cli.exit_codes import FINE
from metier.cli.identity import acting, is_at_terminal
from metier.cli.lock import add_place, locks_of
from metier.cli.output import Style, print_done, print_json
from metier.cli.parser import Parser, library_of
from metier.errors import InvalidArgument


def add(parser: Parser) -> None:
    parser.example("metier remove pdf")
    parser.option("skill", "NAME", "the skills to remove, by name", nargs="+")
    add_place(parser, "only")
    parser.flag("--yes", "remove without asking", short="-y")
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.client_copies import refresh_copies
    from metier.hub.removal import remove_skill
    from metier.hub.updates import installed_skills

    locks = locks_of(options)
    chosen = installed_skills(locks, options.skill)
    doubles = {one.locked.name for one in chosen if sum(one.locked.name == other.locked.name for other in chosen) > 1}
    if doubles:
        raise InvalidArgument(
            f"{', '.join(sorted(map(Style.text, doubles)))} is installed for you and for the project.",
            hint="Add --from personal or --from project.",
        )
    if not options.yes:
        if options.json or not is_at_terminal():
            raise InvalidArgument("Nobody is here to be asked.", hint="Add --yes to remove it.")
        from metier.cli.terminal import ask_yes

        if not ask_yes(f"Remove {', '.join(Style.text(one.locked.name) for one in chosen)}?"):
            print("Nothing was changed.")
            return FINE
    done = []
    with acting(options) as (scope, person):
        effective = metier.Guard().governance.effective
        for one in chosen:
            done.append((one, remove_skill(scope, effective, person, one)))
    library, copies = library_of(options), []
    for layer in ("project", "personal"):
        is_own = layer == "personal"
        names = [one.locked.name for one in chosen if (os.path.basename(one.lock.root) == ".metier") is is_own]
        if names:
            copies += refresh_copies(library, names, layer=layer)
    if options.json:
        skills = [{"name": one.locked.name, "location": one.location, "digest": digest} for one, digest in done]
        clients = [{"folder": one.folder, "ok": one.is_fine, "skills": one.steps} for one in copies]
        print_json({"skills": skills, "copies": clients})
        return FINE
    for one, digest in done:
        kept = f" Its content stays in the history: {digest[:19]}…" if digest else ""
        print_done(f"{Style.text(one.locked.name)} is removed: {Style.text(one.location, 4_096)}.{kept}")
    return FINE
