"""What is written for other clients, where nothing of ours decides any more: only what every session may load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Guard, Library
from metier.guard import MemoryLog
from metier.guard.approvals.decisions import deny, grant, revoke
from metier.guard.governance import Governance
from metier.hub import Step, sync_to
from metier.store import Person, TenantScope

Put = Callable[..., Path]
Write = Callable[[str], Path]
Syncing = Callable[..., dict[str, Step]]

GRACE = Person(name="grace", roles=frozenset({"admin"}))
SCRIPT = {"scripts/x.py": "print('hello')\n"}
ASKS = "version: 1\nskill-policy: {require-approval-for: [scripts], approval: {approvers: ['user:grace']}}\n"


@pytest.fixture
def out(own_home: Path) -> Path:
    """The folder of another client."""
    return own_home / "other" / "skills"


@pytest.fixture
def synced(library: Callable[..., Library], log: MemoryLog, out: Path) -> Syncing:
    """Syncs all skills, and tells what became of each."""

    def sync(*, dry_run: bool = False, **caller: str) -> dict[str, Step]:
        done = sync_to(library().as_caller(**caller), out, guard=Guard(audit=log), dry_run=dry_run)
        return {step.skill: step for step in done.steps}

    return sync


def test_what_waits_for_an_approval_is_left_out_and_asked_for(
    put: Put, enterprise: Write, synced: Syncing, scope: TenantScope, out: Path, log: MemoryLog
) -> None:
    enterprise(ASKS)
    put("personal", "peek", **SCRIPT)
    assert synced(dry_run=True)["peek"].done == "left out"
    assert scope.approvals.requests() == []
    step = synced()["peek"]
    (request,) = scope.approvals.requests("pending")
    assert (step.done, request.id in step.hint, (out / "peek").exists()) == ("left out", True, False)
    assert "needs an approval" in step.reason
    assert log.records == []
    grant(scope, Governance.default().effective, GRACE, request.id)
    assert synced()["peek"].done == "added"
    assert (out / "peek/scripts/x.py").exists()


def test_what_somebody_decided_against_goes_from_where_it_was_written(
    put: Put, enterprise: Write, synced: Syncing, scope: TenantScope, out: Path
) -> None:
    put("personal", "peek", **SCRIPT)
    assert synced()["peek"].done == "added"
    enterprise(ASKS)
    assert synced()["peek"].done == "removed"
    (request,) = scope.approvals.requests("pending")
    deny(scope, Governance.default().effective, GRACE, request.id, reason="Malware.")
    step = synced()["peek"]
    assert (step.done, (out / "peek").exists()) == ("left out", False)
    assert "grace decided against" in step.reason


def test_an_approval_counts_in_its_environment_alone(
    put: Put, enterprise: Write, synced: Syncing, scope: TenantScope
) -> None:
    enterprise(ASKS)
    put("personal", "peek", **SCRIPT)
    synced(environment="dev")
    (request,) = scope.approvals.requests("pending")
    assert request.environment == "dev"
    grant(scope, Governance.default().effective, GRACE, request.id)
    assert synced(environment="dev")["peek"].done == "added"
    assert synced(environment="prod")["peek"].done == "removed"


def test_what_policy_approves_by_itself_is_written_until_somebody_takes_it_back(
    put: Put, enterprise: Write, synced: Syncing, scope: TenantScope
) -> None:
    enterprise(ASKS.replace("['user:grace']", "['user:grace'], auto-approve-when: {scan-max: high}"))
    put("personal", "peek", **SCRIPT)
    assert synced()["peek"].done == "added"
    (given,) = scope.approvals.all()
    assert given.decided_by == "policy"
    revoke(scope, Governance.default().effective, GRACE, given.id, reason="No.")
    assert synced()["peek"].done == "removed"


@pytest.mark.parametrize("trigger", ["", "trigger: model, ", "trigger: user, "])
def test_what_a_rule_lets_nobody_activate_is_left_out(
    put: Put, enterprise: Write, synced: Syncing, trigger: str
) -> None:
    when = f"when: {{{trigger}capability: scripts}}"
    enterprise(f"version: 1\nrules:\n  - {{id: R5, point: activate, {when}, effect: deny}}\n")
    put("personal", "peek", **SCRIPT)
    put("personal", "plain")
    done = synced()
    assert (done["peek"].done, done["plain"].done) == ("left out", "added")
    assert "R5" in done["peek"].reason


@pytest.mark.parametrize("only", ["tenant: acme", "environment: prod", "agent: builder"])
def test_rules_count_for_whom_skills_are_written(put: Put, enterprise: Write, synced: Syncing, only: str) -> None:
    enterprise(f"version: 1\nrules:\n  - {{id: R5, point: activate, {only}, effect: deny}}\n")
    put("personal", "plain")
    key, _, value = only.partition(": ")
    assert synced(**{key: value})["plain"].done == "left out"
    assert synced()["plain"].done == "added"


@pytest.mark.parametrize(
    ("mode", "reason"), [("manual", "leaves it to people"), ("name-only", "no more than its name")]
)
def test_what_models_are_not_to_know_all_of_is_left_out(
    put: Put, enterprise: Write, synced: Syncing, out: Path, mode: str, reason: str
) -> None:
    put("personal", "shy")
    assert synced()["shy"].done == "added"
    enterprise(f"version: 1\nskills: {{listing: {{shy: {mode}}}}}\n")
    step = synced()["shy"]
    assert (step.done, (out / "shy").exists()) == ("removed", False)
    assert reason in step.reason
    enterprise(f"version: 1\nmode: audit\nskills: {{listing: {{shy: {mode}}}}}\n")
    assert synced()["shy"].done == "added"


def test_for_whom_a_skill_says_itself_that_it_is_keeps_it_from_no_client(put: Put, synced: Syncing, out: Path) -> None:
    put("personal", "typed", more="disable-model-invocation: true\n")
    put("personal", "loaded", more="user-invocable: false\n")
    assert {step.done for step in synced().values()} == {"added"}
    assert "disable-model-invocation: true" in (out / "typed/SKILL.md").read_text()


def test_a_name_that_another_layer_has_counts_and_a_copy_is_no_other(
    put: Put, enterprise: Write, library: Callable[..., Library], own_home: Path, log: MemoryLog
) -> None:
    rule = "{id: R4, point: activate, when: {name-collides-with: project}, effect: deny}"
    enterprise(f"version: 1\nrules:\n  - {rule}\n")
    put("personal", "law")
    put("personal", "memo")
    put("personal", "l\u0430w")
    put("project", "law")
    project = own_home / "skills" / "project"
    for expected in ("added", "unchanged"):
        done = {step.skill: step.done for step in sync_to(library(), project, guard=Guard(audit=log)).steps}
        assert done["memo"] == expected
    elsewhere = sync_to(library(), own_home / "elsewhere", guard=Guard(audit=log))
    assert {step.skill: step.done for step in elsewhere.steps} == {
        "law": "left out",
        "l\u0430w": "left out",
        "memo": "added",
    }
