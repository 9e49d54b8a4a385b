"""What the approvals of one content amount to now: found out once, and kept until time changes it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from metier.guard.approvals.standing import moment, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.approvals.standing import Standing
    from metier.guard.policy.effective import ApprovalTerms
    from metier.store import Approval

_KEPT = 4_096
_TICK = 0.001
"""The store writes times to the millisecond."""


class _Kept(NamedTuple):
    approvals: tuple[Approval, ...]
    terms: ApprovalTerms
    since: float
    until: float
    standing: Standing


_kept: dict[tuple[int, str, str], _Kept] = {}


def standing_now(
    approvals: tuple[Approval, ...], terms: ApprovalTerms, *, layer: str = "", environment: str = ""
) -> Standing:
    """What approvals come to here and now, under the terms of a policy.

    Approvals that are the same objects as before are not looked at again before one of them runs out: a decision about
    a skill is made many times, and what was approved changes rarely.

    >>> from metier.guard.policy.effective import ApprovalTerms
    >>> from metier.store import Approval
    >>> given = (Approval(digest="sha256:1", skill="a@b", grants=("scripts",), decided_by="grace"),)
    >>> standing_now(given, ApprovalTerms()).grants
    frozenset({'scripts'})
    """
    now = time.time()
    key = (id(approvals), layer, environment)
    kept = _kept.get(key)
    # What is kept holds on to its approvals, so that no others can have their identity; a clock may be set back.
    if kept is not None and kept.approvals is approvals and kept.terms is terms and kept.since <= now < kept.until:
        return kept.standing
    found = standing(
        approvals,
        layer=layer,
        environment=environment,
        quorum=terms.quorum,
        now=moment(now),
        since="" if terms.expires is None else moment(now - terms.expires),
    )
    # What ran out just now may still count for the rest of a millisecond, and is looked at again after it.
    ends = (end for one in approvals for end in _ends(one, terms) if end > now - 1)
    until = max(min(ends, default=float("inf")), now + _TICK)
    if len(_kept) >= _KEPT:
        _kept.clear()
    _kept[key] = _Kept(approvals, terms, now, until, found)
    return found


def _ends(approval: Approval, terms: ApprovalTerms) -> Iterator[float]:
    """When an approval runs out, by what it says itself and by how long policy lets it last."""
    if approval.expires_at:
        yield _seconds(approval.expires_at)
    if terms.expires is not None:
        yield _seconds(approval.decided_at) + terms.expires + _TICK


def _seconds(written: str) -> float:
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        return time.time()  # nobody knows when that is: it is looked at again and again
