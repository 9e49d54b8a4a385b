"""`metier add`."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier._lazy import replace
from metier.cli.exit_codes import FINE, PROBLEMS, exit_code_for
from metier.cli.identity import acting, looking, may_decide
from metier.cli.install_view import TransferLine, ask_names, asks_first, plan_shape, print_plan, terms_of
from metier.cli.output import Style, plural, print_done, print_json, print_warning
from metier.cli.parser import Parser, library_of
from metier.cli.sync import print_steps, several
from metier.errors import InvalidArgument, SkillInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.install_plan import InstallPlan
    from metier.hub.installation import Installed
    from metier.hub.sources.fetch import Candidate, Fetched
    from metier.hub.sync import Synced


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
    parser.flag("--yes", "install without asking", short="-y")
    parser.flag("--dry-run", "only say what would be installed, and what decides")
    parser.accept_findings("install it")
    parser.signature_exceptions()
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.client_copies import named_clients
    from metier.hub.install_plan import choose, plan_install, source_permit
    from metier.hub.installation import install, install_folder
    from metier.hub.resolution import with_requirements
    from metier.hub.sources.address import parse_address
    from metier.hub.sources.fetch import Transfer, fetch, resolve
    from metier.hub.sources.marketplace import opened
    from metier.hub.updates import other_sources
    from metier.library.lock_file import LockFile, lock_path_for

    asks = asks_first(options, "Add --yes to install it, or --dry-run to look first.")
    address = parse_address(options.source, ref=options.ref)
    folder = install_folder(options.to, os.getcwd())
    named_clients(several(options.client), "project")  # so that a typo is found before anything is installed
    with TransferLine() as line:
        terms = terms_of(options, folder, line, is_pinned=options.pin)
        store = looking(options) if options.dry_run else acting(options)
        with contextlib.ExitStack() as stack:
            scope, person = stack.enter_context(store)
            guard = metier.Guard()
            transfer = Transfer(progress=line.show, permit=source_permit(guard, person, scope))
            listed = stack.enter_context(fetch(resolve(address, transfer), transfer))
            names = _names(options, listed, picks=asks)
            fetched = stack.enter_context(opened(listed, names, transfer))
            chosen, broken = _whole(choose(fetched, names)) if options.all else (choose(fetched, names), [])
            line.end()
            library, lock = library_of(options), LockFile.read(lock_path_for(folder))
            source = fetched.resolved.address.name
            elsewhere = other_sources(lock, source, transfer, stack)
            chosen, lacking = with_requirements(
                chosen, fetched.candidates, lock.skills, library, source=source, elsewhere=elsewhere
            )
            fetched = replace(fetched, warnings=(*fetched.warnings, *broken, *lacking))
            plans = [
                plan_install(scope, guard, person, candidate, fetched.resolved, terms=terms, lock=lock, library=library)
                for candidate in chosen
            ]
            _require_apart(plans)
            _show(options, fetched, plans)
            refused = next((plan.decision for plan in plans if not plan.decision.is_allowed), None)
            if options.dry_run:
                return FINE if refused is None else exit_code_for(refused.code)
            if refused is None and asks and not _agreed(plans):
                print("Nothing was changed.")
                return FINE
            # One that is refused comes first: then none of them is installed.
            ordered = sorted(plans, key=lambda plan: plan.decision.is_allowed)
            done = [
                install(scope, person, guard, plan, lock_path=lock_path_for(folder), approves=may_decide(scope.store))
                for plan in ordered
            ]
    copies = _copied_to_clients(options, done, asks=asks)
    _print_installed(options, fetched, done, copies)
    is_fine = all(one.is_fine for one in copies) and not any(one.packages_problem for one in done)
    return FINE if is_fine else PROBLEMS


def _names(options: Namespace, listed: Fetched, *, picks: bool) -> list[str]:
    """The skills and plugins that are wanted; none for the only one that there is."""
    names: list[str] = options.skill
    offered = listed.offered
    if options.all:
        if names:
            raise InvalidArgument("--all and names of skills exclude each other.", hint="Leave one of them out.")
        return [one.path for one in offered if not one.is_plugin]
    if names or len(offered) > 1:
        return names if names or not picks else ask_names(offered)
    return [one.folder for one in offered if one.is_plugin]


def _whole(chosen: list[Candidate]) -> tuple[list[Candidate], list[str]]:
    """The skills that can be loaded, where somebody wants all, and a sentence for each of the others."""
    from metier.skill import parse

    whole: list[Candidate] = []
    broken: list[str] = []
    for one in chosen:
        diagnostics = parse(one.skill_file(), folder=one.folder).skill.diagnostics
        if any(note.severity == "error" for note in diagnostics):
            broken.append(f"{one.path} cannot be loaded, and is left out.")
        else:
            whole.append(one)
    return (whole, broken) if whole else (chosen, [])


def _require_apart(plans: Sequence[InstallPlan]) -> None:
    """Raise where two skills of one source would lie in one folder."""
    homes: dict[str, InstallPlan] = {}
    for plan in plans:
        other = homes.setdefault(plan.home.location, plan)
        if other is not plan:
            raise SkillInvalid(
                f"{Style.text(other.candidate.path)} and {Style.text(plan.candidate.path)} are both called "
                f"{plan.skill.name!r}.",
                hint="Add one of them, by its path.",
            )


def _show(options: Namespace, fetched: Fetched, plans: Sequence[InstallPlan]) -> None:
    if options.json:
        if options.dry_run:
            print_json(_shape(fetched, [plan_shape(plan) for plan in plans], dry_run=True))
        return
    for warning in fetched.warnings:
        print_warning(warning)
    for plan in plans:
        print_plan(plan)
    if options.dry_run:
        print("Nothing was changed.")


def _agreed(plans: Sequence[InstallPlan]) -> bool:
    from metier.cli.terminal import ask_yes

    if all(plan.is_unchanged for plan in plans):
        return True
    if len(plans) == 1:
        return ask_yes(f"Install {plans[0].skill.name}, and approve of what it can do?")
    return ask_yes(f"Install {plural(len(plans), 'skill')}, and approve of what they can do?")


def _copied_to_clients(options: Namespace, done: Sequence[Installed], *, asks: bool) -> list[Synced]:
    """Write what is installed into folders of clients: those that were named or agreed to, and those that have it."""
    from metier.cli.terminal import ask_yes
    from metier.hub.client_copies import copy_to_clients, named_clients, present_clients, refresh_copies

    layer, names = done[0].plan.home.layer, [one.plan.skill.name for one in done]
    clients = named_clients(several(options.client), layer)
    if asks and not clients:
        there = present_clients(layer)
        titles = ", ".join(client.title for client in there)
        if there and ask_yes(f"Also write it into the folders of {titles}?"):
            clients = there
    library = library_of(options)  # as it is now
    copies = copy_to_clients(library, clients, names, layer=layer, accept_findings=options.accept_findings)
    done_there = {one.folder for one in copies}
    refreshed = refresh_copies(library, names, layer=layer, accept_findings=options.accept_findings)
    return [*copies, *(one for one in refreshed if one.folder not in done_there)]


def _print_installed(options: Namespace, fetched: Fetched, done: Sequence[Installed], copies: Sequence[Synced]) -> None:
    if options.json:
        skills = [
            {
                **plan_shape(one.plan),
                "changed": not one.is_unchanged,
                "approved": not one.not_approved,
                "packages_problem": one.packages_problem,
            }
            for one in done
        ]
        clients = [{"folder": one.folder, "ok": one.is_fine, "skills": one.steps} for one in copies]
        print_json({**_shape(fetched, skills, dry_run=False), "copies": clients})
        return
    style = Style(sys.stdout)
    for one in done:
        how = "is installed already" if one.is_unchanged else "is installed"
        print_done(f"{Style.text(one.plan.home.ref)} {how}: {Style.text(one.plan.home.location, 4_096)}")
        if one.not_approved:
            print(style.warn(f"  Its content is not approved by that. {Style.text(one.not_approved, 1_000)}"))
        if one.packages_problem:
            print(style.warn(f"  Its scripts lack their packages. {Style.text(one.packages_problem, 1_000)}"))
    for copy in copies:
        print_steps(copy)


def _shape(fetched: Fetched, skills: list[dict[str, object]], *, dry_run: bool) -> dict[str, object]:
    address = fetched.resolved.address
    return {
        "dry_run": dry_run,
        "source": address.name,
        "ref": address.ref,
        "revision": fetched.resolved.revision,
        "warnings": list(fetched.warnings),
        "skills": skills,
    }
