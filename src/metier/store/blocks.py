"""What nobody may use: skills that were blocked by name, by digest or by where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.store.codec import from_row, now, require_choice, require_key, to_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.store.ledger import RecordedDecisions
    from metier.store.rows import TenantRows

BlockKind: TypeAlias = Literal["name", "digest", "source"]
_KINDS = ("name", "digest", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A name, a digest or a source that is blocked."""

    kind: BlockKind
    value: str
    reason: str
    by: str
    at: str


class Blocks:
    """The blocks of a tenant."""

    def __init__(self, rows: TenantRows, ledger: Callable[[], RecordedDecisions]) -> None:
        self._rows = rows
        self._ledger = ledger

    def add(self, kind: BlockKind, value: str, *, reason: str, by: str) -> Block:
        """Block it, from the next decision on; of several reasons the last one counts."""
        require_choice("kind of block", kind, _KINDS)
        block = Block(kind=kind, value=require_key(kind, value), reason=reason, by=by, at=now())
        with self._rows.transaction():
            self._rows.insert("blocks", to_row(block), "replace")
            self._rows.bump()
        return block

    def remove(self, kind: BlockKind, value: str) -> bool:
        """Block it no longer; False when it was not blocked. What a record put in quarantine takes a record too."""
        with self._rows.transaction():
            was_blocked = self._rows.delete("blocks", {"kind": kind, "value": value}) > 0
            was_blocked = was_blocked or f"{kind} {value}" in self._ledger().blocked
            if was_blocked:
                self._rows.bump()
        return was_blocked

    def all(self) -> list[Block]:
        """Everything that is blocked, the oldest first; at the end, what only the audit trail still has."""
        found = [from_row(Block, row, {}) for row in self._rows.select("blocks", order=("at", "kind", "value"))]
        known = {(block.kind, block.value) for block in found}
        for what, reason in self._ledger().blocked.items():
            kind, value = split_block(what)
            if (kind, value) not in known:
                found.append(Block(kind=kind, value=value, reason=reason, by="", at=""))  # type: ignore[arg-type]
        return found


def split_block(what: str) -> tuple[str, str]:
    """The kind and the value of a block, as a record has it: `name miner`."""
    kind, _, value = what.partition(" ")
    return kind, value
