"""The approval status of one content: what its approvals grant in one layer and environment, at one time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier._cache import BoundedCache
from metier._lazy import dataclass
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.guard.policy.effective import ApprovalTerms
    from metier.store import Approval

    Clock: TypeAlias = Callable[[], float]

ApprovalState: TypeAlias = Literal["counts", "denied", "expired", "revoked"]
_MAX_SECONDS = 100 * 365 * 86_400
_MAX_CACHED = 4_096
_TICK = 0.001
"""The store writes times to the millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """The effective approval of one content.

    >>> ApprovalStatus().is_approved
    False
    """

    grants: frozenset[str] = frozenset()
    """The capabilities that a quorum granted, each of them."""
    tools: tuple[str, ...] = ()
    """The tool rules that a quorum granted."""
    ids: tuple[str, ...] = ()
    """The approvals that count; none before the quorum is reached."""
    approvers: frozenset[str] = frozenset()
    """All people who approved, quorum or not."""
    denied: Approval | None = None
    """A denial that nobody revoked: it outweighs all approvals."""
    expired: tuple[Approval, ...] = ()

    @property
    def is_approved(self) -> bool:
        """Whether a quorum approved, and nobody denied."""
        return bool(self.ids) and self.denied is None


_NOTHING = ApprovalStatus()


def timestamp(seconds: float) -> str:
    """A time of a clock as the store writes it, so that times can be compared as text.

    >>> timestamp(0)
    '1970-01-01T00:00:00.000+00:00'
    """
    return datetime.fromtimestamp(max(seconds, 0.0), UTC).isoformat(timespec="milliseconds")


def expiry(now: float, *lasting: float | None) -> str:
    """The time after the shortest of several durations in seconds; "" for never.

    >>> expiry(0, 3600, None), expiry(0, None)
    ('1970-01-01T01:00:00.000+00:00', '')
    """
    limits = [seconds for seconds in lasting if seconds is not None]
    if not limits:
        return ""
    if not 0 < min(limits) <= _MAX_SECONDS:
        raise InvalidArgument("It must last for some time, and at most for 100 years.", hint="Write 30d.")
    return timestamp(now + min(limits))


def state_of(approval: Approval, now: str) -> ApprovalState:
    """The state of an approval at a time; `counts` also where a quorum is not reached yet."""
    if approval.revoked_at:
        return "revoked"
    if approval.decision == "denied":
        return "denied"
    return "expired" if is_expired(approval, now) else "counts"


def is_expired(approval: Approval, now: str, since: str = "") -> bool:
    """Whether an approval has expired, or was given before `since`."""
    return bool(approval.expires_at and approval.expires_at <= now) or approval.decided_at < since


def approval_status(
    approvals: Sequence[Approval], *, layer: str, environment: str, quorum: int, now: str, since: str = ""
) -> ApprovalStatus:
    """The status that the approvals of one content give it in a layer and an environment, at a time.

    A capability is granted once `quorum` different people granted it; an automatic approval needs nobody else. Times
    are as the store writes them. Approvals from before `since` have expired too: a policy with a shorter time than
    before applies to the approvals that exist.
    """
    if not approvals:
        return _NOTHING
    counting: list[Approval] = []
    expired: list[Approval] = []
    denied: Approval | None = None
    for one in approvals:
        if one.revoked_at or one.layer not in ("", layer) or one.environment not in ("", environment):
            continue
        if one.decision != "approved":
            denied = denied or one
        elif is_expired(one, now, since):
            expired.append(one)
        else:
            counting.append(one)
    if not counting:
        return ApprovalStatus(denied=denied, expired=tuple(expired)) if denied is not None or expired else _NOTHING
    people = frozenset(one.decided_by for one in counting if not one.rule)
    is_enough = len(people) >= quorum or any(one.rule for one in counting)
    return ApprovalStatus(
        grants=frozenset(_granted_by_quorum(counting, quorum, lambda one: one.grants)),
        tools=_granted_by_quorum(counting, quorum, lambda one: one.tools),
        ids=tuple(one.id for one in counting) if is_enough else (),
        approvers=people,
        denied=denied,
        expired=tuple(expired),
    )


def _granted_by_quorum(
    counting: list[Approval], quorum: int, granted: Callable[[Approval], tuple[str, ...]]
) -> tuple[str, ...]:
    """The items that enough different people granted, in the order of the grants."""
    people_by_item: dict[str, set[str]] = {}
    automatic: set[str] = set()
    for one in counting:
        for item in granted(one):
            people_by_item.setdefault(item, set()).add(one.decided_by)
            if one.rule:
                automatic.add(item)
    return tuple(item for item, people in people_by_item.items() if len(people) >= quorum or item in automatic)


class _Cached(NamedTuple):
    approvals: tuple[Approval, ...]
    terms: ApprovalTerms
    since: float
    until: float
    status: ApprovalStatus


_cache: BoundedCache[tuple[int, str, str], _Cached] = BoundedCache(_MAX_CACHED)


def current_status(
    approvals: tuple[Approval, ...], terms: ApprovalTerms, *, layer: str = "", environment: str = "", at: str = ""
) -> ApprovalStatus:
    """The approval status now, or `at` a time, under the terms of a policy, cached until one of the approvals expires.

    The cache knows approvals by their identity: a decision about a skill is made many times, and approvals change
    rarely.

    >>> from metier.guard.policy.effective import ApprovalTerms
    >>> from metier.store import Approval
    >>> given = (Approval(digest="sha256:1", skill="a@b", grants=("scripts",), decided_by="grace"),)
    >>> current_status(given, ApprovalTerms()).grants
    frozenset({'scripts'})
    """
    now = _seconds(at) if at else time.time()
    key = (id(approvals), layer, environment)
    cached = _cache.get(key)
    # An entry holds on to its approvals, so that no others can have their identity; a clock may be set back.
    if (
        cached is not None
        and cached.approvals is approvals
        and cached.terms is terms
        and cached.since <= now < cached.until
    ):
        return cached.status
    status = approval_status(
        approvals,
        layer=layer,
        environment=environment,
        quorum=terms.quorum,
        now=timestamp(now),
        since="" if terms.expires is None else timestamp(now - terms.expires),
    )
    # An approval that has just expired may still count for the rest of a millisecond, and is looked at again after it.
    ends = (end for one in approvals for end in _expiry_times(one, terms) if end > now - 1)
    until = max(min(ends, default=float("inf")), now + _TICK)
    _cache[key] = _Cached(approvals, terms, now, until, status)
    return status


def _expiry_times(approval: Approval, terms: ApprovalTerms) -> Iterator[float]:
    """The times at which an approval expires: its own, and that of the policy."""
    if approval.expires_at:
        yield _seconds(approval.expires_at)
    if terms.expires is not None:
        yield _seconds(approval.decided_at) + terms.expires + _TICK


def _seconds(written: str) -> float:
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        return time.time()  # an unreadable time is looked at again and again
