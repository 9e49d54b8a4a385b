"""`metier add`."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.install_view import ask_names, print_candidates
from metier.cli.installer import asks_first, installing
from metier.cli.output import Style, print_json, print_warning
from metier.cli.parser import Parser
from metier.cli.sync import several
from metier.errors import InvalidArgument, SkillInvalid, SkillNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.cli.installer import Installer
    from metier.hub.install_plan import InstallPlan
    from metier.hub.sources.fetch import Candidate, Fetched
    from metier.library.clients import Client
    from metier.library.lock_file import LockFile


def add(parser: Parser) -> None:
    parser.example("metier add anthropics/skills pdf --to project")
    parser.option("source", "SOURCE", "owner/repo[/path][@ref], a git address, an https archive or site, or a folder")
    parser.option("skill", "SKILL", "the skills to add, by name (default: the only one, or those you pick)", nargs="*")
    parser.option(
        "--to",
        "PLACE",
        "for you (personal) or for the project around here (default: project in a repository, else personal)",
        choices=("personal", "project"),
    )
    parser.option("--ref", "REF", "a branch, tag, commit or version of the source", default="")
    parser.flag("--all", "all skills of the source")
    parser.flag("--pin", "let updates leave it as it is")
    parser.option(
        "--client",
        "CLIENT,...",
        "also write it into the folder of a client, such as claude-code, or of all that you have (repeatable)",
        action="append",
    )
    parser.flag("--dry-run", "only say what would be installed, and what decides")
    parser.installs("install")


def run(options: Namespace) -> int:
    from metier.hub.client_copies import named_clients
    from metier.hub.installation import install_folder
    from metier.hub.resolution import with_requirements
    from metier.hub.sources.address import parse_address
    from metier.hub.sources.fetch import fetch, resolve
    from metier.hub.updates import other_sources
    from metier.library.lock_file import LockFile, lock_path_for

    if options.all and options.skill:
        raise InvalidArgument("--all and names of skills exclude each other.", hint="Leave one of them out.")
    address = parse_address(options.source, ref=options.ref)
    folder = install_folder(options.to, os.getcwd())
    named_clients(several(options.client), "project")  # so that a typo is found before anything is installed
    hint = "Add --yes to install it, or --dry-run to look first."
    asks_first(options, hint)  # before anything is fetched
    with installing(options, hint) as installer, contextlib.ExitStack() as stack:
        listed = stack.enter_context(fetch(resolve(address, installer.transfer), installer.transfer))
        fetched, chosen = _choose(installer, listed, stack)
        source, lock = fetched.resolved.address, LockFile.read(lock_path_for(folder))
        elsewhere = other_sources(lock, source.name, installer.transfer, stack)
        chosen, lacking = with_requirements(
            chosen, fetched.candidates, lock.skills, installer.library, source=source.name, elsewhere=elsewhere
        )
        installer.warnings += (*fetched.warnings, *lacking)
        plans = _plans(installer, chosen, fetched, lock, folder)
        code = installer.carry_out(plans, "Install", is_whole=True, clients=lambda: _clients(installer, plans[0]))
        if options.json:
            shape = {"source": source.name, "ref": source.ref, "revision": fetched.resolved.revision}
            print_json({**installer.shape, **shape, "warnings": installer.warnings})
    return code


def _choose(installer: Installer, listed: Fetched, stack: contextlib.ExitStack) -> tuple[Fetched, list[Candidate]]:
    """The skills that are wanted: all, those that are named, or those that a person picks, who may try again."""
    from metier.hub.install_plan import choose
    from metier.hub.sources.marketplace import opened

    names: list[str] = installer.options.skill
    offered = listed.offered
    if installer.options.all:
        names = [one.path for one in offered if not one.is_plugin]
    elif not names and len(offered) == 1:
        names = [one.folder for one in offered if one.is_plugin]
    is_picked = installer.asks and not names and len(offered) > 1
    if is_picked:
        installer.progress.end()
        print_candidates(offered)
    while True:
        names = ask_names(offered) if is_picked else names
        try:
            fetched = stack.enter_context(opened(listed, names, installer.transfer))
            return fetched, choose(fetched, names)
        except (InvalidArgument, SkillNotFound) as error:
            if not is_picked:
                if not installer.options.json:
                    for text in listed.warnings:  # they may be about what was named
                        print_warning(text)
                raise
            print_warning(f"{error.message} {error.hint}")


def _plans(
    installer: Installer, chosen: Sequence[Candidate], fetched: Fetched, lock: LockFile, folder: str
) -> list[InstallPlan]:
    """The plans of skills; where somebody wants all, those that cannot be loaded are left out with a warning."""
    plans: dict[str, InstallPlan] = {}
    for number, candidate in enumerate(chosen, 1):
        try:
            plan = installer.plan(candidate, fetched.resolved, lock, folder=folder, is_pinned=installer.options.pin)
        except SkillInvalid:
            if not installer.options.all or (number == len(chosen) and not plans):
                raise
            installer.warnings.append(f"{candidate.path} cannot be loaded, and is left out.")
            continue
        other = plans.setdefault(plan.home.location, plan)
        if other is not plan:
            both = f"{Style.text(other.candidate.path)} and {Style.text(candidate.path)}"
            raise SkillInvalid(f"{both} are both called {plan.skill.name!r}.", hint="Add one of them, by its path.")
    return list(plans.values())


def _clients(installer: Installer, plan: InstallPlan) -> list[Client]:
    """The clients that get copies: those that were named, or that the person agrees to."""
    from metier.cli.terminal import ask_yes
    from metier.hub.client_copies import named_clients, present_clients

    layer = plan.home.layer
    named = named_clients(several(installer.options.client), layer)
    there = present_clients(layer) if installer.asks and not named else []
    titles = ", ".join(client.title for client in there)
    return there if there and ask_yes(f"Also write it into the folders of {titles}?") else named
