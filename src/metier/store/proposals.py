"""Proposals: changes of skills that wait for a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.store.rows import Table, given, new_id, now, require_choice, require_key, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.store.rows import TenantRows


ProposalStatus: TypeAlias = Literal["open", "approved", "rejected", "stale", "applied", "withdrawn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change of a skill, and its status."""

    id: str = ""
    """Set by the store."""
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
    """Recommendations of reviewers who may not decide."""


_PROPOSALS = Table(
    name="proposals",
    record=Proposal,
    order=("created_at", "number", "id"),
    json={"evidence": list, "capabilities_new": tuple, "recommendations": list},
)
_STATUSES = (
    "SELECT id, status, comment FROM proposals WHERE tenant = ? AND (created_at >= ? OR status = 'open') "
    "ORDER BY created_at, number"
)


class Proposals:
    """The proposals of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, proposal: Proposal) -> Proposal:
        """Add a proposal."""
        require_key("skill", proposal.skill)
        require_choice("status of a proposal", proposal.status, get_args(ProposalStatus))
        added = replace(proposal, id=proposal.id or new_id("p"), created_at=proposal.created_at or now())
        self._rows.append(_PROPOSALS, added)
        return added

    def get(self, id: str) -> Proposal | None:  # noqa: A002
        """Return the proposal of this id."""
        return self._rows.first(_PROPOSALS, id=id)

    def all(self, status: ProposalStatus | None = None, skill: str | None = None) -> list[Proposal]:
        """Return all proposals, or those of a status or a skill, the oldest first."""
        return self._rows.select(_PROPOSALS, **given(status=status, skill=skill))

    def statuses(self, since: str) -> list[tuple[str, str, str]]:
        """Return id, status and comment of the proposals that are open or were made since a time."""
        return [(one[0], one[1], one[2]) for one in self._rows.statement(_STATUSES, since)]

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
        """Change the status of a proposal that has the expected one; False if it has another. Empty fields stay."""
        require_choice("status of a proposal", to, get_args(ProposalStatus))
        given = {"reviewer": reviewer, "comment": comment, "applied_digest": applied_digest}
        changed = {"status": to, "decided_at": now(), **{name: text for name, text in given.items() if text}}
        return self._rows.update(_PROPOSALS, changed, id=id, status=expected)

    def amend(self, id: str, *, justification: str, evidence: Sequence[str]) -> bool:  # noqa: A002
        """Change the justification of an open proposal; False when there is no open one of this id."""
        changed = {"justification": justification, "evidence": to_json(list(evidence))}
        return self._rows.update(_PROPOSALS, changed, id=id, status="open")

    def recommend(self, id: str, recommendation: Mapping[str, Any]) -> bool:  # noqa: A002
        """Add a recommendation to an open proposal; False when there is no open one of this id."""
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.status != "open":
                return False
            every = to_json([*found.recommendations, recommendation])
            return self._rows.update(_PROPOSALS, {"recommendations": every}, id=id)
