"""What approvals come to now is kept, and never for longer than it is true."""

from __future__ import annotations

import time

import pytest

from metier.guard.approvals.status import current_status, timestamp
from metier.guard.policy.effective import ApprovalTerms
from metier.store import Approval

START = 1_800_000_000.0
DAY = 86_400


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    now = [START]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def approval(**said: object) -> Approval:
    given = {"digest": "sha256:1", "skill": "a@b", "grants": ("scripts",), "decided_by": "grace"}
    return Approval(**{**given, "decided_at": timestamp(START), **said})  # type: ignore[arg-type]


@pytest.mark.covers("A-16")
def test_an_approval_counts_until_the_moment_it_runs_out(clock: list[float]) -> None:
    given, terms = (approval(expires_at=timestamp(START + DAY)),), ApprovalTerms()
    assert current_status(given, terms).is_approved
    clock[0] = START + DAY - 0.002
    assert current_status(given, terms).is_approved
    clock[0] = START + DAY
    found = current_status(given, terms)
    assert not found.is_approved
    assert found.expired == given
    clock[0] = START + 1  # a clock that is set back gives back what it took
    assert current_status(given, terms).is_approved


@pytest.mark.covers("A-16")
@pytest.mark.parametrize("late", [0.001, 0.0011, 0.5, 2.0, DAY])
def test_how_long_policy_lets_it_last_counts_as_well(clock: list[float], late: float) -> None:
    given, terms = (approval(),), ApprovalTerms(expires=DAY)
    assert current_status(given, terms).is_approved
    for moment_of_looking in (START + DAY, START + DAY + 0.0005, START + DAY + 0.000999):
        clock[0] = moment_of_looking
        current_status(given, terms)
    clock[0] = START + DAY + 0.001 + late
    assert not current_status(given, terms).is_approved


def test_other_terms_places_and_approvals_are_looked_at_for_themselves(clock: list[float]) -> None:
    given = (approval(layer="user", environment="prod"),)
    assert current_status(given, ApprovalTerms(), layer="user", environment="prod").is_approved
    assert not current_status(given, ApprovalTerms(), layer="project", environment="prod").is_approved
    assert not current_status(given, ApprovalTerms(), layer="user", environment="dev").is_approved
    assert not current_status(given, ApprovalTerms(quorum=2), layer="user", environment="prod").is_approved
    refused = (*given, approval(decision="denied", layer="user", environment="prod"))
    assert current_status(refused, ApprovalTerms(), layer="user", environment="prod").denied is refused[1]


def test_a_time_that_cannot_be_read_is_looked_at_again(clock: list[float]) -> None:
    given, terms = (approval(expires_at="2027-99-99"),), ApprovalTerms()
    assert current_status(given, terms).is_approved  # as text, it is later
    clock[0] = START + 400 * DAY
    assert not current_status(given, terms).is_approved
