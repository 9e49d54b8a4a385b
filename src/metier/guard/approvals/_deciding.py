"""What people decide, in one transaction with its record; and that they tried what they may not."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from metier.errors import NotPermitted
from metier.guard.audit.governance_events import actor_of, record_event
from metier.store import ApprovalRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.store import Approval, Person, TenantScope


def record_fields(about: ApprovalRequest | Approval) -> dict[str, Any]:
    """What a record says about a request or an approval."""
    name, _, source = about.skill.partition("@")
    ids = (
        {"request": about.id}
        if isinstance(about, ApprovalRequest)
        else {"approval": about.id, "request": about.request}
    )
    return {
        **ids,
        "skill": name,
        "source": source,
        "digest": about.digest,
        "layer": about.layer,
        "environment": about.environment,
    }


@contextlib.contextmanager
def recording_refusals(scope: TenantScope, person: Person, subject: str, **more: Any) -> Iterator[None]:
    """One transaction; that somebody may not do it is recorded after it, because what it did is undone.

    The record is of the type `subject.refused`, with what the error's `about` says, if it says anything.
    """
    try:
        with scope.transaction():
            yield
    except NotPermitted as error:
        about = error.context.pop("about", {})
        refused = {"reason": error.message, "decision": "deny", "code": error.code}
        record_event(scope, f"{subject}.refused", actor_of(person, scope), **{**refused, **more, **dict(about)})  # type: ignore[call-overload]
        raise
