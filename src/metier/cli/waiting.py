"""`metier waiting`: what waits for somebody, for people and for programs that tell people."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from metier.cli.approve import seconds
from metier.cli.exits import APPROVAL, FINE
from metier.cli.identity import TOKEN, acting, peek_store
from metier.cli.output import Style, plural, print_json, table
from metier.errors import InvalidArgument
from metier.guard.approvals.approving import is_requester, may_decide
from metier.guard.approvals.lapsing import expire, supersede
from metier.guard.approvals.roles import demand, holds
from metier.guard.audit.deeds import actor_of, keep
from metier.guard.policy.files import Policies
from metier.library.trust import default_config_folder
from metier.run.notification import start_notification

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from metier.guard.policy.effective import Effective
    from metier.store import Person, Scope

_MAX_CURSOR = 400
_NOTHING: dict[str, Any] = {"waiting": [], "counts": {}, "oldest_seconds": 0, "cursor": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Something that waits for a decision."""

    kind: Literal["request", "proposal", "quarantine"]
    id: str
    skill: str
    by: str
    since: str
    may_decide: bool
    """Whether this person may decide about it; otherwise they made it."""
    next: str
    """The command that shows it."""

    @property
    def cursor(self) -> str:
        return f"{self.since}/{self.kind}/{self.id}"


def run(options: argparse.Namespace) -> int:
    if options.since is not None and (options.new or options.since.count("/") < 2 or len(options.since) > _MAX_CURSOR):
        raise InvalidArgument("That is no cursor.", hint="Give the `cursor` of an earlier `metier waiting --json`.")
    limit = seconds(options.timeout) or 30.0
    store = peek_store()
    if store is None:
        # Nothing was ever asked for, and to look is no reason to make a store.
        return _tell(options, [], _NOTHING)
    store.close()
    with acting(options) as (scope, person):
        effective = Policies.discover().current()
        expire(scope, effective)
        supersede(scope)
        found = sorted(_waiting(scope, person, effective), key=lambda one: one.cursor)
        told = _ToldBefore(scope, person)
        since = told.cursor if options.new else options.since or ""
        cursor = found[-1].cursor if found else since
        found = [one for one in found if one.cursor > since]
        report = _report(found, max(cursor, since))
        code = _tell(options, found, report)
        if found and options.then and not _hand_over(options.then, report, limit, scope, person):
            return code  # it is told again the next time
        if options.new:
            told.keep(report["cursor"])
    return code


def _waiting(scope: Scope, person: Person, effective: Effective) -> Iterator[Waiting]:
    """All that waits for somebody's decision, or was asked for by them."""
    demand(person, "viewer", "see what waits")
    for one in scope.approvals.requests("pending"):
        decides = may_decide(effective, person, one) is None
        if decides or is_requester(person, one):
            yield Waiting(
                kind="request",
                id=one.id,
                skill=one.skill,
                by=one.requested_by,
                since=one.created_at,
                may_decide=decides,
                next=f"metier approve show {one.id}",
            )
    for proposal in scope.proposals.all("open"):
        decides = person.kind == "user" and holds(person, "reviewer")
        if decides or person.name in (proposal.author, proposal.on_behalf_of):
            yield Waiting(
                kind="proposal",
                id=proposal.id,
                skill=proposal.skill,
                by=proposal.author,
                since=proposal.created_at,
                may_decide=decides,
                next=f"metier propose show {proposal.id}",
            )
    for block in scope.blocks.all():
        decides = person.kind == "user" and holds(person, "admin")
        if decides or block.by == person.name:
            yield Waiting(
                kind="quarantine",
                id=f"{block.kind}:{block.value}",
                skill=block.value,
                by=block.by,
                since=block.at,
                may_decide=decides,
                next="metier quarantine --list",
            )


def _report(found: list[Waiting], cursor: str) -> dict[str, Any]:
    ages = [_age(one) for one in found]
    counts = {kind: sum(one.kind == kind for one in found) for kind in sorted({one.kind for one in found})}
    items = [{**asdict(one), "age_seconds": age} for one, age in zip(found, ages, strict=True)]
    return {"waiting": items, "counts": counts, "oldest_seconds": max(ages, default=0), "cursor": cursor}


def _age(one: Waiting) -> int:
    try:
        return max(0, int(time.time() - datetime.fromisoformat(one.since).timestamp()))
    except ValueError:
        return 0


def _tell(options: argparse.Namespace, found: list[Waiting], report: dict[str, Any]) -> int:
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


def _hand_over(command: list[str], report: dict[str, Any], limit: float, scope: Scope, person: Person) -> bool:
    """Have a program tell somebody, with the report as JSON on its input; whether it did.

    That it failed is recorded, and changes nothing else.
    """
    # The program need not be able to decide.
    environment = {name: value for name, value in os.environ.items() if name != TOKEN}
    problem = start_notification(command, json.dumps(report).encode(), limit=limit, environment=environment)
    if problem:
        style = Style(sys.stderr)
        name = Style.text(command[0], 200)
        print(f"{style.warn('warning')}: {name} told nobody. {Style.text(problem, 500)}", file=sys.stderr)
        keep(scope, "notification.failed", actor_of(person, scope), reason=f"{command[0][:200]}: {problem[:500]}")
    return not problem


class _ToldBefore:
    """The cursor up to which somebody was told with `--new`, in the user's configuration folder."""

    def __init__(self, scope: Scope, person: Person) -> None:
        key = "\0".join((scope.store.url, scope.tenant, person.kind, person.name))
        name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
        self._path = default_config_folder() / "waiting" / name

    @property
    def cursor(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            return self._path.read_text(encoding="utf-8")[:_MAX_CURSOR]
        return ""

    def keep(self, cursor: str) -> None:
        with contextlib.suppress(OSError):  # it is told once more
            os.makedirs(self._path.parent, mode=0o700, exist_ok=True)
            self._path.write_text(cursor, encoding="utf-8")
