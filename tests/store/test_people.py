"""People, their roles and their tokens."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument, PersonNotFound
from metier.store import Person, Store, TenantScope
from metier.store.all_tenants import every_row


def test_somebody_who_was_added_is_known_with_their_roles(scope: TenantScope) -> None:
    ada = scope.people.add(Person(name="ada", roles=frozenset({"admin", "reviewer"})))
    bot = scope.people.add(Person(name="bot", kind="agent"))
    assert scope.people.get("ada") == ada
    assert scope.people.get("Ada") is None
    assert scope.people.all() == [ada, bot]


def test_a_store_knows_whether_anybody_was_added(scope: TenantScope) -> None:
    found = [scope.people.is_empty]
    scope.people.add(Person(name="ada"))
    assert [*found, scope.people.is_empty] == [True, False]


def test_anybody_in_any_tenant_is_somebody(store: Store) -> None:
    found = [store.has_people]
    store.of("acme").people.add(Person(name="ada"))
    assert [*found, store.has_people, store.of().people.is_empty] == [False, True, True]


def test_adding_somebody_again_gives_them_other_roles_and_leaves_their_tokens(scope: TenantScope) -> None:
    scope.people.add(Person(name="ada", roles=frozenset({"admin"})))
    _, secret = scope.people.new_token("ada")
    changed = scope.people.add(Person(name="ada", roles=frozenset({"viewer"})))
    assert scope.people.all() == [changed]
    assert scope.people.by_token(secret) == changed


def test_whoever_is_removed_takes_their_tokens_along(scope: TenantScope, store: Store) -> None:
    scope.people.add(Person(name="ada"))
    _, secret = scope.people.new_token("ada")
    assert scope.people.remove("ada")
    assert not scope.people.remove("ada")
    scope.people.add(Person(name="ada"))
    assert scope.people.by_token(secret) is None
    assert store.by_token(secret) is None
    assert scope.people.tokens() == []


def test_of_a_token_only_the_hash_is_kept(scope: TenantScope, store: Store) -> None:
    scope.people.add(Person(name="ada"))
    token, secret = scope.people.new_token("ada", label="laptop")
    assert secret.startswith("mtr_")
    assert len(secret) > 40
    assert scope.people.tokens() == [token]
    assert token.label == "laptop"
    assert secret not in str([list(every_row(store.pool, table)) for table in ("tokens", "people")])


def test_a_token_counts_until_it_expires_or_is_revoked(scope: TenantScope, store: Store) -> None:
    scope.people.add(Person(name="ada"))
    _, expired = scope.people.new_token("ada", expires_at="2020-01-01T00:00:00.000+00:00")
    token, valid = scope.people.new_token("ada", expires_at="2999-01-01T00:00:00.000+00:00")
    assert scope.people.by_token(expired) is None
    assert scope.people.by_token(valid) is not None
    assert scope.people.revoke_token(token.id)
    assert not scope.people.revoke_token(token.id)
    assert scope.people.by_token(valid) is None
    assert store.by_token(valid) is None


@pytest.mark.each("secret", ["", "mtr_", "mtr_x", "x", "mtr_\0", "mtr_\udc80", "' OR 1=1 --", "%", "?"])
def test_what_is_no_token_is_nobodys(scope: TenantScope, store: Store, secret: str) -> None:
    assert scope.people.by_token(secret) is None
    assert store.by_token(secret) is None


def test_no_name_is_nobodys(scope: TenantScope) -> None:
    scope.people.add(Person(name="ada", roles=frozenset({"admin"})))
    assert scope.people.get(None) is None  # type: ignore[arg-type]
    assert scope.people.get("") is None


def test_there_is_no_token_for_nobody(scope: TenantScope) -> None:
    with pytest.raises(PersonNotFound):
        scope.people.new_token("ada")
    assert scope.people.tokens() == []


@pytest.mark.each(
    "person",
    [
        Person(name=""),
        Person(name="ada", roles=frozenset({"king"})),
        Person(name="ada", kind="cat"),  # type: ignore[arg-type]
        Person(name="x" * 3_000),
    ],
)
def test_who_cannot_be_is_refused(scope: TenantScope, person: Person) -> None:
    with pytest.raises(InvalidArgument):
        scope.people.add(person)


def test_the_token_by_which_somebody_is_known_can_be_found(scope: TenantScope, store: Store) -> None:
    scope.people.add(Person(name="ada", roles=frozenset({"admin"})))
    token, secret = scope.people.new_token("ada", label="browser")
    found = store.by_token(secret)
    assert found is not None and scope.people.token_of(found[1]) == token
    assert store.of("other").people.token_of(found[1]) is None
    assert scope.people.token_of(Person(name="ada")) is None
