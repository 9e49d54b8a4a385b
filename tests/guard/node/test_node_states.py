"""The state of a server on its node: what it says counts, and as soon as it cannot be relied on, nothing does."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
from tests.node_server import NodeServer

from metier import Library
from metier.errors import MetierError
from metier.guard import Action, Decision, Guard, MemoryLog
from metier.guard.decision import Subject
from metier.guard.governance import Governance
from metier.guard.node.exchange import NodeExchange
from metier.guard.policy.files import Policies
from metier.library.places import node_folder


def decide(point: str = "load", name: str = "pdf", **more: object) -> Decision:
    skill = Subject(name=name, layer="personal", source="personal")
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies.discover(), store=None))
    return guard.decide(Action(point=point, skill=skill, **more))  # type: ignore[arg-type]


def file(name: str) -> Path:
    return Path(node_folder()) / name


def test_a_skill_that_the_server_has_in_quarantine_is_refused_on_the_node(
    server: NodeServer, exchange: NodeExchange
) -> None:
    exchange.renew()
    assert decide().is_allowed
    server.decide(blocked=[["name", "pdf", "ada"]])
    exchange.renew()
    assert decide().code == "skill-quarantined"
    assert decide(name="csv").is_allowed


def test_a_running_guard_knows_of_a_quarantine_at_its_next_decision(server: NodeServer, exchange: NodeExchange) -> None:
    exchange.renew()
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies.discover(), store=None))
    action = Action(point="load", skill=Subject(name="pdf"))
    version = guard.version
    assert guard.decide(action).is_allowed
    assert guard.version == version
    server.decide(blocked=[["name", "pdf", "ada"]])
    exchange.renew()
    assert guard.decide(action).code == "skill-quarantined"
    assert guard.version > version


def test_the_policy_of_the_server_counts_as_one_of_administrators(server: NodeServer, exchange: NodeExchange) -> None:
    server.change(policies=[{"name": "acme", "text": "skills: {deny: [pdf]}"}])
    exchange.renew()
    decision = decide()
    assert decision.code == "skill-denied"
    assert decision.origin is not None
    assert decision.origin.path == f"{server.url}/policy/acme"
    assert decision.origin.layer == "enterprise"


def test_what_a_file_of_the_machine_says_only_tightens_the_policy_of_the_server(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text("sources: {allow: ['*']}\nskills: {deny: [csv]}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "own.yaml"))
    server.change(policies=[{"name": "acme", "text": "sources: {allow: ['dir:*']}"}])
    exchange.renew()
    assert decide("install", "x", source="git+https://x.test/y").code == "source-denied"
    assert decide("load", "csv").code == "skill-denied"


AUTOMATIC = """\
version: 1
skill-policy:
  require-approval-for: [scripts]
  approval: {auto-approve-when: {scan-max: low}}
"""


def test_what_somebody_took_back_at_the_server_policy_does_not_approve_again_on_the_node(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path
) -> None:
    skill = tmp_path / "skills/deploy"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: deploy\ndescription: Deploys.\n---\nRun it.\n")
    (skill / "scripts/go.py").write_text("print('go')\n")
    library = Library.from_folder(tmp_path / "skills", cache=False)
    digest = library.get("deploy").package.digest()
    server.change(policies=[{"name": "acme", "text": AUTOMATIC}])
    exchange.renew()

    def load() -> str:
        session = library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path)
        try:
            return session.load("deploy").changed[0]
        except MetierError as error:
            return error.code

    server.decide(revoked=[digest])
    exchange.renew()
    assert load() == "approval-needed"
    server.decide(revoked=[])
    exchange.renew()
    assert load() == "deploy"
    server.decide(revoked=[digest])
    exchange.renew()
    assert load() == "approval-needed", "also where policy had approved of it before"


@pytest.mark.each("text", ["notify: {run: [id]}", "store: sqlite:////tmp/x.db", "audit.key: /tmp/key"])
def test_a_key_about_one_machine_does_not_count_in_the_policy_of_a_server(
    server: NodeServer, exchange: NodeExchange, text: str
) -> None:
    server.change(policies=[{"name": "acme", "text": f"version: 1\nskills: {{deny: [csv]}}\n{text}\n"}])
    exchange.renew()
    (file,) = Policies.discover().current().files
    assert sorted(file.settings) == ["skills.deny", "version"]
    assert decide().code == "policy-unreadable", "no server of ours sends such a policy"


@pytest.mark.each(
    ("name", "content"),
    [
        ("state.json", None),
        ("state.json", b""),
        ("state.json", b'{"payload": "{}", "key_id": "x", "signature": ""}'),
        ("binding.json", b""),
        ("binding.json", b"{}"),
    ],
)
def test_nothing_is_allowed_while_a_file_of_the_node_is_missing_or_wrong(
    server: NodeServer, exchange: NodeExchange, name: str, content: bytes | None
) -> None:
    exchange.renew()
    assert decide().is_allowed
    before = file(name).read_bytes()
    file(name).unlink()
    if content is not None:
        file(name).write_bytes(content)
    assert decide().code == "node-state-invalid"
    assert decide("run").code == "node-state-invalid"
    file(name).write_bytes(before)
    assert decide().is_allowed


def test_a_state_that_somebody_else_signed_is_nothing(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path
) -> None:
    exchange.renew()
    (tmp_path / "other").mkdir()
    other = NodeServer(tmp_path / "other")
    try:
        file("state.json").write_text(json.dumps(other.sign(server.state)))
    finally:
        other.close()
    assert decide().code == "node-state-invalid"


def test_an_earlier_state_that_is_brought_back_is_nothing(server: NodeServer, exchange: NodeExchange) -> None:
    exchange.renew()
    before = file("state.json").read_bytes()
    server.decide(blocked=[["name", "pdf", "ada"]])
    exchange.renew()
    file("state.json").write_bytes(before)
    assert decide().code == "node-state-invalid"


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the clock say another time."""
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + seconds)


def test_the_state_holds_for_the_lease_and_then_nothing_is_allowed(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.renew()
    server.close()
    at(monkeypatch, 3_500)
    assert decide().is_allowed
    at(monkeypatch, 3_700 - 3_500)
    assert [decide(point).code for point in ("load", "read", "run", "call", "install")] == ["node-lease-ended"] * 5
    assert decide("discover").is_allowed


def test_a_lease_is_not_prolonged_by_hand(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.renew()
    server.close()
    kept = json.loads(file("lease.json").read_bytes())
    late = time.time() + 4 * 3_600
    monkeypatch.setattr("time.time", lambda: late)
    file("lease.json").write_text(json.dumps({**kept, "received": late, "seen": late}))
    assert decide().code == "node-lease-ended"


def test_policy_may_shorten_the_lease(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.change(policies=[{"name": "acme", "text": "nodes: {lease: 5m}"}])
    exchange.renew()
    at(monkeypatch, 299)
    assert decide().is_allowed
    at(monkeypatch, 2)
    assert decide().code == "node-lease-ended"


def test_a_clock_that_is_set_back_ends_the_lease(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.renew()
    at(monkeypatch, -30)
    assert decide().is_allowed
    at(monkeypatch, -3_600)
    assert decide().code == "node-lease-ended"


def test_a_clock_that_is_set_back_to_the_lease_again_ends_it_in_a_running_process(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.renew()
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies.discover(), store=None))
    action = Action(point="load", skill=Subject(name="pdf"))
    at(monkeypatch, 3_000)
    assert guard.decide(action).is_allowed
    at(monkeypatch, -2_000)
    assert guard.decide(action).code == "node-lease-ended"


@pytest.mark.parametrize(
    ("word", "outcomes"),
    [
        ("deny", ["deny", "deny", "deny", "deny", "deny", "deny"]),
        ("ask", ["ask", "ask", "ask", "ask", "ask", "ask"]),
        ("read-only", ["allow", "allow", "deny", "allow", "deny", "deny"]),
    ],
)
def test_policy_says_what_becomes_of_a_node_after_its_lease(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch, word: str, outcomes: list[str]
) -> None:
    server.change(policies=[{"name": "acme", "text": f"nodes: {{offline: {word}}}\nskills: {{deny: [csv]}}"}])
    exchange.renew()
    at(monkeypatch, 4_000)
    found = [
        decide("load"),
        decide("read"),
        decide("update"),
        decide("call", tool="Read", arguments={"file_path": "a"}),
        decide("call", tool="Write", arguments={"file_path": "a", "content": ""}),
        decide("install"),
    ]
    assert [one.outcome for one in found] == outcomes
    assert decide("load", "csv").outcome == "deny"


def test_a_node_that_the_server_does_not_know_any_more_may_do_nothing(
    server: NodeServer, exchange: NodeExchange
) -> None:
    exchange.renew()
    server.unknown = True
    with pytest.raises(Exception, match="credential"):
        exchange.renew()
    assert decide().code == "node-lease-ended"
    server.unknown = False
    exchange.renew()
    assert decide().is_allowed


def test_a_machine_that_is_no_node_any_more_is_as_before(server: NodeServer, exchange: NodeExchange) -> None:
    server.decide(blocked=[["name", "pdf", "ada"]])
    exchange.renew()
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies.discover(), store=None))
    action = Action(point="load", skill=Subject(name="pdf"))
    assert not guard.decide(action).is_allowed
    os.unlink(file("binding.json"))
    assert guard.decide(action).is_allowed


def test_a_state_that_cannot_be_written_down_ends_the_one_before(
    server: NodeServer, exchange: NodeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.renew()
    server.decide(blocked=[["name", "pdf", "ada"]])

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("metier.guard.node.exchange.write_file", fail)
        with pytest.raises(OSError, match="No space"):
            exchange.renew()
    assert decide(name="csv").code == "node-lease-ended"
    exchange.renew()
    assert decide(name="csv").is_allowed
    assert decide().code == "skill-quarantined"
