"""Items that wait for a decision: requests, proposals and quarantines."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import asdict, dataclass, replace
from metier.guard.approvals.decisions import reason_against_deciding
from metier.guard.approvals.quarantine import changed_content, quarantined_folders, reference_of
from metier.guard.approvals.requests import is_requester
from metier.guard.approvals.roles import has_role, require_role
from metier.guard.decision import INTEGRITY
from metier.guard.remedies import tenant_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Person, TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItem:
    """An item that waits for a decision, as one person sees it."""

    kind: Literal["request", "proposal", "quarantine"]
    id: str
    skill: str
    by: str
    since: str
    may_decide: bool
    """Whether this person may decide about it."""
    next: str
    """The command that shows it."""

    @property
    def cursor(self) -> str:
        """The place of the item among all pending ones, oldest first."""
        return f"{self.since}/{self.kind}/{self.id}"

    @property
    def age(self) -> int:
        """The seconds for which the item has been pending."""
        try:
            return max(0, int(time.time() - datetime.fromisoformat(self.since).timestamp()))
        except ValueError:
            return 0

    def as_dict(self) -> dict[str, Any]:
        """The item as JSON has it."""
        return {**asdict(self), "age_seconds": self.age}


def items_for(scope: TenantScope, effective: EffectivePolicy, person: Person) -> list[PendingItem]:
    """The pending items that a person may decide about or made, in the order they came."""
    require_role(person, "viewer", "see what waits")
    found = [one for one, is_own in pending_items(scope, effective, person) if one.may_decide or is_own]
    return sorted(found, key=lambda one: one.cursor)


def pending_items(scope: TenantScope, effective: EffectivePolicy, person: Person) -> Iterator[tuple[PendingItem, bool]]:
    """All pending items, each with whether this person made it."""
    tenant = tenant_option(scope.tenant)
    for one in scope.approvals.requests("pending"):
        entry = PendingItem(
            kind="request",
            id=one.id,
            skill=one.skill,
            by=one.requested_by,
            since=one.created_at,
            may_decide=reason_against_deciding(effective, person, one) is None,
            next=f"metier approve show {one.id}{tenant}",
        )
        yield entry, is_requester(person, one)
    for proposal in scope.proposals.all("open"):
        entry = PendingItem(
            kind="proposal",
            id=proposal.id,
            skill=proposal.skill,
            by=proposal.author,
            since=proposal.created_at,
            may_decide=person.kind == "user" and has_role(person, "reviewer"),
            next=f"metier propose show {proposal.id}{tenant}",
        )
        yield entry, person.name in (proposal.author, proposal.on_behalf_of)
    changed = {changed_content(scope, one): reference_of(one) for one in quarantined_folders(scope)}
    for block in scope.blocks.all():
        entry = PendingItem(
            kind="quarantine",
            id=f"{block.kind}:{block.value}",
            skill=block.value,
            by=block.by,
            since=block.at,
            may_decide=person.kind == "user" and has_role(person, "admin"),
            next=f"metier quarantine list{tenant}",
        )
        if block.by != INTEGRITY:
            yield entry, block.by == person.name
        elif block.value in changed or "" in changed:
            # Once the skill is restored, the changed content stays blocked, and nobody need decide.
            yield replace(entry, skill=changed.get(block.value, block.value)), False
