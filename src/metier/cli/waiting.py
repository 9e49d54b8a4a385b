"""`metier waiting`: the pending items of a person, also for programs that notify people."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier.cli.approve import seconds
from metier.cli.exit_codes import APPROVAL, FINE
from metier.cli.identity import acting, has_store
from metier.cli.output import Style, plural, print_json, table
from metier.cli.parser import Parser
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from metier.guard.approvals.pending import PendingItem
    from metier.store import Person, TenantScope

_MAX_CURSOR = 400


def add(parser: Parser) -> None:
    parser.example("metier waiting --json")
    parser.option("--since", "CURSOR", "only what came after the `cursor` of an earlier --json")
    parser.flag("--new", "only what was not told to you with --new before")
    parser.option("--timeout", "TIME", "how long the program of --then may take (default: 30s)")
    parser.tenant()
    parser.json()
    parser.option(
        "--then",
        "PROGRAM",
        "if anything waits, start this program with its arguments, and give it the JSON on its input",
        nargs="...",
        default=[],
    )


def run(options: Namespace) -> int:
    from metier.guard.approvals.pending import items_for
    from metier.guard.approvals.requests import expire_requests, supersede_requests
    from metier.guard.policy.files import Policies

    if options.since is not None and (options.new or options.since.count("/") < 2 or len(options.since) > _MAX_CURSOR):
        raise InvalidArgument("That is no cursor.", hint="Give the `cursor` of an earlier `metier waiting --json`.")
    limit = seconds(options.timeout) or 30.0
    if not has_store():
        return _print_items(options, [], _report([], ""))
    with acting(options) as (scope, person):
        effective = Policies.discover().current()
        expire_requests(scope, effective)
        supersede_requests(scope)
        found = items_for(scope, effective, person)
        told = _ToldBefore(scope, person)
        since = told.cursor if options.new else options.since or ""
        cursor = found[-1].cursor if found else since
        found = [one for one in found if one.cursor > since]
        report = _report(found, max(cursor, since))
        code = _print_items(options, found, report)
        if found and options.then and not _hand_over(options.then, report, limit, scope, person):
            return code  # it is told again the next time
        if options.new:
            told.keep(report["cursor"])
    return code


def _report(found: list[PendingItem], cursor: str) -> dict[str, Any]:
    counts = {kind: sum(one.kind == kind for one in found) for kind in sorted({one.kind for one in found})}
    items = [one.as_dict() for one in found]
    oldest = max((item["age_seconds"] for item in items), default=0)
    return {"waiting": items, "counts": counts, "oldest_seconds": oldest, "cursor": cursor}


def _print_items(options: Namespace, found: list[PendingItem], report: dict[str, Any]) -> int:
    if options.json:
        print_json(report)
    elif not found:
        print("Nothing new waits for you." if options.new or options.since else "Nothing waits for you.")
    else:
        style = Style(sys.stdout)
        rows = [
            (one.kind, one.id, one.skill, one.by, style.when(one.since), "you decide" if one.may_decide else "yours")
            for one in found
        ]
        print(table(style, ("KIND", "ID", "SKILL", "BY", "SINCE", "WHO"), rows))
        print(style.dim(f"{plural(len(found), 'thing')} to look at: `{Style.text(found[0].next)}`"))
    return APPROVAL if found else FINE


def _hand_over(command: list[str], report: dict[str, Any], limit: float, scope: TenantScope, person: Person) -> bool:
    """Start a program with the report as JSON on its input, and return whether it succeeded.

    That it failed is recorded, and changes nothing else.
    """
    from metier.guard.audit.governance_events import actor_of, record_event
    from metier.run.notify_command import run_notify_command

    problem = run_notify_command(command, json.dumps(report).encode(), limit=limit)
    if problem:
        style = Style(sys.stderr)
        name = Style.text(command[0], 200)
        print(f"{style.warn('warning')}: {name} told nobody. {Style.text(problem, 500)}", file=sys.stderr)
        record_event(
            scope, "notification.failed", actor_of(person, scope), reason=f"{command[0][:200]}: {problem[:500]}"
        )
    return not problem


class _ToldBefore:
    """The cursor up to which somebody was told with `--new`, in the user's configuration folder."""

    def __init__(self, scope: TenantScope, person: Person) -> None:
        from pathlib import Path

        from metier.library.places import default_config_folder

        key = "\0".join((scope.store.url, scope.tenant, person.kind, person.name))
        name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
        self._path = Path(default_config_folder(), "waiting", name)

    @property
    def cursor(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            return self._path.read_text(encoding="utf-8")[:_MAX_CURSOR]
        return ""

    def keep(self, cursor: str) -> None:
        with contextlib.suppress(OSError):  # it is told once more
            os.makedirs(self._path.parent, mode=0o700, exist_ok=True)
            self._path.write_text(cursor, encoding="utf-8")
