"""The words of `metier propose`, `history`, `rollback` and `deploy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.cli.verbs import add_json, verbs

if TYPE_CHECKING:
    import argparse

    from metier.cli.parser import Command


def add(command: Command) -> None:
    """Add them to the parser."""
    _propose(command)
    _history(command)
    _deploy(command)


def _propose(command: Command) -> None:
    verb = verbs(
        command("propose", "propose changes to skills, and decide about them", "metier propose show p-7f3k2m9q")
    )

    update = verb(
        "update",
        "propose to change a skill; nothing changes until somebody agrees",
        'metier propose update deploy --from ./deploy --why "Step two fails on empty tables"',
    )
    _name(update)
    change = update.add_mutually_exclusive_group()
    change.add_argument("--diff", metavar="FILE", help="a unified diff, with paths relative to the skill; - for a pipe")
    change.add_argument(
        "--from",
        metavar="DIR",
        dest="folder",
        help="a changed copy of the skill's folder (default: the folder itself, where it was changed by hand)",
    )
    _why(update)
    _library(update)

    new = verb(
        "new",
        "propose a new skill; nobody can use it until somebody agrees",
        'metier propose new tidy-tables --from ./tidy-tables --why "We do it every week"',
    )
    new.add_argument("name", metavar="NAME", help="what it is called")
    new.add_argument("--from", metavar="DIR", dest="folder", required=True, help="its folder")
    new.add_argument("--into", metavar="DIR", help="the folder of skills that it is for (default: ~/.metier/skills)")
    _why(new)
    _shared(new)

    listed = verb("list", "list what waits for somebody to decide", "metier propose list --skill deploy")
    listed.add_argument("--all", action="store_true", help="also what was decided, withdrawn or went stale")
    listed.add_argument("--skill", metavar="NAME", help="only for this skill")
    _shared(listed)

    show = verb(
        "show",
        "show all that somebody who decides should see, new capabilities first",
        "metier propose show p-7f3k2m9q --full",
    )
    _id(show)
    show.add_argument("--full", action="store_true", help="all findings and all of the diff")
    _shared(show)

    approve = verb(
        "approve", "agree to a proposal, and apply it", 'metier propose approve p-7f3k2m9q --reason "It is right"'
    )
    _id(approve)
    approve.add_argument("--no-apply", action="store_true", help="only agree; `approve` once more applies it")
    _reason(approve)
    _library(approve)

    reject = verb(
        "reject",
        "decide against a proposal; nothing of the skill changes",
        'metier propose reject p-7f3k2m9q --reason "The script is not needed"',
    )
    _id(reject)
    _reason(reject, required=True)
    _shared(reject)

    withdraw = verb("withdraw", "take back a proposal of your own", "metier propose withdraw p-7f3k2m9q")
    _id(withdraw)
    _reason(withdraw)
    _shared(withdraw)

    recommend = verb(
        "recommend",
        "say what you think of a proposal; it decides nothing",
        'metier propose recommend p-7f3k2m9q approve --reason "SKILL.md:12 agrees"',
    )
    _id(recommend)
    recommend.add_argument("verdict", choices=("approve", "reject"), help="what you would do")
    _reason(recommend, required=True)
    _shared(recommend)


def _history(command: Command) -> None:
    history = command(
        "history",
        "list the versions that a skill had, and what changed between them",
        "metier history deploy --diff 1 2",
        library=True,
    )
    _name(history)
    history.add_argument("--diff", metavar=("A", "B"), nargs=2, type=int, help="what changed between two versions")
    add_json(history)

    rollback = command(
        "rollback",
        "bring back an earlier version of a skill, exactly",
        'metier rollback deploy --to 1 --reason "It broke the build"',
        "history",
        library=True,
    )
    _name(rollback)
    rollback.add_argument("--to", metavar="N", type=int, help="this version (default: the one before)")
    _reason(rollback)
    add_json(rollback)


def _deploy(command: Command) -> None:
    deploy = command(
        "deploy",
        "put a skill into the folder that everybody's agents read first",
        'metier deploy ./data-handling --reason "New rules of the data office" --dry-run',
    )
    deploy.add_argument("path", metavar="SKILL", help="the folder of the skill, or the name of one that is here")
    where = deploy.add_mutually_exclusive_group()
    where.add_argument(
        "--scope",
        choices=("enterprise", "personal", "project"),
        default="enterprise",
        help="for everybody on this machine, for yourself, or for the project around here (default: enterprise)",
    )
    where.add_argument(
        "--to",
        metavar="DIR",
        help="another folder of skills; enterprise is the first in METIER_ENTERPRISE, or /etc/metier/skills",
    )
    deploy.add_argument(
        "--accept-findings",
        metavar="REASON",
        default="",
        help="deploy it although the scanner found something of severity high, and why",
    )
    _reason(deploy)
    deploy.add_argument("--environment", metavar="NAME", help="for this environment (default: for all)")
    deploy.add_argument(
        "--dry-run", action="store_true", help="only say what would be deployed, what decides and what it would approve"
    )
    _shared(deploy)


def _name(parser: argparse.ArgumentParser) -> None:
    from metier.cli.parser import _complete_names

    argument: Any = parser.add_argument("name", metavar="NAME", help="a name, a folder's name, or NAME@SOURCE")
    argument.completer = _complete_names


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="its id: p-...")


def _why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", metavar="TEXT", required=True, help="why it is needed")
    parser.add_argument(
        "--evidence", metavar="TEXT", action="append", default=[], help="what shows that it is needed (repeatable)"
    )


def _reason(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=required, default="", help="why; it is recorded and shown")


def _shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant (default: yours)")
    add_json(parser)


def _library(parser: argparse.ArgumentParser) -> None:
    from metier.cli.parser import _caller
    from metier.cli.parser import _shared as _skills

    _skills(parser, "after")
    _caller(parser)
    add_json(parser)
