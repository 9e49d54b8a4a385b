"""What nobody may use: skills that were blocked by name, by digest or by where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.store.codec import checked_choice, checked_key, now, packed, unpacked

if TYPE_CHECKING:
    from metier.store.rows import Rows

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

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def add(self, kind: BlockKind, value: str, *, reason: str, by: str) -> Block:
        """Block it, from the next decision on; of several reasons the last one counts."""
        checked_choice("kind of block", kind, _KINDS)
        block = Block(kind=kind, value=checked_key(kind, value), reason=reason, by=by, at=now())
        with self._rows.transaction():
            self._rows.insert("blocks", packed(block), "replace")
            self._rows.bump()
        return block

    def remove(self, kind: BlockKind, value: str) -> bool:
        """Block it no longer; False when it was not blocked."""
        with self._rows.transaction():
            was_blocked = self._rows.delete("blocks", {"kind": kind, "value": value}) > 0
            if was_blocked:
                self._rows.bump()
        return was_blocked

    def all(self) -> list[Block]:
        """Everything that is blocked, the oldest first."""
        return [unpacked(Block, row, {}) for row in self._rows.select("blocks", order=("at", "kind", "value"))]
