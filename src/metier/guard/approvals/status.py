"""What the approvals of one content amount to, for one place, at one moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from metier.store import Approval

    Clock: TypeAlias = Callable[[], float]
    from collections.abc import Iterator

    from metier.guard.policy.effective import ApprovalTerms


_MAX_SECONDS = 100 * 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """What is granted to one content, by whom, and what is against it.

    >>> ApprovalStatus().is_approved
    False
    """

    grants: frozenset[str] = frozenset()
    """The capabilities that enough people agreed to, each of them."""
    tools: tuple[str, ...] = ()
    """The tool rules that enough people agreed to."""
    ids: tuple[str, ...] = ()
    """The approvals that count; none while too few people agreed."""
    approvers: frozenset[str] = frozenset()
    """Who agreed so far, few as they may be."""
    denied: Approval | None = None
    """Somebody said no, and nobody took that back: it outweighs whoever agreed."""
    expired: tuple[Approval, ...] = ()
    """Approvals that have run out."""

    @property
    def is_approved(self) -> bool:
        """Whether enough people agreed, and nobody said no."""
        return bool(self.ids) and self.denied is None


_NOTHING = ApprovalStatus()


def moment(seconds: float) -> str:
    """A time of a clock as the store writes it, so that times can be compared as text.

    >>> moment(0)
    '1970-01-01T00:00:00.000+00:00'
    """
    # What lies before all times is as good as the beginning of them.
    return datetime.fromtimestamp(max(seconds, 0.0), UTC).isoformat(timespec="milliseconds")


def end_of(now: float, *lasting: float | None) -> str:
    """When something runs out that may last for so many seconds, by whoever says the least; "" for never.

    >>> end_of(0, 3600, None), end_of(0, None)
    ('1970-01-01T01:00:00.000+00:00', '')
    """
    said = [seconds for seconds in lasting if seconds is not None]
    if not said:
        return ""
    if not 0 < min(said) <= _MAX_SECONDS:
        raise InvalidArgument("It must last for some time, and at most for 100 years.", hint="Write 30d.")
    return moment(now + min(said))


def is_over(approval: Approval, now: str, since: str = "") -> bool:
    """Whether an approval has run out, or is from before the time that still counts."""
    return bool(approval.expires_at and approval.expires_at <= now) or approval.decided_at < since


def approval_status(
    approvals: Sequence[Approval], *, layer: str, environment: str, quorum: int, now: str, since: str = ""
) -> ApprovalStatus:
    """What the approvals of one content amount to in a layer and an environment, at a moment.

    A capability is granted once `quorum` different people granted it; an approval that policy itself gave needs nobody
    else. Times are as the store writes them. Approvals from before `since` have run out too: a policy that lets them
    last for a shorter time than before holds for those that are there.
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
        elif is_over(one, now, since):
            expired.append(one)
        else:
            counting.append(one)
    if not counting:
        return ApprovalStatus(denied=denied, expired=tuple(expired)) if denied is not None or expired else _NOTHING
    people = frozenset(one.decided_by for one in counting if not one.rule)
    is_enough = len(people) >= quorum or any(one.rule for one in counting)
    return ApprovalStatus(
        grants=frozenset(_agreed(counting, quorum, lambda one: one.grants)),
        tools=_agreed(counting, quorum, lambda one: one.tools),
        ids=tuple(one.id for one in counting) if is_enough else (),
        approvers=people,
        denied=denied,
        expired=tuple(expired),
    )


def _agreed(counting: list[Approval], quorum: int, granted: Callable[[Approval], tuple[str, ...]]) -> tuple[str, ...]:
    """What enough different people granted, in the order it was granted in."""
    if len(counting) == 1:
        return granted(counting[0]) if quorum <= 1 or counting[0].rule else ()
    who: dict[str, set[str]] = {}
    by_policy: set[str] = set()
    for one in counting:
        for what in granted(one):
            who.setdefault(what, set()).add(one.decided_by)
            if one.rule:
                by_policy.add(what)
    return tuple(what for what, people in who.items() if len(people) >= quorum or what in by_policy)


_KEPT = 4_096
_TICK = 0.001
"""The store writes times to the millisecond."""


class _Kept(NamedTuple):
    approvals: tuple[Approval, ...]
    terms: ApprovalTerms
    since: float
    until: float
    status: ApprovalStatus


_kept: dict[tuple[int, str, str], _Kept] = {}


def current_status(
    approvals: tuple[Approval, ...], terms: ApprovalTerms, *, layer: str = "", environment: str = ""
) -> ApprovalStatus:
    """What approvals come to here and now, under the terms of a policy.

    Approvals that are the same objects as before are not looked at again before one of them runs out: a decision about
    a skill is made many times, and what was approved changes rarely.

    >>> from metier.guard.policy.effective import ApprovalTerms
    >>> from metier.store import Approval
    >>> given = (Approval(digest="sha256:1", skill="a@b", grants=("scripts",), decided_by="grace"),)
    >>> current_status(given, ApprovalTerms()).grants
    frozenset({'scripts'})
    """
    now = time.time()
    key = (id(approvals), layer, environment)
    kept = _kept.get(key)
    # What is kept holds on to its approvals, so that no others can have their identity; a clock may be set back.
    if kept is not None and kept.approvals is approvals and kept.terms is terms and kept.since <= now < kept.until:
        return kept.status
    found = approval_status(
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
