"""The policy of a tenant counts as far as the audit log vouches for it."""

from __future__ import annotations

import pytest

from metier.store import Store


def tamper(store: Store) -> None:
    """Change an earlier record, as only somebody who writes past us can."""
    open_it = {
        "sqlite": "DROP TRIGGER audit_log_no_update",
        "postgresql": "ALTER TABLE audit_log DISABLE TRIGGER audit_log_no_change",
    }[store.kind]
    with store.of().transaction():
        store.pool.change(open_it)
        store.pool.change("UPDATE audit_log SET data_json = '{}' WHERE seq = 1")


def test_the_last_version_counts_for_its_tenant_alone(store: Store) -> None:
    scope = store.of("acme")
    scope.policy_versions.add("version: 1\n", by="ada")
    scope.policy_versions.add("mode: audit\n", by="bea", reason="For a week.")
    last = scope.policy_versions.last()
    assert last is not None and (last.number, last.text, last.by, last.reason) == (
        2,
        "mode: audit\n",
        "bea",
        "For a week.",
    )
    assert [one.number for one in scope.policy_versions.all()] == [1, 2]
    assert scope.state().policy == last
    assert store.of().policy_versions.last() is None and store.of().state().policy is None


def test_the_state_is_another_object_once_the_policy_is_another(store: Store) -> None:
    scope = store.of()
    before = scope.state()
    assert scope.state() is before
    scope.policy_versions.add("version: 1\n", by="ada")
    assert scope.state().policy is not None


def test_another_process_sees_a_new_version(store: Store) -> None:
    with Store.open(store.url) as other:
        assert other.of().state().policy is None
        store.of().policy_versions.add("version: 1\n", by="ada")
        found = other.of().state().policy
        assert found is not None and found.number == 1


@pytest.mark.parametrize("has_policy", [True, False])
def test_where_the_audit_log_is_not_as_it_was_written_nobody_knows_the_policy(store: Store, has_policy: bool) -> None:
    scope = store.of()
    scope.blocks.add("name", "x", reason="r", by="ada")
    scope.audit.append({"event": "skill", "type": "skill.activated", "decision": "allow"})
    if has_policy:
        scope.policy_versions.add("version: 1\n", by="ada")
    tamper(store)
    with Store.open(store.url) as fresh:
        last = fresh.of().policy_versions.last()
    assert (last is not None and not last.is_intact) if has_policy else last is None
