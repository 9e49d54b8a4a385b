"""What decisions depend on: always as it is now, and read only when it changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metier.store import (
    Approval,
    ApprovalRequest,
    Install,
    Person,
    Proposal,
    ScanRow,
    Store,
    TenantScope,
)


def approve(scope: TenantScope) -> Approval:
    return scope.approvals.add(Approval(digest="d", skill="x@y", decided_by="ada", grants=("scripts",)))


def test_it_is_the_same_object_until_something_changes(scope: TenantScope) -> None:
    first = scope.state()
    assert scope.state() is first
    approve(scope)
    assert scope.state() is not first


def test_it_holds_blocks_approvals_and_installs(scope: TenantScope) -> None:
    scope.blocks.add("digest", "sha256:1", reason="", by="")
    first, second = approve(scope), approve(scope)
    install = scope.installs.put(Install(location="/x", skill="x", digest="d"))
    state = scope.state()
    assert state.blocked == {("digest", "sha256:1")}
    assert set(state.approvals["d"]) == {first, second}
    assert state.installs == {"/x": install}


def test_what_was_revoked_is_no_longer_in_it(scope: TenantScope) -> None:
    kept, revoked = approve(scope), approve(scope)
    scope.approvals.revoke(revoked.id, "ada", "changed her mind")
    assert scope.state().approvals["d"] == (kept,)


CHANGES: dict[str, Callable[[TenantScope, Approval], object]] = {
    "add approval": lambda scope, approval: approve(scope),
    "revoke": lambda scope, approval: scope.approvals.revoke(approval.id, "ada", ""),
    "fell": lambda scope, approval: scope.approvals.fell(approval.id, "e"),
    "block": lambda scope, approval: scope.blocks.add("name", "y", reason="", by=""),
    "unblock": lambda scope, approval: scope.blocks.remove("name", "x"),
    "install": lambda scope, approval: scope.installs.put(Install(location="/y", skill="y", digest="d")),
    "uninstall": lambda scope, approval: scope.installs.remove("/x"),
}


@pytest.mark.covers("A-5", "A-50")
def test_every_change_is_seen_by_others_at_their_next_look(store_url: str) -> None:
    with Store.open(store_url) as ours, Store.open(store_url) as theirs:
        scope, other = ours.of("acme"), theirs.of("acme")
        scope.blocks.add("name", "x", reason="", by="")
        scope.installs.put(Install(location="/x", skill="x", digest="d"))
        approval = approve(scope)
        for what, change in CHANGES.items():
            before = other.state()
            assert other.state() is before, what
            change(scope, approval)
            after = other.state()
            assert after is not before, what
            assert after == scope.state(), what


def test_what_decisions_do_not_depend_on_changes_nothing(scope: TenantScope) -> None:
    approve(scope)
    before = scope.state()
    scope.people.add(Person(name="ada"))
    scope.proposals.add(Proposal(skill="x"))
    scope.scans.put(ScanRow(digest="d", engine="core"))
    scope.approvals.request(ApprovalRequest(digest="e", skill="x"))
    scope.audit.append({"type": "skill.activated"})
    scope.blocks.remove("name", "not there")
    assert scope.state() is before


def test_what_was_taken_back_is_never_mistaken_for_what_is(scope: TenantScope) -> None:
    with pytest.raises(ZeroDivisionError), scope.transaction():
        scope.blocks.add("name", "x", reason="", by="")
        assert scope.state().blocked == {("name", "x")}
        raise ZeroDivisionError
    scope.blocks.add("name", "y", reason="", by="")
    assert scope.state().blocked == {("name", "y")}


def test_of_many_tenants_only_so_many_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.store.store._MAX_STATES", 5)
    with Store.open(store.url) as ours:
        for number in range(12):
            ours.of(f"tenant-{number}").state()
        assert len(ours.states) <= 5


@pytest.mark.covers("SEC-6")
def test_a_number_that_was_set_back_by_sql_hides_no_decision_from_others(store_url: str) -> None:
    def quarantine(scope: TenantScope, approval: Approval) -> None:
        with scope.transaction():
            scope.blocks.add("name", "x", reason="", by="ada")
            scope.audit.append({"type": "skill.quarantined", "notes": ["name x"]})

    with Store.open(store_url) as ours, Store.open(store_url) as theirs:
        scope, other = ours.of("acme"), theirs.of("acme")
        approval = approve(scope)
        ((number,),) = ours.pool.execute("SELECT number FROM generations WHERE tenant = 'acme'")
        for change in (quarantine, CHANGES["revoke"], CHANGES["add approval"]):
            seen = other.state()
            change(scope, approval)
            with ours.pool.transaction():
                ours.pool.change("UPDATE generations SET number = ?", (number,))
            assert other.state() is not seen
        assert other.state().blocked == {("name", "x")}
        assert approval not in other.state().approvals["d"]
