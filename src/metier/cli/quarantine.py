"""`metier quarantine`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.identity import acting
from metier.cli.output import Style, plural, print_done, print_json, print_result, table
from metier.cli.parser import Parser, library_of
from metier.cli.server_decisions import decide_at_server, decides_at_server
from metier.errors import InvalidArgument
from metier.guard.remedies import restore_or_propose

if TYPE_CHECKING:
    from metier.guard.approvals.quarantine import SkillUsage
    from metier.store import Person, TenantScope
    from metier.store.blocks import BlockKind

_FEW = 20


def add(parser: Parser) -> None:
    parser.example('metier quarantine add pdf-forms --reason "It sends files away"')
    added = parser.verb(
        "add",
        "take skills out of use everywhere, from the next decision on, and list who used them",
        'metier quarantine add pdf-forms --reason "It sends files away"',
        _quarantine,
    )
    released = parser.verb(
        "release",
        "let skills be used again that are in quarantine",
        'metier quarantine release pdf-forms --reason "It was looked at"',
        _release,
    )
    for verb in (added, released):
        target = verb.add_mutually_exclusive_group()
        target.add_argument("name", metavar="NAME", nargs="?", help="every skill of this name")
        target.add_argument("--digest", metavar="DIGEST", help="exactly this content, whatever it is called")
        target.add_argument("--source", metavar="SOURCE", help="everything from this source")
    added.option("--reason", "TEXT", "why; it is recorded and shown")
    released.reason(required=True)
    listed = parser.verb("list", "list what is in quarantine", "metier quarantine list", _list)
    for verb in (added, released, listed):
        verb.library()
        verb.json()


def run(options: Namespace) -> int:
    if options.verb != "list" and decides_at_server():
        return _decide_at_server(options)
    # To take something out of use is never made harder than it has to be.
    with acting(options, decides=options.verb == "release") as (scope, person):
        return options.do(options, scope, person) or 0


def _decide_at_server(options: Namespace) -> int:
    kind, value = _target(options)
    if options.reason is None:
        raise InvalidArgument("It is not said why.", hint="Add --reason TEXT: others will want to know.")
    path = "/quarantine" if options.verb == "add" else "/quarantine/release"
    found = decide_at_server(path, {"kind": kind, "value": value, "reason": options.reason})
    is_added = options.verb == "add"
    print_result(
        options,
        {"block": found} if is_added else found,
        f"{_describe(kind, value)} is {'in quarantine' if is_added else 'released'} on all nodes of the server.",
    )
    return 0


def _target(options: Namespace) -> tuple[BlockKind, str]:
    from metier.guard.approvals.quarantine import known_target

    if options.digest is not None:
        return "digest", known_target("digest", options.digest)
    if options.source is not None:
        return "source", known_target("source", options.source)
    if options.name is None:
        raise InvalidArgument("It is not said what.", hint="Name a skill, or write --digest DIGEST or --source SOURCE.")
    return "name", known_target("name", options.name)


def _quarantine(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.quarantine import quarantine, usage_of
    from metier.guard.governance import Governance
    from metier.guard.notify import notifying

    kind, value = _target(options)
    if options.reason is None:
        raise InvalidArgument("It is not said why.", hint="Add --reason TEXT: others will want to know.")
    value, is_known = _as_written(options, kind, value)
    with notifying(Governance.default().effective):
        block = quarantine(scope, person, kind, value, reason=options.reason)
    used = usage_of(scope, kind, value)
    is_known = is_known or bool(used) or (kind == "digest" and scope.revisions.get(value) is not None)
    if options.json:
        print_json({"block": block, "known": is_known, "used": used})
        return
    style = Style(sys.stdout)
    print_done(f"{_describe(kind, value)} is in quarantine: nobody may use it, from the next decision on.")
    if not is_known:
        print(style.warn(f"  Nothing with that {kind} was seen here: `metier list --all` shows what there is."))
    _print_usage(style, used)


def _as_written(options: Namespace, kind: BlockKind, value: str) -> tuple[str, bool]:
    """Return the target as the skill that is here is written, and whether one is here."""
    if kind == "digest":
        return value, False  # to look for it would mean to read all skills, while somebody waits for the brake
    known = {entry.name if kind == "name" else entry.source for entry in library_of(options).snapshot.entries}
    alike = [one for one in known if one.casefold() == value.casefold()]
    return (alike[0], True) if value not in known and len(alike) == 1 else (value, value in known)


def _print_usage(style: Style, used: list[SkillUsage]) -> None:
    if not used:
        print("Nobody used it, as far as the audit log says.")
        return
    sessions = plural(len(used), "session")
    print(f"{sessions} used it, since {style.when(min(one.first for one in used))}:")
    rows = [
        (
            *(one.user or "-", one.agent or "-", one.session or "-", f"{one.times:,}"),
            *(style.when(one.first), style.when(one.last)),
        )
        for one in used[:_FEW]
    ]
    print(table(style, ("USER", "AGENT", "SESSION", "TIMES", "FIRST", "LAST"), rows))
    if len(used) > _FEW:
        print(style.dim(f"and {plural(len(used) - _FEW, 'session')} more; --json lists all"))


def _release(options: Namespace, scope: TenantScope, person: Person) -> int:
    from metier.guard.approvals.quarantine import reference_of, release
    from metier.hub.folder_replacement import digest_at

    kind, value = _target(options)
    blocked = [block.value for block in scope.blocks.all() if block.kind == kind]
    if kind == "name" and value not in blocked:
        alike = [name for name in blocked if name.casefold() == value.casefold()]
        value = alike[0] if len(alike) == 1 else value
    was_there = release(scope, person, kind, value, reason=options.reason)
    changed = []
    for one in scope.installs.all():
        is_named = value == {"name": one.skill, "source": one.source, "digest": one.digest}[kind]
        if is_named or kind == "digest":
            there = digest_at(os.path.realpath(one.location))
            if (is_named or there == value) and there not in (None, one.digest):
                changed.append(reference_of(one))
    if options.json:
        print_json({"kind": kind, "value": value, "released": was_there, "changed": changed})
        return 0 if was_there and not changed else 1
    for name in changed:
        # It is found out again at its next use, so nothing is said of its being used.
        print(
            f"The content of {Style.text(name)} is not what was recorded. {restore_or_propose(name)}", file=sys.stderr
        )
    if not was_there and not changed:
        print(
            f"{_describe(kind, value)} was not in quarantine. `metier quarantine list` shows what is.",
            file=sys.stderr,
        )
    if not was_there or changed:
        return 1
    print_done(f"{_describe(kind, value)} may be used again, where policy lets it.")
    return 0


def _list(options: Namespace, scope: TenantScope, person: Person) -> None:
    from metier.guard.approvals.quarantine import CHANGED, quarantined_folders, reference_of, taken_out_at
    from metier.guard.approvals.roles import require_role
    from metier.guard.decision import INTEGRITY

    require_role(person, "viewer", "see what is in quarantine")
    blocks = scope.blocks.all()
    folders = quarantined_folders(scope)
    if options.json:
        print_json({"blocks": blocks, "folders": folders})
        return
    if not blocks and not folders:
        print("Nothing is in quarantine.")
        return
    style = Style(sys.stdout)
    rows: list[tuple[str, ...]] = [(one.kind, one.value, one.by, style.when(one.at), one.reason) for one in blocks]
    rows += [("folder", one.location, INTEGRITY, style.when(taken_out_at(scope, one)), CHANGED) for one in folders]
    print(table(style, ("KIND", "WHAT", "BY", "AT", "WHY"), rows))
    for one in folders:
        print(style.dim(restore_or_propose(reference_of(one))))


def _describe(kind: BlockKind, value: str) -> str:
    return f"The {kind} {Style.text(value)}"
