"""The audit records of nodes, as they were sent: a copy of each node's chains, which nobody changes without a trace.

Every batch that is accepted leaves a checkpoint in the server's own audit log, in the same transaction: from then on
neither the node nor anybody with access to these rows can change what was sent without a trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.store.audit_log import (
    CHAINED,
    COLUMNS,
    FIRST,
    AuditTable,
    ChainPosition,
    chain_hash,
    chained_record,
    columns_of,
    parse_record,
)
from metier.store.nodes import Nodes
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.store.audit_log import ChainedRecord
    from metier.store.connection_pool import Value
    from metier.store.nodes import ManagedNode
    from metier.store.rows import TenantRows

CHECKPOINT, TAMPERED, RESET = "node.checkpoint", "node.tampered", "node.reset"
"""The types of the records about a node's audit log."""
_CHAIN = "FROM node_records WHERE tenant = ? AND node = ? AND chain = ? AND epoch = ?"
_LAST = f"SELECT seq, hash {_CHAIN} ORDER BY seq DESC LIMIT 1"
_HASHES = f"SELECT seq, hash {_CHAIN} AND seq BETWEEN ? AND ?"
_ROWS = f"SELECT {CHAINED} {_CHAIN} AND seq > ? ORDER BY seq LIMIT ?"
_INSERT = (
    f"INSERT INTO node_records (tenant, node, chain, epoch, {CHAINED}) VALUES ({', '.join('?' * (8 + len(COLUMNS)))})"
)
_CHAINS = "SELECT DISTINCT node, chain, epoch FROM node_records WHERE tenant = ? ORDER BY node, chain, epoch"
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRecord:
    """A record as a node sends it: number, canonical text, the hash of the record before, and its own."""

    seq: int
    text: str
    previous: str
    hash: str

    @property
    def record(self) -> dict[str, Any] | None:
        """The content; None where the text is not what an audit log writes."""
        return parse_record(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChain:
    """One audit log of a node: of a tenant there, and since the last time that it began anew."""

    node: str
    chain: str
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReceipt:
    """The answer to records that a node sent."""

    last: ChainPosition
    """The last record that is accepted."""
    has_gap: bool = False
    """Whether records before those that were sent are missing."""
    conflict: int = 0
    """The first record that is not the one that was sent before, or does not follow it; 0 for none."""


class NodeRecords:
    """The audit records of a tenant's nodes."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._nodes = Nodes(rows)
        self._log = AuditTable(rows)

    def last(self, chain: NodeChain) -> ChainPosition:
        """Return the last accepted record of a chain; number 0 where there is none."""
        found = self._rows.statement(_LAST, *_key(chain))
        return ChainPosition(seq=found[0][0], hash=found[0][1]) if found else ChainPosition(seq=0, hash=FIRST)

    def accept(
        self, node: ManagedNode, chain: str, records: Sequence[SentRecord], event: Mapping[str, Any]
    ) -> ChainReceipt:
        """Accept the next records of a chain, all or none; those that are here already change nothing.

        `event` has the fields of the checkpoint, or of the record that says that the chain was changed, which is kept
        in the same transaction.
        """
        where = NodeChain(node=node.id, chain=chain, epoch=node.epoch)
        ordered = sorted(records, key=lambda one: one.seq)
        with self._rows.transaction():
            last = self.last(where)
            node = self._nodes.get(node.id) or node
            if node.status != "active":
                return ChainReceipt(last=last, conflict=node.fault_at or last.seq + 1)
            known = [(one.seq, chain_hash(one.previous, one.text)) for one in ordered if one.seq <= last.seq]
            fresh = _without_repeated([one for one in ordered if one.seq > last.seq])
            conflict = self._first_difference(where, known) or _first_fault(fresh, last, chain)
            if conflict:
                return self._refuse(where, last, conflict, event)
            if fresh and fresh[0].seq != last.seq + 1:
                return ChainReceipt(last=last, has_gap=True)
            if fresh:
                self._rows.change_all(_INSERT, (_row(where, one) for one in fresh))
                last = ChainPosition(seq=fresh[-1].seq, hash=fresh[-1].hash)
                self._log.append({**_about(event, CHECKPOINT, where, last), "after": fresh[0].seq - 1})
        return ChainReceipt(last=last)

    def compare(
        self,
        node: ManagedNode,
        chain: str,
        hashes: Sequence[tuple[int, str]],
        event: Mapping[str, Any],
        *,
        known: int | None = None,
    ) -> int | None:
        """Return the first record that a node's log has otherwise than it was sent, which is kept; None for none.

        The last of the hashes is that of the end of the node's log: one that ends before was cut. Where the node says
        which record was `known` here before it looked, those that it has sent meanwhile are left out.
        """
        where = NodeChain(node=node.id, chain=chain, epoch=node.epoch)
        last, ordered = self.last(where), sorted(hashes)
        differs = self._first_difference(where, [one for one in ordered if one[0] <= last.seq])
        end = ordered[-1][0] if ordered else 0
        if not differs and end < min(last.seq, last.seq if known is None else known):
            differs = end + 1
        if differs:
            with self._rows.transaction():
                self._refuse(where, last, differs, event)
        return differs or None

    def _first_difference(self, where: NodeChain, hashes: Sequence[tuple[int, str]]) -> int:
        """Return the number of the first record that has another hash here; 0 for none."""
        for start in range(0, len(hashes), _BATCH):
            part = hashes[start : start + _BATCH]
            if len(part) > 1 and part[-1][0] - part[0][0] > 2 * len(part):
                known = {seq: self._hash_at(where, seq) for seq, _ in part}
            else:
                known = dict(self._rows.statement(_HASHES, *_key(where), part[0][0], part[-1][0]))
            differs = next((seq for seq, made in part if known.get(seq) != made), 0)
            if differs:
                return differs
        return 0

    def _hash_at(self, where: NodeChain, seq: int) -> str:
        found = self._rows.statement(_HASHES, *_key(where), seq, seq)
        return str(found[0][1]) if found else ""

    def _refuse(self, where: NodeChain, last: ChainPosition, conflict: int, event: Mapping[str, Any]) -> ChainReceipt:
        known = self._nodes.get(where.node)
        # A node looks at a long log in two steps, of which the second finds the very record.
        if known is None or not 0 < known.fault_at <= conflict:
            fault = f"Record {conflict:,} of its audit log is not the one that was sent, or that follows it."
            record = _about(event, TAMPERED, where, ChainPosition(seq=conflict, hash=""))
            self._log.append({**record, "reason": fault})
            self._nodes.set_status(where.node, "tampered", fault, conflict)
        return ChainReceipt(last=last, conflict=conflict)

    def chains(self) -> list[NodeChain]:
        """Return all chains that have a record."""
        return [NodeChain(node=node, chain=chain, epoch=epoch) for node, chain, epoch in self._rows.statement(_CHAINS)]

    def walk(self, chain: NodeChain, *, start: int = 0) -> Iterator[ChainedRecord]:
        """Yield the records of a chain in order, from the one behind a number on."""
        while True:
            rows = self._rows.statement(_ROWS, *_key(chain), start, _BATCH)
            yield from (chained_record(chain.chain, row) for row in rows)
            if len(rows) < _BATCH:
                return
            start = rows[-1][0]


def _key(chain: NodeChain) -> tuple[str, str, int]:
    return chain.node, chain.chain, chain.epoch


def _without_repeated(records: Sequence[SentRecord]) -> list[SentRecord]:
    """Return records in order, each once; of two with one number and different contents, both stay."""
    return list(dict.fromkeys(records))


def _first_fault(records: Sequence[SentRecord], last: ChainPosition, chain: str) -> int:
    """Return the number of the first record that is not whole, or does not follow its neighbour; 0 for none.

    The first may be one that comes later: then those between are still on their way. Between two others nothing is.
    """
    before = last
    for one in records:
        record = one.record or {}
        is_whole = (record.get("seq"), record.get("tenant")) == (one.seq, chain)
        if not is_whole or chain_hash(one.previous, one.text) != one.hash:
            return one.seq
        if one.seq == before.seq + 1:
            if one.previous != before.hash:
                return one.seq
        elif before is not last:
            return min(one.seq, before.seq + 1)
        before = ChainPosition(seq=one.seq, hash=one.hash)
    return 0


def _row(where: NodeChain, one: SentRecord) -> list[Value]:
    columns = columns_of(one.record or {})
    return [*_key(where), one.seq, one.text, one.previous, one.hash, *(columns[name] for name in COLUMNS)]


def _about(event: Mapping[str, Any], kind: str, where: NodeChain, at: ChainPosition) -> dict[str, Any]:
    more: dict[str, Any] = {"node": where.node, "chain": where.chain, "epoch": where.epoch, "through": at.seq}
    decision = "deny" if kind == TAMPERED else "allow"
    content = {"timestamp": now(), "event": "node", "decision": decision, **event, "type": kind}
    return {**content, **more, "through_hash": at.hash}
