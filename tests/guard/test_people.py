"""Who may be added under which name, and what a token is worth that was made with another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metier.errors import InvalidArgument
from metier.guard.approvals.people import add_person, make_token, remove_person, revoke_token
from metier.store import Person, Store, TenantScope

ROOT = Person(name="root", roles=frozenset({"admin"}))
DAY = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/metier.db") as store:
        add_person(store.of(), ROOT, "root", ["admin"])
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    return store.of()


def known_by(store: Store, secret: str) -> Person:
    found = store.by_token(secret)
    assert found is not None
    return found[1]


@pytest.mark.covers("SEC-21")
def test_a_token_that_was_made_with_a_token_ends_with_it(store: Store, scope: TenantScope) -> None:
    first, secret = make_token(scope, ROOT, "root", expires=DAY)
    for expires in (None, 365 * DAY):
        second, _ = make_token(scope, known_by(store, secret), "root", expires=expires)
        assert second.expires_at == first.expires_at
    shorter, _ = make_token(scope, known_by(store, secret), "root", expires=60)
    assert shorter.expires_at < first.expires_at


@pytest.mark.covers("SEC-21")
def test_to_revoke_a_token_revokes_all_that_were_made_with_it(store: Store, scope: TenantScope) -> None:
    first, secret = make_token(scope, ROOT, "root")
    second, second_secret = make_token(scope, known_by(store, secret), "root")
    third, third_secret = make_token(scope, known_by(store, second_secret), "root")
    _, other_secret = make_token(scope, ROOT, "root")
    revoked = revoke_token(scope, ROOT, first.id)
    assert [one.id for one in revoked] == [first.id, second.id, third.id]
    assert [store.by_token(one) for one in (secret, second_secret, third_secret)] == [None] * 3
    assert known_by(store, other_secret).name == "root"
    told = [record["reason"] for record in scope.audit.search(type="token.revoked")]
    assert sorted(told) == sorted(f"{one.id} of root" for one in (first, second, third))
    assert [one.revoked_at != "" for one in scope.people.tokens()] == [True, True, True, False]


@pytest.mark.covers("SEC-21")
def test_a_token_for_somebody_who_was_added_with_a_token_ends_with_it(store: Store, scope: TenantScope) -> None:
    first, secret = make_token(scope, ROOT, "root", expires=DAY)
    by = known_by(store, secret)
    add_person(scope, by, "mallory", ["admin"])
    mallorys, mallorys_secret = make_token(scope, by, "mallory")
    assert mallorys.expires_at == first.expires_at
    revoke_token(scope, ROOT, first.id)
    assert store.by_token(mallorys_secret) is None


@pytest.mark.covers("SEC-21")
def test_a_token_of_a_tenant_ends_with_the_one_of_the_installation_that_made_it(
    store: Store, scope: TenantScope
) -> None:
    first, secret = make_token(scope, ROOT, "root")
    acme = store.of("acme")
    add_person(acme, known_by(store, secret), "tina", ["admin"])
    _, tinas = make_token(acme, known_by(store, secret), "tina")
    assert known_by(store, tinas).name == "tina"
    revoke_token(scope, ROOT, first.id)
    assert store.by_token(tinas) is None


@pytest.mark.covers("SEC-21")
def test_a_token_ends_when_whoever_had_the_one_before_it_is_removed(store: Store, scope: TenantScope) -> None:
    add_person(scope, ROOT, "ada", ["admin"])
    _, secret = make_token(scope, ROOT, "ada")
    _, roots = make_token(scope, known_by(store, secret), "root")
    assert known_by(store, roots).name == "root"
    remove_person(scope, ROOT, "ada")
    assert store.by_token(roots) is None


@pytest.mark.covers("SEC-22")
@pytest.mark.each(
    "name",
    [
        *("ROOT", "Root", "root ", " root", "root\u200b", "r\u200doot", "root\n", "ro\u00adot", "\u202eroot", "root\0"),
        *(
            "r\u043e\u043et",
            "\u0433oot",
            "ro\u03bft",
            "\uff52\uff4f\uff4f\uff54",
            "r\u00f6ot",
            "r\U0001d428ot",
            "r\u1d0f\u1d0ft",
        ),
        *("system", "METIER", "policy", "m\u0435tier", "Policy", "d\u0430ta", "\u0430da7", "a" * 65, "", ".", "-x"),
    ],
)
def test_nobody_is_added_under_a_name_that_is_taken_for_another(scope: TenantScope, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        add_person(scope, ROOT, name, ["admin"])
    assert caught.value.hint
    assert [one.name for one in scope.people.all()] == ["root"]


@pytest.mark.covers("SEC-22")
def test_a_plain_name_is_not_added_where_one_is_that_looks_like_it(scope: TenantScope) -> None:
    add_person(scope, ROOT, "\u0430\u0435\u043e", ["viewer"])
    with pytest.raises(InvalidArgument, match="would be taken for"):
        add_person(scope, ROOT, "aeo", ["admin"])


@pytest.mark.parametrize(
    "name", ["ada", "m\u00fcller", "\u5c71\u7530", "\u0438\u0432\u0430\u043d", "corp\\ada", "ada@acme.example", "admin"]
)
def test_names_of_any_one_alphabet_can_be_added(scope: TenantScope, name: str) -> None:
    assert add_person(scope, ROOT, name, ["viewer"]).name == name
    assert add_person(scope, ROOT, name, ["reviewer"]).roles == {"reviewer"}
