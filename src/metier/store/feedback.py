"""Feedback: whether a skill helped, by a person or an agent that used it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier.store.rows import Table, new_id, now, require_key

if TYPE_CHECKING:
    from metier.store.rows import TenantRows

MAX_COMMENT = 2_000
"""The longest comment in characters."""
_RECENT = "SELECT {} FROM feedback WHERE tenant = ? AND skill = ? ORDER BY at DESC, number DESC LIMIT ?"
_TOTALS = "SELECT helped, COUNT(*) FROM feedback WHERE tenant = ? AND skill = ? GROUP BY helped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """A statement that a skill helped, or did not."""

    id: str = ""
    """Set by the store."""
    skill: str
    """`name@source`."""
    digest: str = ""
    """The content that was used, where that is known."""
    helped: bool
    comment: str = ""
    by: str = ""
    """The person."""
    agent: str = ""
    """The agent, for one that says it itself."""
    session: str = ""
    at: str = ""


_FEEDBACK = Table(name="feedback", record=Feedback, order=("at", "number", "id"))


class FeedbackTable:
    """The feedback of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, feedback: Feedback) -> Feedback:
        """Add feedback."""
        require_key("skill", feedback.skill)
        comment = feedback.comment[:MAX_COMMENT]
        added = replace(feedback, id=feedback.id or new_id("f"), at=feedback.at or now(), comment=comment)
        with self._rows.transaction():
            number = self._rows.next_number(_FEEDBACK)
            self._rows.insert(_FEEDBACK, added, helped=int(added.helped), number=number)
        return added

    def of(self, skill: str, limit: int = 20) -> list[Feedback]:
        """Return the feedback about a skill, `name@source`, the newest first."""
        found = self._rows.statement(_RECENT.format(", ".join(_FEEDBACK.columns)), skill, limit)
        return [replace(one, helped=bool(one.helped)) for one in map(_FEEDBACK.from_row, found)]

    def totals(self, skill: str) -> tuple[int, int]:
        """Return how often a skill helped and how often it did not."""
        counts = dict(self._rows.statement(_TOTALS, skill))
        return counts.get(1, 0), counts.get(0, 0)
