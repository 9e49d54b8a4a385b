"""Requests that nobody has to answer any more: they waited too long, or what they ask for is not there any more."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.guard.approvals._deciding import record_fields
from metier.guard.approvals.status import moment
from metier.guard.audit.governance_events import record_event
from metier.guard.decision import Actor
from metier.skill import FolderPackage

if TYPE_CHECKING:
    from metier.guard.approvals.status import Clock
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import ApprovalRequest, TenantScope

_NOBODY = Actor()


def expire(
    scope: TenantScope, effective: EffectivePolicy, *, actor: Actor = _NOBODY, clock: Clock = time.time
) -> list[ApprovalRequest]:
    """Let requests expire that have waited for longer than policy lets an approval last; those that did.

    An answer to them would be out of date already. Whoever needs one asks again.
    """
    lasts = effective.approval.expires
    if lasts is None:
        return []
    since = moment(clock() - lasts)
    old = [one for one in scope.approvals.requests("pending") if one.created_at < since]
    found: list[ApprovalRequest] = []
    for one in old:
        with scope.transaction():
            if scope.approvals.set_request(one.id, "expired", expected="pending"):
                reason = "Nobody answered while policy would have let the answer count."
                record_event(
                    scope, "approval.expired", actor, **record_fields(one), reason=reason, policy=effective.digest
                )
                found.append(one)
    return found


def supersede(scope: TenantScope) -> list[ApprovalRequest]:
    """Let go of requests whose content is not in its place any more; those that were let go of.

    What cannot be looked at, as in an archive or on another machine, may still be there.
    """
    waiting = scope.approvals.requests("pending")
    gone = [one for one in waiting if _is_gone(one, is_here=scope.store.kind == "sqlite")]
    return [one for one in gone if scope.approvals.set_request(one.id, "superseded", expected="pending")]


def _is_gone(request: ApprovalRequest, *, is_here: bool) -> bool:
    folder = request.location
    if not os.path.isabs(folder):
        return False
    if not os.path.lexists(folder):
        # A store that several machines share knows of folders that are on others.
        return is_here and os.path.isdir(_nearest(folder))
    try:
        return os.path.isdir(folder) and FolderPackage(folder).digest() != request.digest
    except MetierError:
        return False


def _nearest(path: str) -> str:
    """The nearest above it that is there: of what was in an archive, that is a file."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
