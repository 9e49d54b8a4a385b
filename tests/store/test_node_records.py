"""The audit records of nodes in a store, on both databases."""

from __future__ import annotations

import threading

import pytest

from metier.store import Store, TenantScope
from metier.store.audit_log import FIRST, canonical, chain_hash
from metier.store.node_records import ChainReceipt, NodeChain, SentRecord
from metier.store.nodes import ManagedNode

CHAIN = NodeChain(node="n-1", chain="")


def records(count: int, *, tenant: str = "") -> list[SentRecord]:
    found, last = list[SentRecord](), FIRST
    for seq in range(1, count + 1):
        text = canonical({"type": "skill.activated", "skill": "pdf", "seq": seq, "tenant": tenant})
        found.append(SentRecord(seq=seq, text=text, previous=last, hash=chain_hash(last, text)))
        last = found[-1].hash
    return found


@pytest.fixture
def node(scope: TenantScope) -> ManagedNode:
    node = ManagedNode(id="n-1", name="laptop", person="ada")
    scope.nodes.add(node)
    return node


def accept(scope: TenantScope, node: ManagedNode, sent: list[SentRecord]) -> ChainReceipt:
    return scope.node_records.accept(node, "", sent, {"by": "host"})


def test_a_batch_is_kept_with_a_checkpoint_or_not_at_all(scope: TenantScope, node: ManagedNode) -> None:
    sent = records(6)
    assert accept(scope, node, sent[:4]).last.seq == 4
    assert accept(scope, node, sent[5:]).has_gap
    assert scope.node_records.last(CHAIN).seq == 4
    assert [one["through"] for one in scope.audit.family("node")] == [4]


def test_records_come_back_as_they_were_sent(scope: TenantScope, node: ManagedNode) -> None:
    sent = records(3)
    accept(scope, node, sent)
    found = list(scope.node_records.walk(CHAIN))
    assert [(one.seq, one.text, one.previous, one.hash) for one in found] == [
        (one.seq, one.text, one.previous, one.hash) for one in sent
    ]
    assert all(one.is_whole for one in found)


def test_a_batch_that_comes_many_times_at_once_is_kept_once(
    store: Store, scope: TenantScope, node: ManagedNode
) -> None:
    sent, parts = records(40), [10, 20, 30, 40] * 2
    threads = [threading.Thread(target=accept, args=(store.of(scope.tenant), node, sent[:part])) for part in parts]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.hash for one in scope.node_records.walk(CHAIN)] == [one.hash for one in sent]
    assert all(one.is_whole for one in scope.audit.walk())


def test_a_conflict_closes_the_log_for_every_process(store: Store, scope: TenantScope, node: ManagedNode) -> None:
    sent = records(3)
    accept(scope, node, sent)
    other = records(3, tenant="x")
    assert accept(scope, node, other[:1]).conflict == 1
    # Another process still has the node as it was.
    assert accept(store.of(scope.tenant), node, records(4)).conflict == 1
    scope.nodes.begin_anew(scope.nodes.get("n-1") or node)
    fresh = scope.nodes.get("n-1")
    assert fresh is not None
    assert accept(scope, fresh, records(4)).last.seq == 4
    assert scope.node_records.last(CHAIN).seq == 3


def test_another_tenant_has_no_record_of_it(store: Store, scope: TenantScope, node: ManagedNode) -> None:
    accept(scope, node, records(2))
    other = store.of("other")
    assert (other.nodes.all(), other.node_records.chains(), other.node_records.last(CHAIN).seq) == ([], [], 0)
