"""Approvals, and the requests for them."""

from __future__ import annotations

import threading

import pytest

from metier.errors import InvalidArgument
from metier.store import Approval, ApprovalRequest, Store, TenantScope


def test_a_request_comes_back_as_it_was_made(scope: TenantScope) -> None:
    made = scope.approvals.request(
        ApprovalRequest(
            digest="sha256:1",
            skill="x@y",
            layer="plugin",
            environment="prod",
            capabilities=("scripts", "hooks"),
            new=("hooks",),
            scripts={"scripts/x.py": "ab" * 32},
            requested_by="ada",
            reason="line\nline \x1b[31m \udc80",
        )
    )
    assert made.id.startswith("r-")
    assert made.created_at
    assert scope.approvals.get_request(made.id) == made
    assert scope.approvals.requests("pending") == [made]
    assert scope.approvals.requests("denied") == []


def test_one_request_waits_for_each_content_and_environment(scope: TenantScope) -> None:
    first = scope.approvals.request(ApprovalRequest(digest="d", skill="x", requested_by="ada"))
    assert scope.approvals.request(ApprovalRequest(digest="d", skill="x", requested_by="bob")) == first
    other = scope.approvals.request(ApprovalRequest(digest="d", skill="x", environment="prod"))
    assert other.id != first.id
    assert scope.approvals.set_request(first.id, "denied", expected="pending")
    assert scope.approvals.request(ApprovalRequest(digest="d", skill="x")).id != first.id


def test_of_many_who_ask_at_once_one_request_is_made(store: Store) -> None:
    ids: list[str] = []

    def ask() -> None:
        ids.append(store.of("acme").approvals.request(ApprovalRequest(digest="d", skill="x")).id)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ids) == 6
    assert len(set(ids)) == 1


def test_a_request_is_decided_once(scope: TenantScope) -> None:
    made = scope.approvals.request(ApprovalRequest(digest="d", skill="x"))
    assert scope.approvals.set_request(made.id, "approved", expected="pending")
    assert not scope.approvals.set_request(made.id, "denied", expected="pending")
    assert not scope.approvals.set_request("r-none", "denied", expected="pending")
    found = scope.approvals.get_request(made.id)
    assert found is not None
    assert found.status == "approved"


def test_an_approval_comes_back_as_it_was_given(scope: TenantScope) -> None:
    made = scope.approvals.add(
        Approval(
            request="r-1",
            digest="sha256:1",
            skill="x@y",
            layer="plugin",
            environment="prod",
            grants=("scripts",),
            tools=("Bash(git *)",),
            decided_by="ada",
            reason="ok",
            policy="sha256:p",
            rule="R1",
            expires_at="2030-01-01T00:00:00.000+00:00",
        )
    )
    assert made.id.startswith("a-")
    assert scope.approvals.get(made.id) == made
    assert scope.approvals.of("sha256:1") == [made]
    assert scope.approvals.of("sha256:2") == []


def test_what_was_revoked_says_by_whom_and_why(scope: TenantScope) -> None:
    made = scope.approvals.add(Approval(digest="d", skill="x", decided_by="ada"))
    assert scope.approvals.revoke(made.id, "bob", "it leaks")
    assert not scope.approvals.revoke(made.id, "eve", "again")
    found = scope.approvals.get(made.id)
    assert found is not None
    assert (found.revoked_by, found.revoked_reason) == ("bob", "it leaks")
    assert found.revoked_at >= made.decided_at
    assert scope.approvals.all(active_only=True) == []
    assert scope.approvals.all() == [found]


def test_that_content_changed_is_noted_once_and_revokes_nothing(scope: TenantScope) -> None:
    made = scope.approvals.add(Approval(digest="d", skill="x", decided_by="ada"))
    assert scope.approvals.fell(made.id, "e")
    assert not scope.approvals.fell(made.id, "e")
    assert not scope.approvals.fell("a-none", "e")
    (found,) = scope.approvals.all(active_only=True)
    assert found.fell_to == "e"


@pytest.mark.each(
    "approval",
    [
        Approval(digest="", skill="x", decided_by="ada"),
        Approval(digest="d" * 3_000, skill="x", decided_by="ada"),
        Approval(digest="d", skill="x", decided_by="ada", decision="maybe"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_an_approval_is_refused(scope: TenantScope, approval: Approval) -> None:
    with pytest.raises(InvalidArgument):
        scope.approvals.add(approval)
    assert scope.approvals.all() == []


def test_an_id_that_is_taken_is_refused(scope: TenantScope) -> None:
    made = scope.approvals.request(ApprovalRequest(digest="d", skill="x"))
    with pytest.raises(InvalidArgument):
        scope.approvals.request(ApprovalRequest(id=made.id, digest="e", skill="x"))


def test_without_an_id_or_a_digest_there_is_no_approval(scope: TenantScope) -> None:
    given = scope.approvals.add(Approval(digest="sha256:1", skill="demo@project", decided_by="ada"))
    assert scope.approvals.get(None) is None  # type: ignore[arg-type]
    assert scope.approvals.of(None) == []  # type: ignore[arg-type]
    assert not scope.approvals.revoke(None, by="ada", reason="")  # type: ignore[arg-type]
    assert scope.approvals.all(active_only=True) == [given]
