"""Verification of the logs of nodes on their server, against the checkpoints that the server's own log has of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.guard.audit.verification import ChainFault, ChainVerification, follow_chain
from metier.store.audit_log import ChainPosition
from metier.store.node_records import CHECKPOINT, RESET, TAMPERED, NodeChain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.store import TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vouched:
    """The facts about the logs of nodes that the server's own log has."""

    positions: Mapping[NodeChain, dict[int, list[ChainPosition]]] = field(default_factory=lambda: defaultdict(dict))
    tampered: dict[NodeChain, tuple[int, str]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    def take(self, record: Mapping[str, Any]) -> None:
        """Read the next record about nodes."""
        node, chain, epoch, seq = (record.get(name) for name in ("node", "chain", "epoch", "through"))
        if not isinstance(node, str) or type(epoch) is not int:
            return
        if record.get("type") == RESET:
            self.epochs[node] = epoch
        if not isinstance(chain, str) or type(seq) is not int:
            return
        where = NodeChain(node=node, chain=chain, epoch=epoch)
        if record.get("type") == CHECKPOINT:
            self.positions[where][seq] = [ChainPosition(seq=seq, hash=str(record.get("through_hash")))]
        elif record.get("type") == TAMPERED:
            known = self.tampered.get(where)
            if known is None or seq < known[0]:
                self.tampered[where] = (seq, str(record.get("reason")))


def verify_nodes(scope: TenantScope) -> Iterator[ChainVerification]:
    """Verify the logs of a tenant's nodes, once the server's own is known to be intact.

    A log that a node itself changed is a fault as long as no admin has let it begin anew.
    """
    vouched = _Vouched()
    for record in scope.audit.family("node"):
        vouched.take(record)
    names = {one.id: one.name for one in scope.nodes.all()}
    every = {*vouched.positions, *vouched.tampered, *scope.node_records.chains()}
    for where in sorted(every, key=lambda one: (one.node, one.chain, one.epoch)):
        yield _verify_node(scope, where, vouched, names.get(where.node, where.node))


def _verify_node(scope: TenantScope, where: NodeChain, vouched: _Vouched, name: str) -> ChainVerification:
    positions = vouched.positions.get(where, {})
    length, fault = follow_chain(where.chain, scope.node_records.walk(where), positions)
    last = max(positions, default=0)
    if fault is None and length > last:
        fault = ChainFault(last + 1, "inserted", f"No checkpoint stands for record {last + 1:,}: it was put there.")
    if fault is None and where in vouched.tampered and where.epoch >= vouched.epochs.get(where.node, 0):
        seq, reason = vouched.tampered[where]
        fault = ChainFault(seq, "tampered", f"The log on the node was changed. {reason}")
    return ChainVerification(
        tenant=scope.audit.tenant,
        node=f"{name}, log of {where.chain}" if where.chain else name,
        records=length,
        checkpoints=len(positions),
        signed=min(last, length),
        fault=fault,
    )
