"""What an author says for a change that they proposed already: it is added to the proposal that waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier.errors import ProposalInvalid
from metier.guard.audit.deeds import keep
from metier.hints import for_people
from metier.hub.basis import basis_of
from metier.hub.proposal_page import page, page_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard import Actor
    from metier.store import Proposal, Scope

MAX_TEXT = 20_000
"""Characters of a justification, or of one piece of evidence."""
MAX_EVIDENCE = 50


def amended(scope: Scope, waits: Proposal, justification: str, evidence: Sequence[str], actor: Actor) -> Proposal:
    """A proposal that waits with what its author says now, in the transaction that is under way.

    Whoever decides sees all of it. What was said before changes nothing.
    """
    said = waits.justification
    if justification not in said:
        said = f"{said}\n\nAdded {datetime.now(UTC):%Y-%m-%d %H:%M} UTC:\n{justification}"
    shows = list(dict.fromkeys([*waits.evidence, *evidence]))
    if said == waits.justification and len(shows) == len(waits.evidence):
        return waits
    if len(said) > MAX_TEXT or len(shows) > MAX_EVIDENCE:
        raise ProposalInvalid(
            f"Proposal {waits.id} is for this very change already, and says enough.",
            hint=for_people(
                "Wait until somebody has decided, or take it back first: `metier propose withdraw {id}`.",
                model="Wait until somebody has decided.",
                id=waits.id,
            ),
        )
    found = replace(waits, justification=said, evidence=shows)
    scope.proposals.amend(waits.id, justification=said, evidence=shows)
    basis = basis_of(scope, waits.skill, waits.location, waits.base_digest, waits.proposed_digest)
    page_of(scope, waits).write_text(page(found, basis), encoding="utf-8")
    ids = {"proposal": waits.id, "digest": waits.base_digest, "new_digest": waits.proposed_digest}
    keep(scope, "proposal.amended", actor, waits.skill, **ids, path=waits.location, reason=justification)
    return found
