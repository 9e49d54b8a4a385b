"""The words of `metier approve`, `quarantine`, `release`, `user` and `token`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.verbs import add_json, verbs

if TYPE_CHECKING:
    import argparse

    from metier.cli.parser import Command

_WANTED = "the id of a request, the digest of its content, or the name of a skill for which one request waits"


def add(command: Command) -> None:
    """Add them to the parser."""
    _approve(command)
    _waiting(command)
    _quarantine(command)
    _people(command)


def _approve(command: Command) -> None:
    verb = verbs(command("approve", "decide what skills may do", "metier approve show r-7f3k2m9q"))

    listed = verb("list", "list what waits for an answer, and what was approved", "metier approve list --all")
    listed.add_argument("--all", action="store_true", help="also what was decided, revoked or has run out")
    _shared(listed, json=True)

    show = verb(
        "show",
        "show all that somebody who decides should see, new capabilities first",
        "metier approve show r-7f3k2m9q",
    )
    show.add_argument(
        "id",
        metavar="ID",
        help="the id of a request or an approval, a digest, or the name of a skill for which one request waits",
    )
    show.add_argument("--full", action="store_true", help="all findings and all of the difference")
    _shared(show, json=True)

    grant = verb(
        "grant",
        "agree that a skill may do what it asks for, as long as its content is this",
        'metier approve grant r-7f3k2m9q --expires 30d --reason "I read its scripts"',
    )
    grant.add_argument("id", metavar="ID", help=_WANTED)
    grant.add_argument(
        "--only", metavar="CAPABILITY", action="append", help="this of what is asked for, not all (repeatable)"
    )
    grant.add_argument(
        "--tool", metavar="RULE", action="append", default=[], help="also these tool calls: Bash(git:*) (repeatable)"
    )
    grant.add_argument("--expires", metavar="TIME", help="for so long: 12h, 30d; never longer than policy says")
    grant.add_argument("--reason", metavar="TEXT", default="", help="why")
    _shared(grant, json=True)

    deny = verb(
        "deny",
        "say no; it outweighs everybody who agrees, until it is revoked",
        'metier approve deny r-7f3k2m9q --reason "It sends files away"',
    )
    deny.add_argument("id", metavar="ID", help=_WANTED)
    _reason(deny)
    _shared(deny, json=True)

    revoke = verb(
        "revoke",
        "take back an approval, or a no",
        'metier approve revoke a-5h2n8c4d --reason "It is not needed any more"',
    )
    revoke.add_argument("id", metavar="ID", help="the id of the approval: a-...")
    _reason(revoke)
    _shared(revoke, json=True)


def _waiting(command: Command) -> None:
    waiting = command(
        "waiting",
        "say what waits for you: requests, proposals, quarantines; ends with 4 if anything does",
        "metier waiting --json",
    )
    waiting.add_argument("--since", metavar="CURSOR", help="only what came after the `cursor` of an earlier --json")
    waiting.add_argument("--new", action="store_true", help="only what was not told to you with --new before")
    waiting.add_argument("--timeout", metavar="TIME", help="how long the program of --then may take (default: 30s)")
    _shared(waiting, json=True)
    waiting.add_argument(
        "--then",
        metavar="PROGRAM",
        nargs="...",
        default=[],
        help="if anything waits, start this program with its arguments, and give it the JSON on its input",
    )


def _quarantine(command: Command) -> None:
    quarantine = command(
        "quarantine",
        "take skills out of use everywhere, from the next decision on, and list who used them",
        'metier quarantine pdf-forms --reason "It sends files away"',
        library=True,
    )
    _target(quarantine)
    quarantine.add_argument("--reason", metavar="TEXT", help="why; it is recorded and shown")
    quarantine.add_argument("--list", action="store_true", dest="list_blocks", help="list what is in quarantine")
    add_json(quarantine)

    release = command(
        "release",
        "let skills be used again that are in quarantine",
        'metier release pdf-forms --reason "It was looked at"',
        "quarantine",
        library=True,
    )
    _target(release)
    _reason(release)
    add_json(release)


def _target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group()
    target.add_argument("name", metavar="NAME", nargs="?", help="every skill of this name")
    target.add_argument("--digest", metavar="DIGEST", help="exactly this content, whatever it is called")
    target.add_argument("--source", metavar="SOURCE", help="everything from this source")


def _people(command: Command) -> None:
    verb = verbs(command("user", "say who may decide", "metier user add ada --role reviewer", "user"))
    user = verb(
        "add",
        "add somebody, or give them other roles; the first is you, as admin",
        "metier user add ada --role reviewer",
    )
    user.add_argument("name", metavar="NAME", help="as they are called on this system, or as their token says")
    user.add_argument(
        "--role", metavar="ROLE", action="append", required=True, help="viewer, author, reviewer or admin (repeatable)"
    )
    user.add_argument("--kind", choices=("user", "agent", "service"), default="user", help="(default: user)")
    user.add_argument("--token", action="store_true", help="make a token for them too, and print its secret alone")
    _shared(user, json=True)
    _shared(verb("list", "list who is known, and what they may do", "metier user list"), json=True)
    user = verb("remove", "remove somebody, and all of their tokens", "metier user remove ada")
    user.add_argument("name", metavar="NAME")
    _shared(user, json=True)

    verb = verbs(command("token", "make and revoke tokens, by which people are known", "metier token new ada", "user"))
    token = verb("new", "make a token; its secret is shown once", "metier token new ada --label laptop --expires 90d")
    token.add_argument("name", metavar="NAME", nargs="?", help="for whom (default: for you)")
    token.add_argument("--label", metavar="TEXT", default="", help="what it is for")
    token.add_argument("--expires", metavar="TIME", help="for so long: 12h, 90d (default: until it is revoked)")
    _shared(token, json=True)
    _shared(verb("list", "list all tokens, without their secrets", "metier token list"), json=True)
    token = verb("revoke", "accept a token no longer", "metier token revoke t-3k9w6p2x")
    token.add_argument("id", metavar="ID", help="its id: t-...")
    _shared(token, json=True)


def _reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is recorded and shown")


def _shared(parser: argparse.ArgumentParser, *, json: bool) -> None:
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant (default: yours)")
    if json:
        add_json(parser)
