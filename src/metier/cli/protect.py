"""`metier protect`: our hooks in the configuration of a client, so that the guard decides about its tool calls."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier._lazy import asdict
from metier.cli.client_permissions import permissions_of
from metier.cli.client_protection import client_protections, is_in_project, protect_client, protection_of
from metier.cli.hook_files import HOOK_FILES
from metier.cli.identity import require_person
from metier.cli.output import Style, print_done, print_json, short_path, table
from metier.errors import InvalidArgument
from metier.library.clients import CLIENTS

if TYPE_CHECKING:
    from metier.cli.client_files import FileChange
    from metier.cli.hook_files import HookFile
    from metier.cli.parser import Parser


def add(parser: Parser) -> None:
    parser.example("metier protect claude-code --dry-run")
    parser.add_argument(
        "client",
        nargs="?",
        metavar="CLIENT",
        choices=list(HOOK_FILES),
        help=f"{', '.join(HOOK_FILES)}; without one, say which are protected",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", action="store_true", help="for this project alone (default in a repository)")
    scope.add_argument("--user", action="store_true", help="for all your projects (default elsewhere)")
    parser.flag("--remove", "take out what was written, and leave all else as it is")
    parser.flag("--dry-run", "only print what would change")
    parser.json()


def run(options: Namespace) -> None:
    if options.client is None:
        if options.remove or options.dry_run or options.project or options.user:
            raise InvalidArgument("No client was named.", hint=f"Name one of {', '.join(HOOK_FILES)}.")
        _print_all(options)
        return
    hooks, is_user = HOOK_FILES[options.client], options.user or not (options.project or is_in_project())
    if not options.remove and protection_of(options.client, is_user=not is_user).files:
        whose, other = ("this project", "project") if is_user else ("all your projects", "user")
        raise InvalidArgument(
            f"{CLIENTS[options.client].title} is protected for {whose} already: each call would be decided twice.",
            hint=f"Take that out first: `metier protect {options.client} --{other} --remove`.",
        )
    if options.remove and not options.dry_run:
        require_person()
    if not options.remove and not options.dry_run:
        _write_program()
    changes = protect_client(options.client, is_user=is_user, remove=options.remove, dry_run=options.dry_run)
    if options.json:
        shape = [
            {"file": one.file, "changed": not one.is_none, "exists": one.after is not None, "diff": one.diff()}
            for one in changes
            if not (one.before is None and one.after is None)
        ]
        print_json(
            {
                "client": options.client,
                "scope": "user" if is_user else "project",
                "removed": options.remove,
                "dry_run": options.dry_run,
                "files": shape,
                "unexpressed": list(permissions_of(options.client, is_user=is_user).unexpressed),
                "limits": list(hooks.limits),
            }
        )
        return
    _print_changes(options, changes, hooks, is_user=is_user)


def _write_program() -> None:
    if sys.platform != "win32":
        from metier.serve.client_hooks.fast_client import hook_program

        hook_program()


def _print_changes(options: Namespace, changes: list[FileChange], hooks: HookFile, *, is_user: bool) -> None:
    title = CLIENTS[options.client].title
    changed = [one for one in changes if not one.is_none]
    for one in changed:
        print(one.diff())
    if not changed:
        print_done(f"{title} {'was not protected here' if options.remove else 'is protected here already'}.")
        return
    if options.dry_run:
        return
    names = ", ".join(Style.text(short_path(one.file), 4_096) for one in changed)
    if options.remove:
        print_done(f"{title} is no longer protected: {names} {'is' if len(changed) == 1 else 'are'} without our hooks.")
        print(f"Restart {title} if it runs.")
        return
    print_done(f"{title} is protected by {names}.")
    print(hooks.then)
    if not (is_user or hooks.is_shared):
        print("That file is yours alone, and runs a program in your home: have git ignore it.")
    if left := "; ".join(permissions_of(options.client, is_user=is_user).unexpressed):
        print(f"Its own lists cannot say these rules, so the hook alone enforces them: {Style.text(left, 4_096)}.")
    for limit in hooks.limits:
        print(f"{Style(sys.stdout).dim('limit')}: {limit}")
    scope = " --user" if options.user else " --project" if options.project else ""
    print(f"`metier protect {options.client}{scope} --remove` undoes it.")


def _print_all(options: Namespace) -> None:
    found = list(client_protections())
    if options.json:
        print_json({"clients": [asdict(one) for one in found]})
        return
    style, protected = Style(sys.stdout), [one for one in found if one.state != "off"]
    if protected:
        rows = [(one.client, one.scope, one.state, ", ".join(map(short_path, one.files))) for one in protected]
        print(table(style, ("CLIENT", "SCOPE", "STATE", "FILES"), rows))
    for one in protected:
        if one.problem:
            print(f"{style.warn(one.client)}: {Style.text(one.problem, 4_096)}.")
        if one.state == "changed":
            print(f"`metier protect {one.client} --{one.scope}` writes it again.")
    others = [client for client in HOOK_FILES if client not in [one.client for one in protected]]
    if others:
        print(f"Not protected: {', '.join(others)}. `metier protect CLIENT` does it.")
