"""What people could do when a backup was made and may no longer do: bringing it back does not give it to them again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.guard.approvals.people import add_person, make_token, remove_person, revoke_token
from metier.guard.backups import back_up, restore
from metier.store import Person, Store, TenantScope
from metier.store.restore import RestoreReport

ADA = Person(name="ada", roles=frozenset({"admin"}))
Restore = Callable[[Callable[[Store], object]], RestoreReport]


@pytest.fixture
def after(tmp_path: Path, store_url: str) -> Restore:
    """Brings back what was saved before something else was done."""

    numbers = itertools.count()

    def restored(change: Callable[[Store], object]) -> RestoreReport:
        path = tmp_path / f"backup-{next(numbers)}.zip"
        with Store.open(store_url) as store:
            back_up(store, path)
            change(store)
        return restore(store_url, path, force=True)

    return restored


@pytest.fixture
def ours(store: Store) -> TenantScope:
    """An installation with an admin, and somebody of each other role."""
    scope = store.of()
    add_person(scope, ADA, "ada", ["admin"])
    for name, role in (("rita", "reviewer"), ("otto", "author"), ("vera", "viewer")):
        add_person(scope, ADA, name, [role])
    return scope


def roles(scope: TenantScope) -> dict[str, list[str]]:
    return {person.name: sorted(person.roles) for person in scope.people.all()}


def test_somebody_who_was_removed_since_stays_removed_and_so_do_their_tokens(ours: TenantScope, after: Restore) -> None:
    _, secret = make_token(ours, ADA, "rita")
    restored = after(lambda _: remove_person(ours, ADA, "rita"))
    assert "rita" not in roles(ours)
    assert ours.people.by_token(secret) is None
    assert ours.people.tokens() == []
    assert [(one.tenant, one.name, one.kind, one.state, one.roles) for one in restored.kept_people] == [
        ("", "rita", "user", "removed", ())
    ]
    assert restored.kept_tokens == ()


def test_a_token_that_was_revoked_since_stays_revoked(ours: TenantScope, after: Restore) -> None:
    token, secret = make_token(ours, ADA, "rita", label="ci")
    other, other_secret = make_token(ours, ADA, "rita")
    restored = after(lambda _: revoke_token(ours, ADA, token.id))
    assert ours.people.by_token(secret) is None
    assert ours.people.by_token(other_secret) is not None
    assert [(one.id, one.person, one.label) for one in restored.kept_tokens] == [(token.id, "rita", "ci")]
    assert {one.id for one in ours.people.tokens()} == {token.id, other.id}


def test_old_tokens_of_somebody_who_was_removed_and_added_again_stay_revoked(ours: TenantScope, after: Restore) -> None:
    token, secret = make_token(ours, ADA, "rita")

    def again(_: Store) -> None:
        remove_person(ours, ADA, "rita")
        add_person(ours, ADA, "rita", ["reviewer"])

    restored = after(again)
    assert roles(ours)["rita"] == ["reviewer"]
    assert ours.people.by_token(secret) is None
    assert [one.id for one in restored.kept_tokens] == [token.id]
    assert restored.kept_people == ()


@pytest.mark.each("now", [["viewer"], []])
def test_a_role_that_was_lowered_since_stays_low(ours: TenantScope, after: Restore, now: list[str]) -> None:
    restored = after(lambda _: add_person(ours, ADA, "rita", now))
    assert roles(ours)["rita"] == now
    assert [(one.name, one.state, one.roles) for one in restored.kept_people] == [("rita", "lowered", tuple(now))]


def test_who_became_an_agent_since_stays_one(ours: TenantScope, after: Restore) -> None:
    restored = after(lambda _: add_person(ours, ADA, "otto", ["admin"], kind="agent"))
    # A person's role is that of the backup, where it is the lower one.
    assert ours.people.get("otto") == Person(name="otto", kind="agent", roles=frozenset({"author"}))
    assert [(one.name, one.kind, one.state) for one in restored.kept_people] == [("otto", "agent", "lowered")]


def test_what_was_only_given_since_is_lost_as_all_else_is(ours: TenantScope, after: Restore) -> None:
    def give(_: Store) -> None:
        add_person(ours, ADA, "zoe", ["admin"])
        add_person(ours, ADA, "vera", ["admin"])
        make_token(ours, ADA, "ada")

    before = roles(ours)
    restored = after(give)
    assert roles(ours) == before
    assert ours.people.tokens() == []
    assert (restored.kept_people, restored.kept_tokens) == ((), ())


def test_each_tenant_has_its_own_people(store: Store, ours: TenantScope, after: Restore) -> None:
    acme = store.of("acme")
    for name in ("ada", "rita"):
        add_person(acme, ADA, name, ["admin"])
    restored = after(lambda _: remove_person(acme, ADA, "rita"))
    assert roles(acme) == {"ada": ["admin"]}
    assert roles(ours)["rita"] == ["reviewer"]
    assert [(one.tenant, one.name) for one in restored.kept_people] == [("acme", "rita")]


def test_who_never_was_in_a_store_was_not_removed_from_it(tmp_path: Path, store_url: str, ours: TenantScope) -> None:
    """A store that was made anew, and has people already."""
    _, secret = make_token(ours, ADA, "rita")
    with Store.open(store_url) as store:
        back_up(store, tmp_path / "backup.zip")
    other = f"sqlite:///{tmp_path}/other.db"
    with Store.open(other) as store:
        add_person(store.of(), ADA, "ada", ["admin"])
        restored = restore(other, tmp_path / "backup.zip", force=True)
        assert roles(store.of()) == roles(ours)
        assert store.of().people.by_token(secret) is not None
    assert restored.kept_people == ()


def test_who_took_over_stays_where_nobody_else_would_be_left(ours: TenantScope, after: Restore) -> None:
    """A store whose people were all removed would be anybody's."""

    def take_over(_: Store) -> None:
        zoe = add_person(ours, ADA, "zoe", ["admin"])
        for name in roles(ours).keys() - {"zoe"}:
            remove_person(ours, zoe, name)
        taken.append(make_token(ours, zoe, "zoe")[1])

    taken: list[str] = []
    restored = after(take_over)
    assert roles(ours) == {"zoe": ["admin"]}
    assert ours.people.by_token(taken[0]) is not None
    assert {(one.name, one.state) for one in restored.kept_people} == {
        *((name, "removed") for name in ("ada", "rita", "otto", "vera")),
        ("zoe", "admin"),
    }


def test_somebody_who_was_made_an_admin_since_stays_one_where_there_would_be_none(
    ours: TenantScope, after: Restore
) -> None:
    def swap(_: Store) -> None:
        rita = add_person(ours, ADA, "rita", ["admin"])
        add_person(ours, rita, "ada", ["viewer"])

    after(swap)
    assert roles(ours) == {"ada": ["viewer"], "rita": ["admin"], "otto": ["author"], "vera": ["viewer"]}


def test_a_backup_of_when_nobody_was_added_does_not_open_the_store_to_all(store: Store, after: Restore) -> None:
    def add(_: Store) -> None:
        add_person(store.of(), ADA, "ada", ["admin"])
        add_person(store.of(), ADA, "vera", ["viewer"])
        add_person(store.of("acme"), ADA, "tina", ["admin"])

    store.of().blocks.add("name", "x", reason="", by="")
    after(add)
    assert (roles(store.of()), roles(store.of("acme"))) == ({"ada": ["admin"]}, {"tina": ["admin"]})


@pytest.mark.each("written", ["7", "[7]", "[[]]", "{", '["root"]'])
def test_roles_that_nobody_wrote_here_are_none(store: Store, ours: TenantScope, after: Restore, written: str) -> None:
    with store.pool.transaction():
        store.pool.change("UPDATE people SET roles = ?, kind = ? WHERE name = ?", (written, "root", "vera"))
    restored = after(lambda _: ours.people.add(Person(name="vera", roles=frozenset({"viewer"}))))
    assert [(one.name, one.kind, one.roles) for one in restored.kept_people] == [("vera", "user", ())]


def test_a_policy_that_was_changed_since_holds_on(ours: TenantScope, after: Restore) -> None:
    ours.policy_versions.add("version: 1\n", by="ada")
    strict = "version: 1\ntools: {deny: [WebFetch]}\n"
    after(lambda _: ours.policy_versions.add(strict, by="ada"))
    last = ours.policy_versions.last()
    assert last is not None and (last.text, last.is_intact) == (strict, True)
    after(lambda _: None)
    assert [one.text for one in ours.policy_versions.all()] == ["version: 1\n", strict]


def test_a_policy_that_was_lost_comes_back_with_a_backup(ours: TenantScope, after: Restore) -> None:
    ours.policy_versions.add("version: 1\n", by="ada")

    def lose(store: Store) -> None:
        with store.of().transaction():
            store.pool.change("DELETE FROM policy_versions")

    after(lose)
    last = ours.policy_versions.last()
    assert last is not None and (last.text, last.is_intact) == ("version: 1\n", True)
