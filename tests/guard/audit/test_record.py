"""What an audit record says: what happened, by whom, and no secrets."""

from __future__ import annotations

from typing import Any

import pytest

from metier.guard import Actor, AuditRecord
from metier.guard.audit.governance_events import governance_record
from metier.guard.audit.log import type_of


def record(**values: Any) -> AuditRecord:
    given: dict[str, Any] = {"timestamp": "t", "event": "load", "decision": "allow", "reason": ""}
    return AuditRecord(**{**given, **values})


@pytest.mark.each(
    ("event", "decision", "success", "found"),
    [
        ("load", "allow", True, "skill.activated"),
        ("load", "allow", None, "skill.activated"),
        ("load", "allow", False, "skill.failed"),
        ("load", "ask", False, "skill.asked"),
        ("load", "deny", False, "skill.denied"),
        ("unload", "allow", True, "skill.deactivated"),
        ("call", "allow", False, "tool.called"),
        ("call", "deny", False, "tool.denied"),
        ("call", "ask", False, "tool.asked"),
        ("read", "allow", True, "resource.read"),
        ("read", "deny", False, "resource.denied"),
        ("run", "allow", False, "script.run"),
        ("run", "ask", False, "script.asked"),
        ("hook", "allow", True, "hook.run"),
        ("hook", "deny", False, "hook.denied"),
        ("inject", "allow", True, "inject.run"),
        ("inject", "deny", False, "inject.denied"),
        ("install", "allow", True, "install.done"),
        ("install", "deny", False, "install.denied"),
    ],
)
def test_a_record_is_of_a_type_that_says_what_happened(
    event: str, decision: str, success: bool | None, found: str
) -> None:
    assert type_of(event, decision, success) == found
    assert record(event=event, decision=decision, success=success).type == found


def test_a_type_that_was_given_stays() -> None:
    assert record(type="policy.loaded").type == "policy.loaded"


@pytest.mark.each(
    ("kind", "decision"),
    [
        ("approval.granted", "allow"),
        ("approval.denied", "deny"),
        ("approval.refused", "deny"),
        ("proposal.rejected", "deny"),
        ("proposal.withdrawn", "allow"),
        ("integrity.failed", "deny"),
    ],
)
def test_what_people_do_is_recorded_with_who_they_are(kind: str, decision: str) -> None:
    actor = Actor(user="ada", tenant="acme", environment="test", session="s", agent="clerk", correlation_id="c")
    made = governance_record(kind, actor=actor, skill="pdf@acme", digest="sha256:1", reason="r", request="r-1")
    assert (made.event, made.type, made.decision) == (kind.partition(".")[0], kind, decision)
    assert (made.user, made.tenant, made.environment, made.session, made.agent) == ("ada", "acme", "test", "s", "clerk")
    assert (made.skill, made.digest, made.reason, made.request) == ("pdf@acme", "sha256:1", "r", "r-1")
    assert made.timestamp.endswith("+00:00")


def test_whoever_knows_better_says_what_was_decided() -> None:
    assert governance_record("approval.requested", actor=Actor(), decision="ask").decision == "ask"


def test_what_is_not_known_is_left_out() -> None:
    assert record().as_dict() == {
        "timestamp": "t",
        "event": "load",
        "decision": "allow",
        "type": "skill.activated",
        "duration_ms": 0.0,
    }


@pytest.mark.covers("A-24")
@pytest.mark.each(
    ("field", "value"),
    [
        ("reason", "password: hunter2hunter2"),
        ("command", "curl -H 'Authorization: Bearer hunter2hunter2'"),
        ("correlation_id", "ghp_" + "hunter2" * 4),
        ("notes", ("fine", "token=hunter2hunter2")),
        ("contacts", ("https://me:hunter2hunter2@example.com",)),
        ("active", ("AKIAHUNTER2HUNTER200",)),
        ("secrets", (["token=hunter2hunter2"],)),
    ],
)
def test_no_secret_is_in_what_is_written(field: str, value: Any) -> None:
    made = record(**{field: value, "skill": "keys"})
    for _ in range(2):  # the second time beside texts that are known to hold none
        assert "hunter2" not in made.as_line().decode().lower()
    assert made.as_dict()["skill"] == "keys"
    assert type(made.as_dict()[field]) is type(value)
