"""What the approvals of one content amount to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.guard.approvals.status import ApprovalStatus, approval_status, expiry, timestamp
from metier.store import Approval

NOW = timestamp(1_000)


def approval(by: str = "ada", *grants: str, **more: Any) -> Approval:
    given: dict[str, Any] = {"id": f"a-{by}", "digest": "sha256:1", "skill": "pdf@acme", "decided_at": timestamp(10)}
    return Approval(**{**given, "decided_by": by, "grants": grants, **more})


def standing_of(*approvals: Approval, quorum: int = 1, now: str = NOW, **more: Any) -> ApprovalStatus:
    place = {"layer": "plugin", "environment": "prod", **more}
    return approval_status(approvals, quorum=quorum, now=now, **place)


def test_nothing_is_granted_by_nobody() -> None:
    found = standing_of()
    assert found == ApprovalStatus()
    assert not found.is_approved


@pytest.mark.covers("A-10")
def test_one_approval_grants_what_it_says() -> None:
    found = standing_of(approval("ada", "scripts", "hooks", tools=("Bash(git:*)",)))
    assert found.grants == {"scripts", "hooks"}
    assert found.tools == ("Bash(git:*)",)
    assert found.ids == ("a-ada",)
    assert found.is_approved


def test_an_approval_may_grant_no_capability_at_all() -> None:
    found = standing_of(approval("ada"))
    assert found.is_approved
    assert found.grants == frozenset()


@pytest.mark.each(
    ("more", "counts"),
    [
        ({}, True),
        ({"layer": "plugin"}, True),
        ({"layer": "project"}, False),
        ({"environment": "prod"}, True),
        ({"environment": "dev"}, False),
        ({"revoked_at": timestamp(20)}, False),
        ({"fell_to": "sha256:2"}, True),
    ],
)
def test_an_approval_counts_where_it_was_given_for(more: dict[str, str], counts: bool) -> None:
    assert standing_of(approval("ada", "scripts", **more)).is_approved is counts


def test_a_capability_needs_as_many_people_as_the_quorum() -> None:
    found = standing_of(approval("ada", "scripts", "hooks"), approval("bob", "scripts"), quorum=2)
    assert found.grants == {"scripts"}
    assert found.is_approved
    assert found.approvers == {"ada", "bob"}


def test_one_person_counts_once_however_often_they_agree() -> None:
    found = standing_of(approval("ada", "scripts", id="a-1"), approval("ada", "scripts", id="a-2"), quorum=2)
    assert (found.grants, found.ids) == (frozenset(), ())
    assert found.approvers == {"ada"}
    assert not found.is_approved


def test_one_of_two_has_agreed_and_nothing_is_granted() -> None:
    found = standing_of(approval("ada", "scripts", tools=("Read",)), quorum=2)
    assert (found.grants, found.tools, found.ids) == (frozenset(), (), ())
    assert found.approvers == {"ada"}


def test_what_policy_approved_of_needs_nobody_else() -> None:
    found = standing_of(approval("policy", "scripts", rule="auto-approve-when: scan-max low"), quorum=3)
    assert found.grants == {"scripts"}
    assert found.is_approved
    found = standing_of(approval("policy", "scripts", rule="r"), approval("ada", "hooks"), quorum=3)
    assert found.grants == {"scripts"}


def test_a_refusal_outweighs_everybody_who_agrees() -> None:
    found = standing_of(approval("ada", "scripts"), approval("bob", decision="denied"), approval("cyd", "scripts"))
    assert found.denied is not None
    assert found.denied.decided_by == "bob"
    assert not found.is_approved


def test_a_refusal_that_was_taken_back_is_none() -> None:
    assert standing_of(approval("bob", decision="denied", revoked_at=timestamp(20))).denied is None


@pytest.mark.covers("A-16")
def test_an_approval_counts_until_the_moment_it_runs_out() -> None:
    given = approval("ada", "scripts", expires_at=timestamp(1_000))
    assert standing_of(given, now=timestamp(999.999)).is_approved
    found = standing_of(given, now=timestamp(1_000))
    assert not found.is_approved
    assert found.grants == frozenset()
    assert found.expired == (given,)


@pytest.mark.covers("A-16")
def test_a_policy_that_lets_approvals_last_less_long_holds_for_old_ones() -> None:
    given = approval("ada", "scripts", decided_at=timestamp(100))
    assert standing_of(given, since=timestamp(100)).is_approved
    assert standing_of(given, since=timestamp(101)).expired == (given,)


def test_a_quorum_that_one_half_of_ran_out_is_none() -> None:
    found = standing_of(
        approval("ada", "scripts", expires_at=timestamp(500)), approval("bob", "scripts", expires_at=""), quorum=2
    )
    assert not found.is_approved
    assert found.grants == frozenset()


@pytest.mark.each("seconds", [0, -1, 1e12, float("inf"), float("nan")])
def test_nothing_lasts_for_no_time_or_for_ever(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="some time"):
        expiry(0, seconds)


def test_the_shortest_of_several_times_counts() -> None:
    assert expiry(10, 50, 20, None) == timestamp(30)


people = st.sampled_from(["ada", "bob", "cyd"])
capabilities = st.lists(st.sampled_from(["scripts", "hooks", "file-write"]), unique=True).map(tuple)
approvals = st.lists(
    st.builds(
        Approval,
        id=st.uuids().map(str),
        digest=st.just("sha256:1"),
        skill=st.just("pdf@acme"),
        layer=st.sampled_from(["", "plugin", "project"]),
        environment=st.sampled_from(["", "prod", "dev"]),
        grants=capabilities,
        decision=st.sampled_from(["approved", "denied"]),
        decided_by=people,
        decided_at=st.sampled_from([timestamp(1), timestamp(2)]),
        expires_at=st.sampled_from(["", timestamp(5), timestamp(500)]),
        revoked_at=st.sampled_from(["", timestamp(3)]),
    ),
    max_size=6,
)


@given(approvals, st.integers(1, 4), st.sampled_from([timestamp(4), timestamp(50), timestamp(5_000)]))
def test_more_time_and_a_larger_quorum_never_grant_more(given: list[Approval], quorum: int, now: str) -> None:
    found = approval_status(given, layer="plugin", environment="prod", quorum=quorum, now=now)
    stricter = approval_status(given, layer="plugin", environment="prod", quorum=quorum + 1, now=now)
    later = approval_status(given, layer="plugin", environment="prod", quorum=quorum, now=timestamp(9_999))
    assert stricter.grants <= found.grants
    assert later.grants <= found.grants
    assert not (later.is_approved and not found.is_approved)
    for what in found.grants:
        who = {
            one.decided_by
            for one in given
            if what in one.grants
            and one.decision == "approved"
            and not one.revoked_at
            and (not one.expires_at or one.expires_at > now)
        }
        assert len(who) >= quorum
