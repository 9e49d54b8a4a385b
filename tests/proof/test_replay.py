"""Recorded sessions are decided again exactly, or it is said why they cannot be."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.proof.recorded_sessions import ADMIN, AUTOMATIC, IN_FORCE, STRICTER, TOOLS, record_sessions, write_skills

from metier import Guard, Library, Policy, Session
from metier.errors import IntegrityFailed, InvalidArgument, Refused
from metier.guard import FileLog
from metier.guard.approvals.quarantine import quarantine, release
from metier.guard.policy.files import Policies
from metier.proof import Replay, ReplayReport, log_of_file, log_of_store
from metier.proof.recorded_skills import read_contents
from metier.proof.replay import UNCLEAR, ReplayedDecision
from metier.store import Store, TenantScope
from metier.store.audit_log import canonical

Write = Callable[[str], Path]


@pytest.fixture
def scope() -> Iterator[TenantScope]:
    with Store.open() as store:
        yield store.of()


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the policy in force."""

    def write(text: str) -> Path:
        file = tmp_path / "policy.yaml"
        file.write_text(text)
        monkeypatch.setenv("METIER_POLICY", str(file))
        return file

    return write


@pytest.fixture
def library(own_home: Path) -> Library:
    return write_skills(own_home)


def replayed(library: Library, scope: TenantScope, **options: Any) -> list[ReplayedDecision]:
    return list(Replay(library, scope, **options).run(log_of_store(scope).records))


def decided(scope: TenantScope) -> list[dict[str, Any]]:
    points = ("load", "call", "read", "run", "hook", "inject")
    records = (row.record or {} for row in scope.audit.walk())
    return [record for record in records if record.get("session") and record["event"] in points]


def call(session: Session, tool: str, **arguments: object) -> None:
    asyncio.run(session.executor(TOOLS).execute(tool, arguments))


@pytest.mark.parametrize(
    ("text", "count", "seed"),
    [
        pytest.param(IN_FORCE, 200, 1, id="asked", marks=pytest.mark.slow),
        pytest.param(AUTOMATIC, 40, 4, id="automatic"),
    ],
)
def test_recorded_sessions_are_decided_as_they_were(
    text: str, count: int, seed: int, library: Library, scope: TenantScope, tmp_path: Path, policy: Write
) -> None:
    policy(text)
    ids = record_sessions(library, tmp_path / "work", count, scope=scope, seed=seed)
    before = scope.audit.last()
    found = replayed(library, scope)
    assert [one for one in found if one.status != "equal"] == []
    assert len(found) == len(decided(scope)) > 3 * count
    assert {one.session for one in found} >= {one["session"] for one in decided(scope)} & set(ids)
    kinds = {(one.point, one.then.outcome, one.then.code) for one in found}
    assert {("load", "deny", "skill-quarantined"), ("load", "ask", "approval-needed"), ("load", "allow", "")} < kinds
    assert {point for point, _, _ in kinds} == {"load", "call", "read", "run"}
    assert scope.audit.last() == before


def test_a_stricter_policy_is_answered_as_a_real_session_under_it_is(
    library: Library, tmp_path: Path, policy: Write, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(IN_FORCE)
    record_sessions(library, tmp_path / "work", 30)
    with Store.open() as store:
        stricter = tmp_path / "stricter.yaml"
        stricter.write_text(STRICTER)
        found = replayed(library, store.of(), policies=Policies([("enterprise", stricter)]))
    monkeypatch.setenv("METIER_POLICY", str(stricter))
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/other/metier.db")
    record_sessions(library, tmp_path / "work", 30)
    with Store.open() as store:
        real = decided(store.of())
    assert [(one.point, one.now.outcome, one.now.rule, one.now.code) for one in found if one.now] == [
        (one["event"], one["decision"], one["rule"], one.get("code", "")) for one in real
    ]
    changed = {(one.point, one.then.outcome, one.now.outcome) for one in found if one.status == "changed" and one.now}
    assert changed == {("call", "allow", "deny"), ("call", "allow", "ask"), ("read", "allow", "deny")}
    assert not any(one.codes for one in found)
    report = ReplayReport()
    for one in found:
        report.add(one)
    assert set(report.by_rule) == {
        *(f"tools: deny {rule} ({stricter}:3 (enterprise))" for rule in ("Bash(git push:*)", "Write(*.env)")),
        f"tools: ask Edit ({stricter}:3 (enterprise))",
        f"rule R2 ({stricter}:6 (enterprise))",
    }


def test_a_policy_that_only_watches_names_what_it_would_refuse(
    library: Library, scope: TenantScope, tmp_path: Path
) -> None:
    with library.session(workspace=tmp_path, guard=Guard()) as session:
        call(session, "Read", file_path="a.md")
        call(session, "Edit", file_path="a.md", old_string="a", new_string="b")
    watching = Policies(texts=[("enterprise", "version: 1\nmode: audit\ntools: {deny: [Edit]}")])
    found = replayed(library, scope, policies=watching)
    assert [(str(one.now), one.status) for one in found] == [("allow", "equal"), ("allow (would deny)", "changed")]


def test_another_content_of_a_skill_is_decided_about_in_its_place(
    library: Library, scope: TenantScope, tmp_path: Path
) -> None:
    with library.session(workspace=tmp_path, guard=Guard(), skills=["reader"]) as session:
        call(session, "Write", file_path="a.md", content="x")
        call(session, "Read", file_path="a.md")
    other = tmp_path / "other" / "reader"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: reader\ndescription: Reads.\nallowed-tools: Write\n---\nRead.\n")
    instead = read_contents([str(other)], library, [scope])
    found = replayed(library, scope, instead=instead)
    assert [(one.what.partition(" ")[0], one.status) for one in found] == [
        ("", "equal"),
        ("Write", "changed"),
        ("Read", "changed"),
    ]
    with pytest.raises(InvalidArgument, match="is no content of a skill"):
        read_contents(["reader"], library, [scope])


def test_a_content_that_changed_is_found_in_the_store_by_its_digest(
    library: Library, scope: TenantScope, tmp_path: Path, policy: Write, own_home: Path
) -> None:
    policy("version: 1\nskill-policy: {require-approval-for: [scripts]}")
    with library.session(workspace=tmp_path, guard=Guard()) as session, pytest.raises(Refused):
        session.load("counter")  # the request for an approval keeps the content
    file = own_home / "skills" / "personal" / "counter" / "SKILL.md"
    digest = decided(scope)[0]["digest"]
    file.write_text("---\nname: counter\ndescription: Other.\n---\nDo.\n")
    library.refresh()
    assert [one.status for one in replayed(library, scope)] == ["equal"]
    assert read_contents([f"counter@{digest[7:17]}"], library, [scope])["counter"]["SKILL.md"][1] != file.read_bytes()


def test_a_content_that_nobody_kept_is_said_to_be_gone(
    library: Library, scope: TenantScope, tmp_path: Path, own_home: Path
) -> None:
    with library.session(workspace=tmp_path, guard=Guard(), skills=["reader"]) as session:
        call(session, "Write", file_path="a.md", content="x")
    (own_home / "skills" / "project" / "reader" / "SKILL.md").write_text("---\nname: reader\ndescription: O.\n---\nO.")
    library.refresh()
    assert [(one.status, one.codes) for one in replayed(library, scope)] == [("unclear", ("content-gone",))] * 2


UNKNOWN: tuple[tuple[dict[str, object], str], ...] = (
    ({"command": "curl -H 'Authorization: Bearer abcdefghijklmnop' example.com"}, "arguments-redacted"),
    ({"command": "echo " + "x" * 3_000}, "arguments-shortened"),
    ({"command": "ls", "data": b"bytes"}, "arguments-not-json"),
)


@pytest.mark.each(("arguments", "code"), UNKNOWN)
def test_arguments_that_are_not_whole_are_never_counted_as_equal(
    arguments: dict[str, object], code: str, library: Library, tmp_path: Path, own_home: Path
) -> None:
    with Store.open(f"sqlite:///{own_home}/{code}.db") as store:
        session = library.session(workspace=tmp_path, guard=Guard(governance=_governance(store)))
        session.calls.admit("Bash", arguments).record(_done())
        assert [(one.status, one.codes) for one in replayed(library, store.of())] == [("unclear", (code,))]


def _governance(store: Store) -> Any:
    from metier.guard.governance import Governance

    return Governance(store=store.url)


def _done() -> Any:
    from metier.tools import ToolResult

    return ToolResult(success=True)


def test_policy_keeps_arguments_whole_for_replays(
    library: Library, scope: TenantScope, tmp_path: Path, policy: Write
) -> None:
    policy("version: 1\naudit: {max-arguments: 65536}")
    with library.session(workspace=tmp_path, guard=Guard()) as session:
        call(session, "Write", file_path="a.md", content="x" * 60_000)
    assert [one.status for one in replayed(library, scope)] == ["equal"]


def test_an_answer_of_somebody_is_not_replayed(library: Library, scope: TenantScope, tmp_path: Path) -> None:
    for answer in (True, False):
        guard = Guard(Policy(ask="Edit"), approve=lambda *_, answer=answer: answer)
        with library.session(workspace=tmp_path, guard=guard) as session:
            call(session, "Edit", file_path="a.md", old_string="a", new_string="b")
    found = replayed(library, scope)
    assert [(one.then.outcome, one.status, one.codes) for one in found] == [
        ("allow", "unclear", ("answered",)),
        ("deny", "unclear", ("answered",)),
    ]


def test_a_refusal_of_another_part_than_the_guard_is_not_replayed(
    library: Library, scope: TenantScope, tmp_path: Path
) -> None:
    session = library.session(workspace=tmp_path, guard=Guard())
    session.close()
    session.calls.admit("Read", {"file_path": "a"}).record(_done())
    (found,) = replayed(library, scope)
    assert (found.then.rule, found.codes) == ("closed session", ("not-by-guard",))


def test_a_workspace_that_is_gone_is_said(library: Library, scope: TenantScope, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with library.session(workspace=tmp_path / "work", guard=Guard()) as session:
        call(session, "Read", file_path="a.md")
    (tmp_path / "work").rmdir()
    assert [one.codes for one in replayed(library, scope)] == [("workspace-gone",)]


def test_the_policy_of_a_program_counts_as_it_was(library: Library, scope: TenantScope, tmp_path: Path) -> None:
    guard = Guard(Policy(deny="WebFetch"))
    with library.session(workspace=tmp_path, guard=guard) as session:
        call(session, "Read", file_path="a.md")
        call(session, "WebFetch", url="https://example.com")
        guard.policy = Policy()
        call(session, "WebFetch", url="https://example.com")
    found = replayed(library, scope)
    assert [(one.now.outcome, one.status) for one in found if one.now] == [
        ("allow", "equal"),
        ("deny", "equal"),
        ("allow", "equal"),
    ]


def test_a_record_that_was_changed_is_refused(library: Library, scope: TenantScope, tmp_path: Path) -> None:
    with library.session(workspace=tmp_path, guard=Guard()) as session:
        call(session, "Bash", command="ls")
        call(session, "Bash", command="rm -rf /")
    pool = scope.store.pool
    with pool.transaction():
        for (name,) in pool.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'", []):
            pool.change(f"DROP TRIGGER {name}", [])
        text = next(row.text for row in scope.audit.walk() if "rm -rf" in row.text)
        pool.change(
            "UPDATE audit_log SET data_json = ? WHERE data_json = ?", [text.replace("rm -rf /", "echo hello"), text]
        )
    with pytest.raises(IntegrityFailed, match="not as they were written"):
        log_of_store(scope)


def test_records_of_a_file_are_replayed_and_an_export_is_verified(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    with library.session(workspace=tmp_path, guard=Guard(audit=FileLog(file)), skills=["reader"]) as session:
        call(session, "Write", file_path="a.md", content="x")
    log = log_of_file(file)
    assert [one.status for one in Replay(library).run(log.records)] == ["equal", "equal"]
    assert (log.total, log.is_verified) == (3, False)
    lines = [json.loads(line) | {"hash": "0" * 64, "prev_hash": "0" * 64} for line in file.read_text().splitlines()]
    file.write_text("".join(f"{canonical(line)}\n" for line in lines))
    with pytest.raises(IntegrityFailed):
        log_of_file(file)
    file.write_text("no record\n")
    with pytest.raises(InvalidArgument, match="Line 1 of"):
        list(log_of_file(file).records)


def test_without_the_store_nobody_can_tell_what_was_in_quarantine(
    library: Library, scope: TenantScope, tmp_path: Path
) -> None:
    file = tmp_path / "records.jsonl"
    quarantine(scope, ADMIN, "name", "plain", reason="It is odd.")
    with library.session(workspace=tmp_path, guard=Guard(audit=FileLog(file))) as session, pytest.raises(Refused):
        session.load("plain")
    (found,) = Replay(library).run(log_of_file(file).records)
    assert (found.then.code, found.codes) == ("skill-quarantined", ("state-unknown",))


HOSTILE: tuple[dict[str, object], ...] = (
    {"event": "call", "session": "s", "decision": "allow", "arguments": "[" * 5_000, "basis": ["program none"]},
    {"event": "call", "session": "s", "decision": "allow", "arguments": "{}", "basis": "program none", "skills": 7},
    {"event": "load", "session": "s", "skill": "x", "digest": "sha256:..", "timestamp": "yesterday", "basis": [[]]},
    {"event": "load", "session": "s", "skill": "x", "digest": "sha256:" + "0" * 64, "layer": "moon", "basis": []},
    {"event": "run", "session": "s", "by": "nobody", "basis": ["program sha256:0"], "duration_ms": "long"},
)


@pytest.mark.each("record", HOSTILE)
def test_a_strange_record_is_unclear_and_nothing_else(record: dict[str, object], library: Library) -> None:
    logging.getLogger("metier").propagate = False
    (found,) = Replay(library).run([(1, record)])
    assert found.status == "unclear"
    assert set(found.codes) <= UNCLEAR.keys()


def test_a_tenant_has_the_quarantines_of_the_whole_installation(
    library: Library, scope: TenantScope, tmp_path: Path
) -> None:
    ours = library.as_caller(tenant="acme")
    quarantine(scope, ADMIN, "name", "plain", reason="It is odd.")
    with ours.session(workspace=tmp_path, guard=Guard()) as session, pytest.raises(Refused):
        session.load("plain")
    release(scope, ADMIN, "name", "plain", reason="It is fine.")
    with ours.session(workspace=tmp_path, guard=Guard()) as session:
        session.load("plain")
    found = replayed(ours, scope.store.of("acme"))
    assert [(one.then.outcome, one.status) for one in found] == [("deny", "equal"), ("allow", "equal")]
