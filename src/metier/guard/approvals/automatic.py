"""Approvals that nobody has to give: policy says of which content it approves by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from metier.guard.approvals._deciding import record_fields
from metier.guard.approvals.status import end_of, is_over, moment
from metier.guard.audit.governance_events import event_record
from metier.scan.finding import SEVERITIES
from metier.skill import shown
from metier.store import Approval
from metier.store.codec import new_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.guard.approvals.status import Clock
    from metier.guard.decision import Actor, Subject
    from metier.guard.policy.compound_types import AutoApproval
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import TenantScope

_RANKS = {severity: rank for rank, severity in enumerate(("none", *SEVERITIES))}


def auto_approval(
    effective: EffectivePolicy, *, new: Collection[str] | None, scan_max: str, scan_status: str, signer: str
) -> str | None:
    """The rule of policy that approves of a content by itself; None where none does, or a condition cannot be told.

    `new` are the capabilities that the last approved content did not have, None where nobody knows. `scan_max` is the
    worst that scanners found, `scan_status` whether they came to an end. `signer` is who signed it, "" for nobody.
    """
    auto = effective.approval.auto
    if auto is None or scan_status == "error":
        return None
    held: list[str] = []
    if auto.signer:
        if signer not in auto.signer:
            return None
        held.append(f"signer {shown(signer)}")
    if auto.scan_max:
        most = _RANKS.get(auto.scan_max, -1)
        if scan_status != "ok" or _RANKS.get(scan_max, len(_RANKS)) > most:
            return None
        held.append(f"scan-max {auto.scan_max}")
    if auto.no_new_capabilities:
        if new is None or new:
            return None
        held.append("no-new-capabilities")
    # A rule without a condition would approve of everything, which nobody can have meant.
    return f"auto-approve-when: {', '.join(held)}{_written(auto)}" if held else None


def _written(auto: AutoApproval) -> str:
    """Where the rule is written."""
    return f" ({auto.origin})" if auto.origin is not None else ""


def approve_automatically(
    scope: TenantScope,
    effective: EffectivePolicy,
    subject: Subject,
    *,
    capabilities: Collection[str],
    rule: str,
    actor: Actor,
    environment: str = "",
    clock: Clock = time.time,
) -> Approval | None:
    """Note that a rule of policy approved of a content, once; it counts as if enough people had agreed.

    None where somebody decided otherwise: what a person refused or took back, policy does not give again by itself.
    """
    now = clock()
    wanted = Approval(
        id=new_id("a"),
        digest=subject.digest,
        skill=subject.ref,
        location=subject.location,
        layer=subject.layer,
        environment=environment,
        grants=tuple(sorted(capabilities)),
        decided_by="policy",
        policy=effective.digest,
        rule=rule,
        decided_at=moment(now),
        expires_at=end_of(now, effective.approval.expires),
    )
    with scope.transaction():
        for one in scope.approvals.of(subject.digest):
            if one.layer not in ("", subject.layer) or one.environment not in ("", environment):
                continue
            if one.revoked_at or one.decision == "denied":
                return None
            if not is_over(one, wanted.decided_at) and _is_same(one, wanted):
                return one
        why = {"rule": rule, "policy": wanted.policy, "reason": "Policy approves of it."}
        record = event_record(scope, "approval.automatic", actor, **record_fields(wanted), **why)
        return scope.approvals.add(wanted, record)


def _is_same(one: Approval, other: Approval) -> bool:
    """Whether two approvals say the same of the same."""
    return (one.rule, one.layer, one.environment, one.grants) == (
        other.rule,
        other.layer,
        other.environment,
        other.grants,
    )
