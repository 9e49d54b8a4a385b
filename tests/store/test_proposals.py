"""Proposals, scans and policies that are kept."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument
from metier.store import Block, Proposal, ScanRow, TenantScope


def test_a_proposal_comes_back_as_it_was_made(scope: TenantScope) -> None:
    made = scope.proposals.add(
        Proposal(
            kind="new",
            skill="x@y",
            location="/x",
            base_digest="d1",
            proposed_digest="d2",
            diff="--- a\n+++ b\n" + "x" * 100_000,
            justification="\x1b[31m",
            evidence=["log", "run"],
            author_kind="agent",
            author="bot",
            capabilities_new=("scripts",),
        )
    )
    assert made.id.startswith("p-")
    assert scope.proposals.get(made.id) == made
    assert scope.proposals.get("p-none") is None


def test_a_proposal_moves_on_only_from_where_it_is_expected(scope: TenantScope) -> None:
    made = scope.proposals.add(Proposal(skill="x"))
    assert scope.proposals.move(made.id, expected="open", to="approved", reviewer="ada", comment="fine")
    assert not scope.proposals.move(made.id, expected="open", to="rejected", reviewer="bob")
    assert scope.proposals.move(made.id, expected="approved", to="applied", applied_digest="d2")
    found = scope.proposals.get(made.id)
    assert found is not None
    assert (found.status, found.reviewer, found.comment, found.applied_digest) == ("applied", "ada", "fine", "d2")
    assert found.decided_at


def test_proposals_are_found_by_status_and_skill(scope: TenantScope) -> None:
    first, second = (scope.proposals.add(Proposal(skill=name)) for name in ("a", "b"))
    scope.proposals.move(second.id, expected="open", to="withdrawn")
    assert [one.id for one in scope.proposals.all()] == [first.id, second.id]
    assert [one.id for one in scope.proposals.all("open")] == [first.id]
    assert [one.id for one in scope.proposals.all(skill="b")] == [second.id]
    assert scope.proposals.all("open", "b") == []


def test_anybody_may_say_what_they_think_while_it_is_open(scope: TenantScope) -> None:
    made = scope.proposals.add(Proposal(skill="x"))
    assert scope.proposals.recommend(made.id, {"by": "bot", "says": "approve"})
    assert scope.proposals.recommend(made.id, {"by": "ada", "says": "reject"})
    scope.proposals.move(made.id, expected="open", to="rejected")
    assert not scope.proposals.recommend(made.id, {"by": "late"})
    found = scope.proposals.get(made.id)
    assert found is not None
    assert [one["by"] for one in found.recommendations] == ["bot", "ada"]


def test_what_cannot_become_of_a_proposal_is_refused(scope: TenantScope) -> None:
    made = scope.proposals.add(Proposal(skill="x"))
    with pytest.raises(InvalidArgument):
        scope.proposals.move(made.id, expected="open", to="eaten")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        scope.proposals.recommend(made.id, {"by": object()})


def test_the_last_scan_of_each_engine_counts(scope: TenantScope) -> None:
    scope.scans.put(ScanRow(digest="d", engine="core", max_severity="low"))
    last = scope.scans.put(ScanRow(digest="d", engine="core", max_severity="high", findings=[{"rule": "R", "line": 3}]))
    other = scope.scans.put(ScanRow(digest="d", engine="other", status="error", ms=5))
    scope.scans.put(ScanRow(digest="e", engine="core"))
    assert scope.scans.latest("d") == [last, other]
    assert scope.scans.severities("d") == {one.engine: one.max_severity for one in (last, other)}
    assert scope.scans.severities("f") == {}


def test_a_policy_is_kept_once_word_by_word(scope: TenantScope) -> None:
    assert scope.policies.keep("d", "enterprise", "/etc/metier/policy.yaml", "mode: enforce\n")
    assert not scope.policies.keep("d", "enterprise", "/etc/metier/policy.yaml", "mode: enforce\n")
    assert scope.policies.keep("d", "project", "/" + "x" * 5_000, "mode: audit\n")
    assert sorted(scope.policies.texts("d").values()) == ["mode: audit\n", "mode: enforce\n"]


def test_what_is_blocked_says_by_whom_and_why(scope: TenantScope) -> None:
    scope.blocks.add("source", "evil", reason="first", by="ada")
    block = scope.blocks.add("source", "evil", reason="second", by="bob")
    assert scope.blocks.all() == [block]
    assert block == Block(kind="source", value="evil", reason="second", by="bob", at=block.at)
    assert scope.blocks.remove("source", "evil")
    assert not scope.blocks.remove("source", "evil")


@pytest.mark.each(("kind", "value"), [("colour", "x"), ("name", ""), ("name", "x" * 3_000)])
def test_what_cannot_be_blocked_is_refused(scope: TenantScope, kind: str, value: str) -> None:
    with pytest.raises(InvalidArgument):
        scope.blocks.add(kind, value, reason="", by="")  # type: ignore[arg-type]
