"""The base of a review: the content that somebody last answered for, if it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier._lazy import dataclass

if TYPE_CHECKING:
    from metier.hub.skill_location import SkillLocation
    from metier.store import TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewBase:
    """A content that a change is shown against.

    A skill whose files somebody changed by hand must not be proposed in its new form by a small change to it: the
    reviewer would see that change alone, and answer for all of it.
    """

    digest: str
    kind: Literal["current", "accepted", "never"]
    """`current` is there now, `accepted` was accepted before a change by hand, `never` was accepted by nobody."""

    @property
    def note(self) -> str:
        """A note for the reviewer beside the diff; mostly empty."""
        if self.kind == "accepted":
            return (
                "The skill was changed by hand since it was last accepted. The diff is against what was accepted "
                f"({self.digest}), and so shows those changes too."
            )
        if self.kind == "never":
            return "Nobody has accepted the rest of this skill yet: to approve this is to approve all of it."
        return ""


def is_changed_by_hand(scope: TenantScope, home: SkillLocation, current: str) -> bool:
    """Whether other content than that of a skill now is on record for its place, or was approved."""
    install = scope.installs.get(home.location)
    is_recorded = install is not None and install.digest == current
    return not is_recorded and (
        install is not None or review_base_of(scope, home.ref, home.location, current, current).kind == "accepted"
    )


def review_base_of(scope: TenantScope, skill: str, location: str, current: str, proposed: str) -> ReviewBase:
    """The base to compare a proposed content with, where another one lies now; both by digest."""
    if not current:
        return ReviewBase(digest="", kind="current")
    install = scope.installs.get(location)
    accepted = [install.digest] if install is not None else []
    accepted += [
        one.digest
        for one in reversed(scope.approvals.all(active_only=True))
        if one.skill == skill and one.decision == "approved" and one.digest not in accepted
    ]
    if current in accepted:
        return ReviewBase(digest=current, kind="current")
    for digest in accepted:
        if scope.revisions.has(digest):
            # What brings the accepted content back is shown as what it does to the folder.
            return (
                ReviewBase(digest=current, kind="current")
                if digest == proposed
                else ReviewBase(digest=digest, kind="accepted")
            )
    return ReviewBase(digest=current, kind="never")
