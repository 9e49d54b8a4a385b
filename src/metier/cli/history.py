"""`metier history` and `metier rollback`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

import metier
import metier.hub
import metier.skill
from metier.cli.identity import acting
from metier.cli.output import Style, print_json, print_result, table
from metier.cli.parser import Parser, library_of
from metier.guard.remedies import restore_or_propose
from metier.hub.proposal_page import shown_lines
from metier.hub.skill_location import removal_of


def add(parser: Parser) -> None:
    parser.library()
    parser.skill()
    if parser.command == "history":
        parser.example("metier history deploy --diff 1 2")
        parser.option("--diff", ("A", "B"), "what changed between two versions", nargs=2, type=int)
    else:
        parser.example('metier rollback deploy --to 1 --reason "It broke the build"')
        parser.option("--to", "N", "this version (default: the one before)", type=int)
        parser.reason()
    parser.json()


def run(options: Namespace) -> None:
    from metier.guard.approvals.roles import require_role

    if options.command == "rollback":
        _roll_back(options)
        return
    with acting(options) as (scope, person):
        require_role(person, "viewer", "see the history of a skill")
        home = metier.hub.find_location(library_of(options), scope, options.name)
        if options.diff is not None:
            text = metier.hub.compare(scope, home, *options.diff)
            if options.json:
                print_json({"skill": home.ref, "location": home.location, "diff": text})
            else:
                print(shown_lines(text), end="")
            return
        versions = scope.versions.of(home.location)
        there = metier.skill.FolderPackage(home.folder).digest() if os.path.isdir(home.folder) else None
        again = removal_of(scope, home)
    if options.json:
        print_json({"skill": home.ref, "location": home.location, "now": there, "versions": versions})
        return
    style = Style(sys.stdout)
    print(f"{style.strong(Style.text(home.ref))}  {style.dim(Style.text(home.location, 4_096))}")
    if not versions:
        print("It has no history yet: that begins when a proposal is applied or the skill is deployed.")
        return
    is_there = versions[-1].digest == there
    rows = [
        (
            f"{one.number} ← now" if is_there and one is versions[-1] else str(one.number),
            one.digest.removeprefix("sha256:")[:12],
            style.when(one.at),
            one.by or "-",
            one.proposal or "-",
            " ".join(one.reason.split()),
        )
        for one in versions
    ]
    print(table(style, ("VERSION", "DIGEST", "SINCE", "BY", "PROPOSAL", "WHY"), rows))
    if there is None:
        way = f"`{Style.text(again or f'metier rollback {home.ref}', 1_000)}` brings back the last version."
        print(style.warn(f"The skill is gone from its folder. {way}"))
    elif not is_there:
        print(style.warn(f"The skill was changed by hand since. {restore_or_propose(home.ref)}"))


def _roll_back(options: Namespace) -> None:
    with acting(options, decides=True) as (scope, person):
        home = metier.hub.find_location(library_of(options), scope, options.name)
        version = metier.hub.rollback(
            scope,
            person,
            home,
            to=options.to,
            reason=options.reason,
            environment=options.environment or "",
            guard=metier.Guard(),
        )
    text = f"{Style.text(home.ref)} is version {version.number} now. {Style.text(version.reason, 1_000)}"
    print_result(options, {"version": version}, f"{text}\n{Style(sys.stdout).dim(f'  {version.digest}')}")
