"""The words of `metier approve`, `quarantine`, `release`, `user` and `token`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from metier.cli.parser import Command

_WANTED = "the id of a request, or the digest of its content"


def add(command: Command) -> None:
    """Add them to the parser."""
    _approve(command)
    _quarantine(command)
    _people(command)


def _approve(command: Command) -> None:
    from metier.cli.parser import verbs

    words = verbs(command("approve", "decide what skills may do", "metier approve show r-7f3k2m9q"))

    listed = words.add_parser("list", help="what waits for an answer, and what was approved")
    listed.add_argument("--all", action="store_true", help="also what was decided, revoked or has run out")
    _shared(listed, json=True)

    show = words.add_parser("show", help="all that somebody who decides should see, new capabilities first")
    show.add_argument("id", metavar="ID", help="the id of a request or an approval, or a digest")
    show.add_argument("--full", action="store_true", help="all findings and all of the difference")
    _shared(show, json=True)

    grant = words.add_parser("grant", help="agree")
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

    deny = words.add_parser("deny", help="say no; it outweighs everybody who agrees, until it is revoked")
    deny.add_argument("id", metavar="ID", help=_WANTED)
    _reason(deny)
    _shared(deny, json=True)

    revoke = words.add_parser("revoke", help="take back an approval, or a no")
    revoke.add_argument("id", metavar="ID", help="the id of the approval: a-...")
    _reason(revoke)
    _shared(revoke, json=True)


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
    _json(quarantine)

    release = command(
        "release",
        "let skills be used again that are in quarantine",
        'metier release pdf-forms --reason "It was looked at"',
        "quarantine",
        library=True,
    )
    _target(release)
    _reason(release)
    _json(release)


def _target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group()
    target.add_argument("name", metavar="NAME", nargs="?", help="every skill of this name")
    target.add_argument("--digest", metavar="DIGEST", help="exactly this content, whatever it is called")
    target.add_argument("--source", metavar="SOURCE", help="everything from this source")


def _people(command: Command) -> None:
    from metier.cli.parser import verbs

    words = verbs(command("user", "say who may decide", "metier user add ada --role reviewer", "people"))
    user = words.add_parser("add", help="add somebody, or give them other roles")
    user.add_argument("name", metavar="NAME", help="as they are called on this system, or as their token says")
    user.add_argument(
        "--role", metavar="ROLE", action="append", required=True, help="viewer, author, reviewer or admin (repeatable)"
    )
    user.add_argument("--kind", choices=("user", "agent", "service"), default="user", help="(default: user)")
    user.add_argument("--token", action="store_true", help="make a token for them too, and print its secret alone")
    _shared(user, json=True)
    _shared(words.add_parser("list", help="who is known, and what they may do"), json=True)
    user = words.add_parser("remove", help="remove somebody, and all of their tokens")
    user.add_argument("name", metavar="NAME")
    _shared(user, json=True)

    words = verbs(
        command("token", "make and revoke tokens, by which people are known", "metier token new ada", "people")
    )
    token = words.add_parser("new", help="make a token; its secret is shown once")
    token.add_argument("name", metavar="NAME", nargs="?", help="for whom (default: for you)")
    token.add_argument("--label", metavar="TEXT", default="", help="what it is for")
    token.add_argument("--expires", metavar="TIME", help="for so long: 12h, 90d (default: until it is revoked)")
    _shared(token, json=True)
    _shared(words.add_parser("list", help="all tokens, without their secrets"), json=True)
    token = words.add_parser("revoke", help="accept a token no longer")
    token.add_argument("id", metavar="ID", help="its id: t-...")
    _shared(token, json=True)


def _reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it is recorded and shown")


def _shared(parser: argparse.ArgumentParser, *, json: bool) -> None:
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant (default: yours)")
    if json:
        _json(parser)


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
