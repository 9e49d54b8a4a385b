"""Feedback about skills: kept for those who decide about them, and recorded for the usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.audit.governance_events import record_event
from metier.guard.audit.redaction import redact
from metier.skill import shown
from metier.store import Feedback

if TYPE_CHECKING:
    from metier.guard import Actor
    from metier.guard.decision import Subject
    from metier.store import TenantScope

_MAX_QUOTED = 200


def give_feedback(scope: TenantScope, skill: Subject, helped: bool, comment: str = "", *, actor: Actor) -> Feedback:
    """Keep that a skill helped, or did not, with a record of it; secrets in the comment are taken out."""
    ref = f"{skill.name}@{skill.source}" if skill.source else skill.name
    comment = redact(comment)
    with scope.transaction():
        feedback = scope.feedback.add(
            Feedback(
                skill=ref,
                digest=skill.digest,
                helped=helped,
                comment=comment,
                by=actor.user or "",
                agent=actor.agent or "",
                session=actor.session or "",
            )
        )
        type_ = "feedback.helped" if helped else "feedback.not-helped"
        fields = {"digest": skill.digest, "layer": skill.layer, "reason": feedback.comment}
        record_event(scope, type_, actor, ref, **fields)
    return feedback


def describe_feedback(scope: TenantScope, skill: str) -> str:
    """Return a line about the feedback of a skill, `name@source`, with the last comment; "" where there is none.

    >>> import tempfile
    >>> from metier.store import Feedback, Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     _ = store.of().feedback.add(Feedback(skill="pdf@acme", helped=False, comment="It lost a page."))
    ...     describe_feedback(store.of(), "pdf@acme")
    'It helped 0 times and did not 1 time. Last: "It lost a page."'
    """
    helped, not_helped = scope.feedback.totals(skill)
    if not helped and not not_helped:
        return ""
    last = next((one.comment for one in scope.feedback.of(skill) if one.comment), "")
    quoted = f' Last: "{shown(last, _MAX_QUOTED)}"' if last else ""
    return f"It helped {_times(helped)} and did not {_times(not_helped)}.{quoted}"


def _times(count: int) -> str:
    return f"{count:,} time{'' if count == 1 else 's'}"
