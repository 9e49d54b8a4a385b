"""Searches through the audit log and the records of nodes, on both databases."""

from __future__ import annotations

from typing import Any

from metier.store import Store, TenantScope
from metier.store.audit_filters import AuditFilters
from metier.store.audit_log import ChainPosition, chain_hash
from metier.store.audit_search import AuditPlace
from metier.store.canonical_json import serialize
from metier.store.node_records import NodeChain, SentRecord
from metier.store.nodes import ManagedNode


def record(minute: int, **more: Any) -> dict[str, Any]:
    return {"type": "skill.activated", "timestamp": f"2026-01-01T10:{minute:02}:00.000+00:00", "minute": minute, **more}


def ship(scope: TenantScope, node: str, *records: dict[str, Any], chain: str = "") -> None:
    """Let a node ship its first records."""
    if scope.nodes.get(node) is None:
        scope.nodes.add(ManagedNode(id=node, name=node, person="ada"))
    last, sent = scope.node_records.last(NodeChain(node=node, chain=chain)), list[SentRecord]()
    for content in records:
        text = serialize({**content, "seq": last.seq + 1, "tenant": chain}) or ""
        sent.append(SentRecord(seq=last.seq + 1, text=text, previous=last.hash, hash=chain_hash(last.hash, text)))
        last = ChainPosition(seq=last.seq + 1, hash=sent[-1].hash)
    known = scope.nodes.get(node)
    assert known is not None
    assert scope.node_records.accept(known, chain, sent, {}).last == last


def found(scope: TenantScope, place: AuditPlace | None = None, **filters: Any) -> list[tuple[int, str, AuditPlace]]:
    node = filters.pop("node", None)
    wanted = AuditFilters(type="skill.activated", **filters)
    return [
        ((one.chained.record or {})["minute"], one.node, one.place)
        for one in scope.audit_search.newest(wanted, node=node, place=place, batch=1)
    ]


def test_a_search_goes_on_anywhere(store: Store) -> None:
    scope = store.of("acme")
    for minute in (1, 4, 5):
        scope.audit.append(record(minute))
    ship(scope, "n-ä", record(2), record(6, user="ada"))
    ship(scope, "n-b", record(3), record(6))
    ship(scope, "n-b", record(6), chain="other")
    everything = found(scope)
    assert [(minute, node) for minute, node, _ in everything][:3] == [(6, "n-ä"), (6, "n-b"), (6, "n-b")]
    assert [minute for minute, _, _ in everything] == [6, 6, 6, 5, 4, 3, 2, 1]
    for number, (_, _, place) in enumerate(everything, 1):
        assert [one[:2] for one in found(scope, place)] == [one[:2] for one in everything[number:]]


def test_filters_hold_for_records_of_nodes_too(store: Store) -> None:
    scope = store.of("acme")
    ship(scope, "n-a", record(1, user="ada", session="s"), record(2, user="bob", skill="pdf", source="x"))
    assert [minute for minute, _, _ in found(scope, user="ada")] == [1]
    assert [minute for minute, _, _ in found(scope, session="s")] == [1]
    assert [minute for minute, _, _ in found(scope, skill="pdf@x")] == [2]
    assert [minute for minute, _, _ in found(scope, text="BOB")] == [2]
    assert [minute for minute, _, _ in found(scope, until="2026-01-01T10:02")] == [1]
    assert [minute for minute, _, _ in found(scope, node="n-a")] == [2, 1]
    assert found(scope, node="n-b") == found(store.of("other")) == []


def test_a_checkpoint_has_the_records_that_came_with_it(store: Store) -> None:
    scope = store.of("acme")
    ship(scope, "n-a", record(1), record(2))
    ship(scope, "n-a", record(3))
    first, second = scope.audit.search(type="node.checkpoint")[::-1]
    assert [one.seq for one in scope.audit_search.shipped_with(first)] == [1, 2]
    assert [one.seq for one in scope.audit_search.shipped_with(second)] == [3]
    assert list(scope.audit_search.shipped_with({"type": "node.checkpoint"})) == []
