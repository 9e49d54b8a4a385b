"""`metier deploy`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import metier
import metier.hub
import metier.source
from metier.cli.exit_codes import FINE, exit_code_for
from metier.cli.identity import acting, looking
from metier.cli.output import Style, plural, print_done, print_json
from metier.cli.parser import Parser, library_of
from metier.hints import for_person

if TYPE_CHECKING:
    from metier.hub import Deployed
    from metier.hub.dry_run import DeployDryRun


def add(parser: Parser) -> None:
    parser.example('metier deploy ./data-handling --reason "New rules of the data office" --dry-run')
    parser.option("path", "SKILL", "the folder of the skill, or the name of one that is here")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--scope",
        choices=("enterprise", "personal", "project"),
        help="for everybody on this machine, for yourself, or for the project around here (default: enterprise)",
    )
    where.add_argument(
        "--to",
        metavar="DIR",
        help="another folder of skills; enterprise is the first in METIER_ENTERPRISE, or /etc/metier/skills",
    )
    where.add_argument(
        "--server",
        metavar="URL",
        nargs="?",
        const="",
        help="all nodes of a server, by default of the one that this machine is a node of; "
        "on a node that is what happens unless --scope or --to says otherwise",
    )
    parser.accept_findings("deploy it")
    parser.reason()
    parser.option("--environment", "NAME", "for this environment (default: for all)")
    parser.flag("--dry-run", "only say what would be deployed, what decides and what it would approve")
    parser.tenant()
    parser.json()


def run(options: Namespace) -> int:
    from metier.hub.deployment import folder_of_layer
    from metier.hub.dry_run import dry_run_deploy
    from metier.library.places import is_node

    if options.server is not None or (options.scope is None and options.to is None and is_node()):
        from metier.cli.server_registry import deploy_to_server

        deploy_to_server(options, _folder(options))
        return FINE
    with looking(options) if options.dry_run else acting(options, decides=True) as (scope, person):
        folder = _folder(options)
        where = {
            "to": options.to or folder_of_layer(options.scope or "enterprise", Path.cwd()),
            "accept_findings": options.accept_findings,
            "environment": options.environment or "",
        }
        if options.dry_run:
            found = dry_run_deploy(scope, person, folder, **where, guard=metier.Guard())
            if options.json:
                _print_dry_json(found)
            else:
                _print_dry_run(found)
            return FINE if found.is_allowed else exit_code_for(found.code)
        done = metier.hub.deploy(scope, person, folder, **where, reason=options.reason, guard=metier.Guard())
    _print_deployed(options, done)
    return FINE


def _folder(options: Namespace) -> str:
    """Return the folder to deploy: the one that was named, or that of the skill of this name."""
    from metier.hub.skill_location import location_of

    path: str = options.path
    if os.path.lexists(metier.source.expanded(path)) or os.path.basename(path) != path:
        return path
    return location_of(library_of(options).get(path)).location


def _print_deployed(options: Namespace, done: Deployed) -> None:
    if options.json:
        print_json(
            {
                "skill": done.home.ref,
                "location": done.home.location,
                "layer": done.home.layer,
                "version": done.version,
                "findings": [found.as_dict() for found in done.report.findings],
                "approved": not done.not_approved,
                "changed": not done.is_unchanged,
            }
        )
        return
    style = Style(sys.stdout)
    where = Style.text(done.home.location, 4_096)
    how = "was deployed already" if done.is_unchanged else "is deployed"
    print_done(f"{Style.text(done.home.ref)} {how} as version {done.version.number}: {where}")
    print(style.dim(f"  {done.version.digest}, {done.home.layer} layer"))
    if done.not_approved:
        print(style.warn(f"  Its content is not approved by that. {Style.text(done.not_approved, 1_000)}"))


def _print_dry_json(found: DeployDryRun) -> None:
    print_json(
        {
            "dry_run": True,
            "skill": found.home.ref,
            "location": found.home.location,
            "layer": found.home.layer,
            "environment": found.environment,
            "digest": found.digest,
            "over": found.over,
            "changed": found.is_allowed and not found.is_unchanged,
            "findings": [one.as_dict() for one in found.report.findings],
            "approvals": found.approvals,
            **found.explanation.as_dict(),
        }
    )


def _print_dry_run(found: DeployDryRun) -> None:
    style, home, told = Style(sys.stdout), found.home, found.explanation
    how = "is deployed already" if found.is_unchanged else "would be deployed"
    if not found.is_allowed:
        how = "would not be deployed"
    what = f"{style.strong(Style.text(home.ref))} {how}: {Style.text(home.location, 4_096)}"
    print(f"{style.outcome(told.outcome)}  {what}")
    over = "where nothing is yet" if found.over is None else f"in place of {found.over}"
    where = f"the environment {Style.text(found.environment)}" if found.environment else "all environments"
    print(style.dim(f"  {found.digest}, {over}; {home.layer} layer, {where}"))
    print(f"{style.dim('why')}: {Style.text(told.reason, 2_000)}")
    print(f"{style.dim('rule')}: {Style.text(told.rule, 1_000)}")
    if told.hint and not found.is_allowed:
        print(f"{style.dim('hint')}: {Style.text(for_person(told.hint), 1_000)}")
    for other in told.considered:
        if other.rule != told.rule:
            said = f"{other.outcome} by {Style.text(other.rule, 500)}: {Style.text(other.reason, 500)}"
            print(f"{style.dim('also')}: {said}")
    count = len(found.report.findings)
    worst = f", the worst {found.report.max_severity}" if count else ""
    print(f"{style.dim('scan')}: {plural(count, 'finding')}{worst}")
    _print_approvals(found, style)
    print("Nothing was changed.")


def _print_approvals(found: DeployDryRun, style: Style) -> None:
    approvals = found.approvals
    print(f"{style.dim('needs approval')}: {_join_names(approvals.needed) or 'nothing more'}")
    if approvals.why_not:
        print(f"{style.dim('gives approval')}: none. {Style.text(approvals.why_not, 1_000)}")
    else:
        given = f" with {_join_names(approvals.given)}" if approvals.given else ""
        print(f"{style.dim('gives approval')}: of this content{given}, in the {found.home.layer} layer")
    if approvals.answers:
        print(f"{style.dim('answers')}: {_join_names(approvals.answers)}")
    if approvals.lacking:
        print(style.warn(f"Even then somebody has to approve: {_join_names(approvals.lacking)}"))


def _join_names(names: tuple[str, ...]) -> str:
    return Style.text(", ".join(names), 1_000)
