"""What a refresh found different."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Names of skills by what happened to them; empty, and false, when nothing did."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    files_read: int = 0
    """How many SKILL.md files had to be read."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)
