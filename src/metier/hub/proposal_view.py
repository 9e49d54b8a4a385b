"""The view of a proposal for its reviewers: capabilities, findings, feedback, and whether this person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.hub.feedback import describe_feedback
from metier.hub.review import may_review
from metier.hub.review_base import review_base_of
from metier.hub.skill_files import package_of
from metier.hub.skill_location import location_at, subject_in
from metier.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.governance import Governance
    from metier.hub.review_base import ReviewBase
    from metier.scan import ScanReport
    from metier.store import Person, Proposal, TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalView:
    """A proposal with all that is known of the content that it proposes."""

    proposal: Proposal
    capabilities: Sequence[str]
    """All that the proposed content can do."""
    basis: ReviewBase
    """The content that the diff is against."""
    report: ScanReport
    feedback: str
    why_not: str | None
    """The reason why the person who looks may not decide; None if they may."""

    def as_dict(self) -> dict[str, Any]:
        """The view as JSON has it."""
        return {
            "proposal": self.proposal,
            "capabilities": list(self.capabilities),
            "compared_with": self.basis,
            "note": self.basis.note,
            "findings": [found.as_dict() for found in self.report.findings],
            "feedback": self.feedback,
            "why_not_you": self.why_not,
        }


def proposal_view_of(scope: TenantScope, governance: Governance, person: Person, proposal: Proposal) -> ProposalView:
    """Collect the view for a person; the proposed content is scanned by the rules of now."""
    files = scope.revisions.files(proposal.proposed_digest)
    revision = scope.revisions.get(proposal.proposed_digest)
    subject = subject_in(location_at(proposal.location, proposal.skill), files, proposal.proposed_digest)
    return ProposalView(
        proposal=proposal,
        capabilities=revision.capabilities.get("names", ()) if revision is not None else (),
        basis=review_base_of(scope, proposal.skill, proposal.location, proposal.base_digest, proposal.proposed_digest),
        report=scan(package_of(files), packs=governance.effective.scan.packs),
        feedback=describe_feedback(scope, proposal.skill),
        why_not=may_review(scope, governance, person, proposal, subject),
    )
