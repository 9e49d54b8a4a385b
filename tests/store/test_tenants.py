"""Nothing of one tenant is seen or touched by another, by any method that there is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metier.store
from metier._lazy import replace
from metier.errors import FileMissing, InvalidArgument, PersonNotFound
from metier.skill.package import MemoryPackage
from metier.store import (
    Approval,
    ApprovalRequest,
    Delivery,
    Deployment,
    Feedback,
    Install,
    Person,
    Proposal,
    RegistryNamespace,
    RegistryRelease,
    Revision,
    ScanRow,
    Store,
    TenantScope,
    TierRun,
    Webhook,
    revision_files,
)
from metier.store.audit_filters import AuditFilters
from metier.store.audit_log import FIRST, canonical, chain_hash
from metier.store.node_records import NodeChain, SentRecord
from metier.store.nodes import ManagedNode
from metier.store.people import secret_hash
from metier.store.usage import COUNTERS, UsageCounts

FILES: dict[str, tuple[Any, bytes]] = {"SKILL.md": ("file", b"---\nname: x\n---\n")}
DIGEST = MemoryPackage({"SKILL.md": FILES["SKILL.md"][1]}).digest()
LATER = "2999-01-01T00:00:00.000+00:00"
NODE = ManagedNode(id="n-1", name="laptop", person="ada")
CHAIN = NodeChain(node=NODE.id, chain="", epoch=1)
TEXT = canonical({"type": "skill.activated", "session": "n", "seq": 1, "tenant": ""})
SENT = SentRecord(seq=1, text=TEXT, previous=FIRST, hash=chain_hash(FIRST, TEXT))
CHECKPOINT = {"node": CHAIN.node, "chain": CHAIN.chain, "epoch": CHAIN.epoch, "after": 0, "through": 1}


class Played:
    """What one tenant has done, with every method that changes something."""

    def __init__(self, scope: TenantScope) -> None:
        self.scope = scope
        self.request = scope.approvals.request(ApprovalRequest(digest="d", skill="x@y"))
        self.approval = scope.approvals.add(Approval(digest="d", skill="x@y", decided_by="ada"))
        self.proposal = scope.proposals.add(Proposal(skill="x@y"))
        scope.proposals.recommend(self.proposal.id, {"by": "ada"})
        scope.blocks.add("name", "x", reason="r", by="ada")
        scope.installs.put(Install(location="/x", skill="x", digest="d"))
        scope.versions.add("x", "/x", "d", by="ada", reason="r")
        scope.people.add(Person(name="ada", roles=frozenset({"admin"})))
        self.token, self.secret = scope.people.new_token("ada")
        scope.revisions.put(Revision(digest=DIGEST, skill="x", files=revision_files(FILES)), FILES)
        scope.scans.put(ScanRow(digest="d", engine="core"))
        scope.policies.keep("d", "enterprise", "/etc", "text")
        scope.policy_versions.add("version: 1", by="ada")
        scope.audit.append({"type": "skill.activated", "session": "s"})
        scope.audit.append_all(lambda: [{"type": "skill.deactivated", "session": "s"}])
        scope.audit.keep_checkpoint({"seq": 1, "hash": "h", "signed_at": "", "key_id": "k", "signature": "s"})
        scope.feedback.add(Feedback(skill="x@y", helped=True))
        scope.test_results.add(TierRun(digest="d", skill="x@y", tier="form", verdict="passed"))
        scope.namespaces.put(RegistryNamespace(name="acme"))
        scope.releases.put(RegistryRelease(namespace="acme", name="x", version="1", digest=DIGEST))
        for key in ("answered", "refused"):
            scope.idempotency.claim("ada", key)
        scope.deployments.put(Deployment(name="x", namespace="acme", version="1", digest=DIGEST))
        counts = UsageCounts(
            days={("2026-01-01", "x@y", "", ""): [1] * len(COUNTERS)},
            pairs={("2026-01", "x@y", "z@y"): [1]},
            searches={("2026-01-01", "q"): [1]},
        )
        scope.usage.add(counts, after=0, until=2)
        scope.used_once.take("x", expires_at=LATER)
        self.play_node()
        self.play_webhook()

    def play_node(self) -> None:
        nodes = self.scope.nodes
        nodes.add(NODE)
        nodes.begin_anew(NODE)
        self.scope.node_records.accept(replace(NODE, epoch=1), "", [SENT], {"by": "host"})
        nodes.note_seen(NODE.id)
        nodes.put_inventory(NODE.id, self.scope.tenant)
        nodes.set_status(NODE.id, "tampered", self.scope.tenant, at=2)

    def play_webhook(self) -> None:
        # Ids are the same in all tenants, and times and addresses differ.
        webhooks, tenant = self.scope.webhooks, self.scope.tenant
        wanted = Webhook(id="w-1", url=f"https://{tenant}.example/", form="json", events=("quarantine",), secret="s")
        self.webhook = webhooks.add(wanted, {"type": "webhook.added"})
        webhooks.prune(LATER)
        one = Delivery(webhook="w-1", event="quarantine", payload="{}")
        first, _, ended = (webhooks.add_delivery(replace(one, id=f"d-{number}")) for number in "123")
        webhooks.claim(ended, LATER)
        webhooks.finish(replace(ended, attempts=1), status="delivered", response=tenant)
        self.delivery = webhooks.replay(first, tenant)
        webhooks.postpone(self.delivery, f"2999 {tenant}")

    def seen_by(self, scope: TenantScope) -> dict[str, Any]:
        """What a tenant finds, with every method that reads something, by what the first one has."""
        return {
            "approvals.get_request": scope.approvals.get_request(self.request.id),
            "approvals.requests": scope.approvals.requests(),
            "approvals.request_statuses": scope.approvals.request_statuses(""),
            "approvals.get": scope.approvals.get(self.approval.id),
            "approvals.of": scope.approvals.of("d"),
            "approvals.of_skill": scope.approvals.of_skill("x@y", ""),
            "approvals.all": scope.approvals.all(),
            "proposals.get": scope.proposals.get(self.proposal.id),
            "proposals.all": scope.proposals.all(),
            "proposals.statuses": scope.proposals.statuses(""),
            "blocks.all": scope.blocks.all(),
            "installs.get": scope.installs.get("/x"),
            "installs.all": scope.installs.all(),
            "versions.of": scope.versions.of("/x"),
            "people.get": scope.people.get("ada"),
            "people.all": scope.people.all(),
            "people.by_token": scope.people.by_token(self.secret),
            "people.tokens": scope.people.tokens(),
            "people.token_of": scope.people.token_of(Person(name="ada", token=secret_hash(self.secret))),
            "people.is_empty": not scope.people.is_empty,
            "revisions.get": scope.revisions.get(DIGEST),
            "revisions.has": scope.revisions.has(DIGEST),
            "revisions.files": files_of(scope),
            "revisions.file": scope.revisions.file(DIGEST, "SKILL.md"),
            "scans.latest": scope.scans.latest("d"),
            "scans.severities": scope.scans.severities("d"),
            "policies.texts": scope.policies.texts("d"),
            "policy_versions.last": scope.policy_versions.last(),
            "policy_versions.get": scope.policy_versions.get(1),
            "policy_versions.all": scope.policy_versions.all(),
            "audit.last": scope.audit.last(),
            "audit.walk": list(scope.audit.walk()),
            "audit.links": list(scope.audit.links()),
            "audit.family": list(scope.audit.family("node")),
            "audit.matching": list(scope.audit.matching(AuditFilters(session="s"))),
            "audit.tail": scope.audit.tail(9),
            "audit.search": scope.audit.search(session="s"),
            "audit.checkpoints": scope.audit.checkpoints(),
            "audit.has_checkpoint": scope.audit.has_checkpoint(1, "k"),
            "audit_search.newest": list(scope.audit_search.newest(AuditFilters(session="n"))),
            "audit_search.shipped_with": list(scope.audit_search.shipped_with(CHECKPOINT)),
            "feedback.of": scope.feedback.of("x@y"),
            "feedback.totals": scope.feedback.totals("x@y"),
            "test_results.all": scope.test_results.all("d"),
            "test_results.latest": scope.test_results.latest("d"),
            "namespaces.get": scope.namespaces.get("acme"),
            "namespaces.all": scope.namespaces.all(),
            "releases.get": scope.releases.get("acme", "x", "1"),
            "releases.all": scope.releases.all(),
            "releases.changed_since": scope.releases.changed_since(0),
            "releases.last_change": scope.releases.last_change(),
            "deployments.get": scope.deployments.get("x"),
            "deployments.all": scope.deployments.all(),
            "nodes.get": scope.nodes.get(NODE.id),
            "nodes.all": scope.nodes.all(),
            "node_records.last": scope.node_records.last(CHAIN).seq,
            "node_records.chains": scope.node_records.chains(),
            "node_records.walk": list(scope.node_records.walk(CHAIN)),
            "webhooks.get": scope.webhooks.get("w-1"),
            "webhooks.all": scope.webhooks.all(),
            "webhooks.delivery": scope.webhooks.delivery("d-1"),
            "webhooks.deliveries": scope.webhooks.deliveries("w-1", limit=9),
            "webhooks.has_pending": scope.webhooks.has_pending("w-1"),
            "webhooks.next_due": scope.webhooks.next_due("w-1", LATER),
            "used_once.take": not scope.used_once.take("x", expires_at=LATER),
            "usage.cursor": scope.usage.cursor(),
            "usage.records": scope.usage.records(0, 9),
            "usage.totals": list(scope.usage.totals(("skill",), "2026-01-01", "2026-12-31")),
            "usage.pairs": scope.usage.pairs("2026-01-01", "2026-12-31"),
            "usage.searches": scope.usage.searches("2026-01-01", "2026-12-31", 9),
            "state": tuple(getattr(scope.state(), part) for part in ("blocked", "approvals", "installs")),
        }

    def touched_by(self, scope: TenantScope) -> dict[str, bool]:
        """Whether a tenant can change what the first one has."""
        return {
            "approvals.set_request": scope.approvals.set_request(self.request.id, "denied", expected="pending"),
            "approvals.revoke": scope.approvals.revoke(self.approval.id, "eve", "r"),
            "approvals.fell": scope.approvals.fell(self.approval.id, "e"),
            "proposals.amend": scope.proposals.amend(self.proposal.id, justification="j", evidence=["e"]),
            "proposals.recommend": scope.proposals.recommend(self.proposal.id, {"by": "eve"}),
            "proposals.move": scope.proposals.move(self.proposal.id, expected="open", to="applied"),
            "blocks.remove": scope.blocks.remove("name", "x"),
            "installs.remove": scope.installs.remove("/x"),
            "deployments.remove": scope.deployments.remove("x"),
            "idempotency.finish": scope.idempotency.finish("ada", "answered", request="r", status=201, answer=""),
            "idempotency.release": scope.idempotency.release("ada", "refused"),
            "node_records.compare": bool(scope.node_records.compare(replace(NODE, epoch=1), "", [(1, "h")], {})),
            "webhooks.claim": scope.webhooks.claim(self.delivery, LATER) is not None,
            "webhooks.finish": scope.webhooks.finish(replace(self.delivery, attempts=1), status="failed", response=""),
            "webhooks.advance": scope.webhooks.advance(self.webhook, 7),
            "webhooks.change": scope.webhooks.change(self.webhook, {"type": "webhook.changed"}),
            "webhooks.remove": scope.webhooks.remove(self.webhook, {"type": "webhook.removed"}),
            "people.revoke_token": bool(scope.people.revoke_token(self.token.id)),
            "people.remove": scope.people.remove("ada"),
            "usage.fold": scope.usage.fold("2026-06-01"),
        }


ADDING = {
    *("approvals.request", "approvals.add", "proposals.add", "blocks.add", "installs.put", "versions.add"),
    *("people.add", "people.new_token", "people.record_token", "revisions.put", "scans.put", "policies.keep"),
    "policy_versions.add",
    *("audit.append", "audit.append_all", "audit.keep_checkpoint"),
    *("feedback.add", "test_results.add", "usage.add"),
    *("namespaces.put", "releases.put", "deployments.put"),
    "idempotency.claim",
    *("nodes.add", "nodes.begin_anew", "nodes.note_seen", "nodes.put_inventory", "nodes.set_status"),
    "node_records.accept",
    *("webhooks.add", "webhooks.add_delivery", "webhooks.replay", "webhooks.postpone", "webhooks.prune"),
}
"""What `Played` does."""


def files_of(scope: TenantScope) -> object:
    try:
        return scope.revisions.files(DIGEST)
    except FileMissing:
        return None


def nothing(found: object) -> bool:
    return not any(found) if isinstance(found, tuple) else not found


def test_one_tenant_sees_nothing_of_another(store: Store) -> None:
    played = Played(store.of("acme"))
    assert [name for name, found in played.seen_by(store.of("acme")).items() if nothing(found)] == []
    assert [name for name, found in played.seen_by(store.of("")).items() if not nothing(found)] == []
    assert [name for name, found in played.seen_by(store.of("ACME")).items() if not nothing(found)] == []


def test_one_tenant_changes_nothing_of_another(store: Store) -> None:
    played = Played(store.of("acme"))
    before = played.seen_by(store.of("acme"))
    assert not any(played.touched_by(store.of("eve")).values())
    with pytest.raises(PersonNotFound):
        store.of("eve").people.new_token("ada")
    Played(store.of("eve"))
    assert played.seen_by(store.of("acme")) == before
    assert all(played.touched_by(store.of("acme")).values())


def test_every_method_is_played_through_here(store: Store) -> None:
    played = Played(store.of("acme"))
    known = {*ADDING, *played.seen_by(store.of("acme")), *played.touched_by(store.of("acme"))}
    parts = {
        name: type(getattr(store.of("acme"), name))
        for name, value in vars(TenantScope).items()
        if not name.startswith("_") and not inspect.isfunction(value)
    }
    methods = {f"{part}.{name}" for part, kind in parts.items() for name in vars(kind) if not name.startswith("_")}
    assert methods == known - {"state"}


def test_a_token_leads_to_its_tenant(store: Store) -> None:
    played = Played(store.of("acme"))
    found = store.by_token(played.secret)
    assert found is not None
    scope, person = found
    assert (scope.tenant, person.name) == ("acme", "ada")
    assert store.tenants() == ["acme"]


TENANTS = st.text(st.characters(exclude_categories=[]), max_size=20)


@given(TENANTS, TENANTS, st.text(st.characters(exclude_categories=[]), min_size=1, max_size=50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_tenants_are_called_they_stay_apart(store: Store, one: str, other: str, name: str) -> None:
    scope = store.of(one)
    scope.blocks.add("name", name, reason=name, by=name)
    try:
        assert [(block.value, block.reason) for block in scope.blocks.all()] == [(name, name)]
        assert scope.state().blocked == {("name", name)}
        assert bool(store.of(other).blocks.all()) == (one == other)
        assert store.of(other).blocks.remove("name", name) == (one == other)
    finally:
        scope.blocks.remove("name", name)


@pytest.mark.each("tenant", [None, 7, "x" * 201])
def test_what_is_no_tenant_is_refused(store: Store, tenant: Any) -> None:
    with pytest.raises(InvalidArgument):
        store.of(tenant)


def test_a_statement_that_forgets_the_tenant_is_refused(store: Store) -> None:
    rows = store.of("acme")._rows
    forgetful: list[Callable[[], object]] = [
        lambda: rows.statement("SELECT * FROM blocks WHERE kind = ?", "name"),
        lambda: rows.statement("SELECT * FROM blocks"),
        lambda: rows.change("DELETE FROM blocks WHERE kind = ? AND tenant = ?", "name"),
        lambda: rows.change("UPDATE blocks SET reason = ? WHERE kind = ? AND tenant = ?", "name", before=("r",)),
    ]
    for statement in forgetful:
        with pytest.raises(InvalidArgument):
            statement()


def test_no_other_module_asks_the_database_itself() -> None:
    may = {"rows", "all_tenants", "connection_pool", "blobs", "checks", "store"}
    for path in Path(metier.store.__file__).parent.glob("*.py"):
        asking = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute | ast.Name)
            if (node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id).endswith("pool")
        }
        assert path.stem in may or not asking & {"execute", "change", "change_all"}, path.name
