"""An approval counts only with its record: at every decision, whoever wrote the row."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from metier import Guard
from metier.errors import IntegrityFailed
from metier.guard import Action, Actor, MemoryLog, Subject
from metier.guard.approvals.decisions import grant
from metier.guard.approvals.requests import request_approval
from metier.guard.audit.governance_events import record_event
from metier.guard.governance import Governance
from metier.guard.open_stores import persist_decisions
from metier.guard.policy.files import Policies
from metier.library import Place, SkillIndex
from metier.session.active_skills import subject_of
from metier.source import FolderSource
from metier.store import Approval, Person, Store, TenantScope

ADA = Person(name="ada", roles=frozenset({"admin"}))
POLICY = "version: 1\nskill-policy:\n  require-approval-for: [scripts]\n"


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    skill = tmp_path / "skills" / "totals"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: totals\ndescription: Adds up.\n---\nRun scripts/total.py.\n")
    (skill / "scripts" / "total.py").write_text("print(1)\n")
    library = SkillIndex([Place(layer="project", source=FolderSource(skill.parent, name="project"))], cache=False)
    entry = library.get("totals")
    return subject_of(entry, library.digest(entry))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store/metier.db"


def outcome(url: str, subject: Subject) -> str:
    governance = Governance(Policies(texts=[("enterprise", POLICY)]), store=url)
    guard = Guard(audit=MemoryLog(), governance=governance)
    action = Action(point="run", skill=subject, path="scripts/total.py", command="python3 total.py")
    return guard.decide(action, Actor(user="sam")).outcome


def granted(scope: TenantScope, subject: Subject) -> Approval:
    asked = request_approval(scope, subject, capabilities=["scripts"], new=[], scripts={}, actor=Actor(user="sam"))
    return grant(scope, Policies(texts=[("enterprise", POLICY)]).current(), ADA, asked.id)


def by_hand(url: str, *statements: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.covers("SEC-18")
def test_an_approval_that_was_put_into_the_table_approves_of_nothing(url: str, subject: Subject) -> None:
    with Store.open(url) as store:
        given = granted(store.of(), subject)
        assert outcome(url, subject) == "allow"
        store.of().approvals.revoke(given.id, "ada", "No longer.")
        assert outcome(url, subject) == "ask"
    by_hand(
        url,
        "INSERT INTO approvals SELECT * FROM (SELECT * FROM approvals) WHERE 0",
        "CREATE TEMP TABLE copied AS SELECT * FROM approvals",
        "UPDATE copied SET id = 'a-evil', revoked_at = '', revoked_by = '', expires_at = ''",
        "INSERT INTO approvals SELECT * FROM copied",
        "UPDATE generations SET number = number + 1",
    )
    assert outcome(url, subject) == "ask"
    with Store.open(url) as store:
        assert [one.id for one in store.of().approvals.all()] == [given.id]


@pytest.mark.covers("SEC-18")
@pytest.mark.parametrize(
    "change",
    ["tools = '[\"Bash\"]'", "expires_at = '2999-01-01'", "decided_by = 'bob'", "skill = 'other@x'", "reason = 'x'"],
)
def test_an_approval_that_was_changed_in_the_table_is_none(url: str, subject: Subject, change: str) -> None:
    with Store.open(url) as store:
        granted(store.of(), subject)
    assert outcome(url, subject) == "allow"
    by_hand(url, f"UPDATE approvals SET {change}", "UPDATE generations SET number = number + 1")
    assert outcome(url, subject) == "ask"


@pytest.mark.covers("SEC-6")
def test_nothing_can_be_approved_behind_a_record_that_is_not_as_it_was_written(url: str, subject: Subject) -> None:
    with Store.open(url) as store:
        for _ in range(3):
            store.of().audit.append({"type": "tool.called", "decision": "allow"})
    by_hand(url, "DROP TRIGGER audit_log_no_update", "UPDATE audit_log SET data_json = '{}' WHERE seq = 2")
    with Store.open(url) as store, pytest.raises(IntegrityFailed, match="from record 2 on") as caught:
        granted(store.of(), subject)
    assert "metier audit verify" in caught.value.hint
    assert outcome(url, subject) == "ask"


@pytest.mark.covers("SEC-6")
def test_a_search_does_not_show_rows_that_contradict_themselves(url: str) -> None:
    with Store.open(url) as store:
        store.of().audit.append({"type": "tool.called", "decision": "allow"})
    forged = json.dumps({"seq": -5, "tenant": "", "type": "approval.granted", "decision": "allow"})
    by_hand(
        url,
        "DROP TRIGGER audit_log_in_order",
        "PRAGMA ignore_check_constraints = ON",
        f"INSERT INTO audit_log (tenant, seq, event_type, data_json) VALUES ('', -5, 'approval.granted', '{forged}')",
        f"INSERT INTO audit_log (tenant, seq, event_type, data_json) VALUES ('', 9, 'approval.granted', '{forged}')",
    )
    with Store.open(url) as store:
        assert store.of().audit.search(type="approval") == []
        assert [record["type"] for record in store.of().audit.tail(10)] == ["tool.called"]


def test_what_was_verified_is_not_verified_again_by_the_next_process(url: str, subject: Subject) -> None:
    with persist_decisions(Store.open(url)) as store:
        scope = store.of()
        with scope.transaction():
            for _ in range(600):
                scope.audit.append({"type": "tool.called", "decision": "allow"})
        given = granted(scope, subject)
        assert scope.recorded_decisions().seq == 602
        folder = Path(store.decision_reader.folder or "")
    (kept,) = folder.glob("*.decisions")
    assert json.loads(kept.read_bytes())["granted"].keys() == {given.id}
    with persist_decisions(Store.open(url)) as store:
        assert [one.id for one in store.of().approvals.all()] == [given.id]
    kept.write_bytes(b"{")
    with persist_decisions(Store.open(url)) as store:
        assert [one.id for one in store.of().approvals.all()] == [given.id]


def test_what_was_verified_of_another_trail_does_not_count(url: str, subject: Subject) -> None:
    with persist_decisions(Store.open(url)) as store:
        with store.of().transaction():
            for _ in range(600):
                store.of().audit.append({"type": "tool.called", "decision": "allow"})
        granted(store.of(), subject)
        store.of().recorded_decisions()
    Path(url.removeprefix("sqlite:///")).unlink()
    with persist_decisions(Store.open(url)) as store:
        assert store.of().recorded_decisions().granted == {}


@pytest.mark.parametrize("own", ["call.allowed", "skill.activated", "approval.requested", "", ["token.made"]])
def test_a_record_decides_by_its_own_type_and_not_by_one_inside_of_a_field(url: str, own: object) -> None:
    with Store.open(url) as store:
        scope = store.of()
        scope.people.add(ADA)
        record_event(scope, "skill.quarantined", Actor(user="ada"), notes=("digest d1",), reason="It leaks.")
        fields = {"reason": "user ada", "notes": ["digest d1"], "approval": "a-1", "terms": "t"}
        for inner in ("token.made", "approval.granted", "person.removed", "skill.released"):
            scope.audit.append({**fields, "event": "call", "type": own, "extra": {**fields, "type": inner}})
        decisions = scope.recorded_decisions()
        assert scope.people.all() == [ADA]
        assert decisions.blocked == {"digest d1": "It leaks."}
        assert not decisions.granted
        assert not decisions.against
        assert not decisions.tokens
