"""The content of a server to look at: people of every role, skills in use, and decisions that wait."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import metier.source
from metier._lazy import dataclass
from metier.guard import Actor, Guard
from metier.guard.approvals.people import add_person, make_token
from metier.guard.approvals.quarantine import quarantine
from metier.guard.approvals.requests import request_approval
from metier.guard.governance import Governance
from metier.guard.policy.stored import StoredPolicies
from metier.hub.registry.deployment import deploy_release, location_of_release
from metier.hub.registry.namespaces import put_namespace
from metier.hub.registry.proposals import propose_release
from metier.hub.registry.publication import publish_release, submit_release
from metier.hub.skill_files import capabilities_of, keep_files
from metier.hub.skill_location import subject_in
from metier.library import SkillIndex
from metier.library.places import Place
from metier.skill.package import digest_of_files, files_of
from metier.store import Person
from metier.store.people import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.skill.package import Files
    from metier.store import Store, TenantScope

NAMES = {"admin": "ada", "reviewer": "remy", "author": "andy", "viewer": "vera"}
_NAMESPACE = "team"
_DAYS = 14
_FIRST = "1.0.0"
_OWN = "expense-report"
_OWN_TEXT = """\
---
name: {name}
description: Writes an expense report from receipts. Use when somebody is back from a journey and asks for one.
license: Apache-2.0
metadata:
  version: "{version}"
---
# Expense report

1. List the receipts with date, amount and currency.
2. Convert every amount to euros{rate}.
3. Add the lines up by category, and write the report as a table.
"""
_RATE = " at the rate of the day of the receipt, and name the source of the rate"
_SCRIPT = b'import sys\n\nprint("receipts:", len(sys.argv) - 1)\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPerson:
    """A person of the demo."""

    name: str
    role: str
    token: str


def fill(store: Store, name: str) -> list[DemoPerson]:
    """Fill an empty store; `name` is that of the user of this machine, who is its first admin.

    All of it comes in as it does everywhere, by the functions that decide and record; only the history of two weeks is
    written at once.
    """
    scope = store.of()
    guard = Guard(governance=Governance(StoredPolicies(store, scope.tenant), store=store.url))
    skills = dict(_skills())
    scope.audit.append_all(lambda: list(_history(skills)))
    owner = add_person(scope, Person(name=name, roles=frozenset({"admin"})), name, ["admin"])
    people = {role: add_person(scope, owner, NAMES[role], [role]) for role in reversed(ROLES)}
    _publish(scope, people, skills, guard)
    _let_wait(scope, people, guard)
    return [
        DemoPerson(name=person.name, role=role, token=make_token(scope, owner, person.name, label="demo")[1])
        for role, person in people.items()
    ]


def _skills() -> Iterator[tuple[str, Files]]:
    """The skills that come with Métier, and one of a team."""
    index = SkillIndex([Place(layer="plugin", source=metier.source.package_source("metier", "bundled"))], cache=False)
    for entry in index:
        yield entry.name, files_of(entry.package)
    yield _OWN, _own_skill(_FIRST)


def _own_skill(version: str, *, rate: str = "") -> Files:
    text = _OWN_TEXT.format(name=_OWN, version=version, rate=rate)
    return {"SKILL.md": ("file", text.encode())}


def _publish(scope: TenantScope, people: dict[str, Person], skills: dict[str, Files], guard: Guard) -> None:
    admin = people["admin"]
    criteria = ("It says when to use it.", "It needs no secret.")
    put_namespace(scope, admin, _NAMESPACE, [f"user:{people['author'].name}", "role:reviewer"], criteria)
    for name, files in skills.items():
        release = publish_release(
            scope,
            admin,
            _NAMESPACE,
            files,
            guard=guard,
            reason="It comes with the demo.",
            accept_findings="It was looked at before it became a part of the demo.",
        )
        deploy_release(
            scope,
            admin,
            _NAMESPACE,
            name,
            release.version,
            guard=guard,
            reason="Everybody may use it.",
            accept_findings="It was looked at before it became a part of the demo.",
        )


def _let_wait(scope: TenantScope, people: dict[str, Person], guard: Guard) -> None:
    """Let an approval, a proposal and a submission wait for a decision, and put one skill in quarantine."""
    viewer, author = people["viewer"], people["author"]
    home = location_of_release(_NAMESPACE, _OWN)
    with_script: Files = {**_own_skill("1.1.0"), "scripts/count.py": ("file", _SCRIPT)}
    digest = digest_of_files(with_script)
    keep_files(scope, guard.governance.effective, home.ref, with_script)
    names = capabilities_of(scope.revisions.get(digest))
    request_approval(
        scope,
        subject_in(home, with_script, digest),
        capabilities=names,
        new=names,
        scripts={},
        actor=Actor(user=viewer.name, agent="claude-code"),
        reason="I want to count my receipts with its script.",
    )
    better = _own_skill("1.0.1", rate=_RATE)
    reason, evidence = "Amounts were converted at the rate of today.", ["The report of May was wrong by 31 euros."]
    propose_release(scope, author, _OWN, better, reason, evidence, guard=guard)
    submit_release(scope, author, _NAMESPACE, with_script, guard=guard, reason="With a script that counts receipts.")
    quarantine(scope, people["reviewer"], "name", "crypto-helper", reason="It asked for the keys of a wallet.")


def _history(skills: dict[str, Files]) -> Iterator[dict[str, Any]]:
    """The records of people and their agents of the last two weeks."""
    agents = itertools.cycle(("claude-code", "codex", "cursor"))
    users = itertools.cycle((NAMES["viewer"], NAMES["author"], NAMES["viewer"], NAMES["reviewer"]))
    digests = {name: digest_of_files(files) for name, files in skills.items()}
    now = datetime.now(UTC)
    for day in range(_DAYS, 0, -1):
        for number, name in enumerate(itertools.islice(itertools.cycle(skills), day % 4, day % 4 + 3)):
            moment = now - timedelta(days=day) + timedelta(hours=number)
            session, agent, user = f"demo-{day}-{number}", next(agents), next(users)
            about = {"skill": name, "source": f"registry:{_NAMESPACE}", "layer": "enterprise"}
            about |= {"digest": digests[name], "session": session, "agent": agent, "user": user, "by": "model"}
            is_allowed = (day + number) % 7 != 0
            yield _record(moment, "skill.activated", "load", **about, skills=[f"{name}@registry:{_NAMESPACE}"])
            yield _record(
                moment + timedelta(seconds=20),
                "script.run" if is_allowed else "script.denied",
                "run",
                **about,
                path="scripts/main.py",
                **(_ended(day + number) if is_allowed else _DENIED),
            )
            tokens = {"tokens_in": 2_000 + 100 * day, "tokens_out": 300 + 10 * day, "model": "claude-sonnet-4-5"}
            yield _record(moment + timedelta(seconds=40), "tool.called", "call", **about, tool="Read", **tokens)


_DENIED = {"decision": "deny", "reason": "The policy lets no script of this skill use the network.", "rule": "demo"}


def _ended(number: int) -> dict[str, Any]:
    is_good = number % 5 != 0
    return {"exit_code": 0 if is_good else 1, "success": is_good, "duration_ms": 120.0 + 35 * number}


def _record(moment: datetime, kind: str, event: str, **more: Any) -> dict[str, Any]:
    timestamp = moment.isoformat(timespec="milliseconds")
    plain = {"timestamp": timestamp, "type": kind, "event": event, "decision": "allow", "reason": "Policy allows it."}
    return {**plain, **more}
