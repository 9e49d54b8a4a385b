"""Proposals: changes to skills that wait for somebody to decide about them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.store.codec import from_row, new_id, now, require_choice, require_key, to_json, to_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.store.rows import TenantRows

ProposalStatus: TypeAlias = Literal["open", "approved", "rejected", "stale", "applied", "withdrawn"]
_STATUSES = ("open", "approved", "rejected", "stale", "applied", "withdrawn")
_JSON: Mapping[str, Callable[[Any], Any]] = {"evidence": list, "capabilities_new": tuple, "recommendations": list}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that somebody proposes, and what became of it."""

    id: str = ""
    """Given by the store."""
    kind: Literal["update", "new"] = "update"
    skill: str
    """`name@source`."""
    location: str = ""
    base_digest: str = ""
    """The content that it would change; "" for a new skill."""
    proposed_digest: str = ""
    diff: str = ""
    justification: str = ""
    evidence: Sequence[str] = field(default_factory=list)
    author_kind: Literal["agent", "user"] = "user"
    author: str = ""
    on_behalf_of: str = ""
    """The user in whose session an agent made it."""
    capabilities_new: tuple[str, ...] = ()
    status: ProposalStatus = "open"
    reviewer: str = ""
    comment: str = ""
    created_at: str = ""
    decided_at: str = ""
    applied_digest: str = ""
    recommendations: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """What others think of it, who may not decide."""


class Proposals:
    """The proposals of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, proposal: Proposal) -> Proposal:
        """Park a proposal."""
        require_key("skill", proposal.skill)
        require_choice("status of a proposal", proposal.status, _STATUSES)
        added = replace(proposal, id=proposal.id or new_id("p"), created_at=proposal.created_at or now())
        self._rows.insert_next("proposals", to_row(added))
        return added

    def get(self, id: str) -> Proposal | None:  # noqa: A002
        """The proposal of this id."""
        found = self._rows.select("proposals", {"id": id})
        return from_row(Proposal, found[0], _JSON) if found else None

    def all(self, status: ProposalStatus | None = None, skill: str | None = None) -> list[Proposal]:
        """All proposals, or those of a status or for a skill; the oldest first."""
        where = {name: value for name, value in (("status", status), ("skill", skill)) if value is not None}
        found = self._rows.select("proposals", where, ("created_at", "number", "id"))
        return [from_row(Proposal, row, _JSON) for row in found]

    def move(
        self,
        id: str,  # noqa: A002
        *,
        expected: ProposalStatus,
        to: ProposalStatus,
        reviewer: str = "",
        comment: str = "",
        applied_digest: str = "",
    ) -> bool:
        """Move a proposal on, if it is where it is expected to be; False if it is not. What is empty stays."""
        require_choice("status of a proposal", to, _STATUSES)
        said = {"reviewer": reviewer, "comment": comment, "applied_digest": applied_digest}
        changed = {"status": to, "decided_at": now(), **{name: text for name, text in said.items() if text}}
        return self._rows.update("proposals", changed, {"id": id, "status": expected}) > 0

    def amend(self, id: str, *, justification: str, evidence: Sequence[str]) -> bool:  # noqa: A002
        """Say otherwise why an open proposal is made; False when there is no open one of this id."""
        changed = {"justification": justification, "evidence": to_json(list(evidence))}
        return self._rows.update("proposals", changed, {"id": id, "status": "open"}) > 0

    def recommend(self, id: str, recommendation: Mapping[str, Any]) -> bool:  # noqa: A002
        """Add what somebody thinks of an open proposal; False when there is no open one of this id."""
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.status != "open":
                return False
            told = to_json([*found.recommendations, recommendation])
            return self._rows.update("proposals", {"recommendations": told}, {"id": id}) > 0
