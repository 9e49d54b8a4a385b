"""Searches through the audit log of a tenant and the records that its nodes have shipped, the newest first."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._json_object import text_at
from metier._lazy import dataclass
from metier.store.audit_log import CHAINED, chained_record
from metier.store.node_records import NodeChain, NodeRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.store.audit_filters import AuditFilters
    from metier.store.audit_log import AuditTable, ChainedRecord
    from metier.store.rows import TenantRows

NodePlace: TypeAlias = tuple[str, str, str, int, int]
"""The time, the node, the chain, its epoch and the number of a record that a node has shipped."""
_BATCH = 500
_ABOVE_ALL = 2**62
_LAST_TEXT = "\U0010ffff"
_SHIPPED = f"SELECT node, chain, epoch, {CHAINED} FROM node_records WHERE tenant = ?"
_NEWEST = "ORDER BY ts DESC, node DESC, chain DESC, epoch DESC, seq DESC LIMIT ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlace:
    """The place up to which a search has come in the log, and in the records of nodes."""

    seq: int = _ABOVE_ALL
    shipped: NodePlace = (_LAST_TEXT, "", "", 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """A record that a search found, with the node that shipped it, if one did."""

    chained: ChainedRecord
    node: str = ""
    place: AuditPlace
    """The place where the search goes on behind it."""


class AuditSearch:
    """The audit log of a tenant, together with the records of its nodes."""

    def __init__(self, rows: TenantRows, audit: AuditTable) -> None:
        self._rows = rows
        self._audit = audit

    def newest(
        self,
        filters: AuditFilters,
        *,
        node: str | None = None,
        place: AuditPlace | None = None,
        batch: int = _BATCH,
    ) -> Iterator[FoundRecord]:
        """Yield the records that fit, of one node or of all and the log itself, from a place on.

        Each keeps its order in its own chain; between them the later time comes first.
        """
        place = place or AuditPlace()
        own = iter(()) if node is not None else self._audit.matching(filters, before=place.seq, batch=batch)
        shipped = self._shipped(filters, node, place.shipped, batch)
        first, second = next(own, None), next(shipped, None)
        while first is not None or second is not None:
            if second is None or (first is not None and _time(first) >= second[0][0]):
                assert first is not None
                place = AuditPlace(seq=first.seq, shipped=place.shipped)
                yield FoundRecord(chained=first, place=place)
                first = next(own, None)
            else:
                place = AuditPlace(seq=place.seq, shipped=second[0])
                yield FoundRecord(chained=second[1], node=second[0][1], place=place)
                second = next(shipped, None)

    def _shipped(
        self, filters: AuditFilters, node: str | None, place: NodePlace, batch: int
    ) -> Iterator[tuple[NodePlace, ChainedRecord]]:
        where, values = filters.condition(self._rows.pool.kind)
        if node is not None:
            where, values = f"{where} AND node = ?", [*values, node]
        size = _BATCH if filters.is_rough else max(1, min(_BATCH, batch))
        sql = f"{_SHIPPED}{where} AND (ts, node, chain, epoch, seq) < (?, ?, ?, ?, ?) {_NEWEST}"
        while True:
            rows = self._rows.statement(sql, *values, *place, size)
            for name, chain, epoch, *row in rows:
                chained = chained_record(chain, row)
                place = (_time(chained), name, chain, epoch, chained.seq)
                if chained.is_whole and chained.record is not None and filters.fits(chained.record):
                    yield place, chained
            if len(rows) < size:
                return

    def shipped_with(self, checkpoint: Mapping[str, Any]) -> Iterator[ChainedRecord]:
        """Yield the records of a node that were accepted together with a checkpoint in the log."""
        node, chain = text_at(checkpoint, "node"), text_at(checkpoint, "chain")
        epoch, after, through = (checkpoint.get(name) for name in ("epoch", "after", "through"))
        if type(epoch) is int and type(after) is int and type(through) is int:
            records = NodeRecords(self._rows).walk(NodeChain(node=node, chain=chain, epoch=epoch), start=after)
            yield from itertools.takewhile(lambda one: one.seq <= through, records)


def _time(chained: ChainedRecord) -> str:
    return (chained.columns or {}).get("ts", "")
