"""Events that no record tells of by itself, recorded once: approvals that run out soon, and a damaged audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from metier.guard import Actor
from metier.guard.approvals.requests import record_fields
from metier.guard.approvals.status import timestamp
from metier.guard.audit.governance_events import record_event
from metier.store import Approval, TenantScope

_WARNING_SECONDS = 3 * 86_400
_WARNING_SHARE = 0.25
"""The share of the time of an approval at whose end it is warned of, where that is shorter."""


def record_expiring_approvals(scope: TenantScope, now: float) -> None:
    """Record each approval that runs out soon, once."""
    at = timestamp(now)
    for one in scope.approvals.all(active_only=True):
        if one.decision == "approved" and at < one.expires_at and now >= _warning_time(one):
            _record_once(
                scope, "approval.expiring", one.id, **record_fields(one), reason=f"It ends at {one.expires_at}."
            )


def record_faults(scope: TenantScope) -> None:
    """Record, once, that the audit log is not as it was written."""
    fault = scope.recorded_decisions().fault
    if fault:
        reason = f"From record {fault} on, the audit log is not as it was written."
        _record_once(scope, "verification.failed", f"record {fault}", notes=(f"record {fault}",), reason=reason)


def _record_once(scope: TenantScope, type: str, text: str, **fields: Any) -> None:  # noqa: A002
    with scope.transaction():  # so that of several processes one alone finds it missing
        if not scope.audit.search(type=type, text=text, limit=1):
            record_event(scope, type, Actor(), **fields)


def _warning_time(approval: Approval) -> float:
    ends = datetime.fromisoformat(approval.expires_at).timestamp()
    lasts = ends - datetime.fromisoformat(approval.decided_at).timestamp()
    return ends - min(_WARNING_SECONDS, lasts * _WARNING_SHARE)
