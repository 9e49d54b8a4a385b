"""`metier user`, and who gives a command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from metier.cli.identity import system_user, user_name, who
from metier.errors import MetierError, NotPermitted, PersonNotFound
from metier.guard.approvals.people import add_person, make_token, remove_person
from metier.store import Person, Store

Call = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("typed")


@pytest.fixture(autouse=True)
def nobody_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of its own, and no token."""
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as store:
        yield store


@pytest.fixture
def as_admin(metier: Call) -> None:
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0


def token_of(metier: Call, name: str, *more: str) -> str:
    code, out, err = metier("user", "token", name, *more)
    assert code == 0, err
    return out.strip()


def listed(metier: Call, *words: str) -> Any:
    code, out, err = metier(*words, "--json")
    assert code == 0, err
    return json.loads(out)


# --- who it is --------------------------------------------------------------------------------------------------------


def test_a_store_is_its_owners_until_somebody_is_added(metier: Call, store: Store) -> None:
    assert who(store.of()) == Person(name=system_user(), roles=frozenset({"admin"}))
    code, out, _ = metier("user", "list")
    assert code == 0
    assert f"Nobody was added: the store is its owner's, {system_user()}" in out


def test_from_then_on_only_who_was_added_counts(metier: Call, store: Store) -> None:
    store.of().people.add(Person(name="ada", roles=frozenset({"admin"})))
    with pytest.raises(NotPermitted, match=f"'{system_user()}' is not known to this store"):
        who(store.of())
    code, _, err = metier("user", "add", "eve", "--role", "admin")
    assert code == 1
    assert "[not-permitted]" in err
    assert metier("approve", "list")[0] == 1


def test_variables_do_not_say_who_somebody_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    name = system_user()
    for variable in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "ada")
    assert who(store.of()).name == name
    assert user_name() == name


def test_a_token_says_who_it_is(metier: Call, store: Store, as_admin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    metier("user", "add", "ada", "--role", "reviewer")
    monkeypatch.setenv("METIER_API_TOKEN", token_of(metier, "ada"))
    assert who(store.of()) == Person(name="ada", roles=frozenset({"reviewer"}))
    assert user_name() == "ada"
    assert listed(metier, "user", "list")["you"]["name"] == "ada"


@pytest.mark.each("secret", ["mtr_wrong", "x", "mtr_", "x" * 500, "\x1b[2J", "mtr_" + "é" * 20])
def test_a_wrong_token_is_nobodys_and_never_falls_back(
    metier: Call, as_admin: None, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("METIER_API_TOKEN", secret)
    for words in (["user", "list"], ["approve", "list"], ["quarantine", "list"], ["user", "token"]):
        code, out, err = metier(*words)
        assert (code in (1, 2), out) == (True, "")
        assert "\x1b" not in err
    with pytest.raises(MetierError):
        user_name()


def test_a_token_is_not_one_of_another_tenant(metier: Call, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = Person(name="ada", roles=frozenset({"admin"}))
    for tenant in ("", "acme", "other"):
        add_person(store.of(tenant), ada, "ada", ["admin"])
    _, secret = make_token(store.of("acme"), ada, "ada")
    monkeypatch.setenv("METIER_API_TOKEN", secret)
    assert listed(metier, "user", "list")["people"] == [{"name": "ada", "kind": "user", "roles": ["admin"]}]
    assert metier("user", "list", "--tenant", "acme")[0] == 0
    code, _, err = metier("user", "list", "--tenant", "other")
    assert code == 1
    assert "is not one of the tenant 'other'" in err
    with pytest.raises(PersonNotFound):
        who(store.of("other"))
    with pytest.raises(PersonNotFound):
        who(store.of())


# --- people -----------------------------------------------------------------------------------------------------------


def test_the_first_person_must_be_oneself_as_an_admin(metier: Call) -> None:
    me = system_user()
    for name, *more in (
        [me, "--role", "reviewer"],
        [me, "--role", "admin", "--kind", "agent"],
        ["ada", "--role", "admin"],
    ):
        code, _, err = metier("user", "add", name, *more)
        assert code == 2
        assert "must be you, as an admin" in err
        assert f"metier user add {system_user()} --role admin" in err
    assert listed(metier, "user", "list")["people"] == []


def test_people_are_added_changed_and_removed(metier: Call, as_admin: None, store: Store) -> None:
    assert metier("user", "add", "ada", "--role", "author", "--role", "reviewer")[0] == 0
    assert metier("user", "add", "robot", "--role", "reviewer", "--kind", "agent")[0] == 0
    assert metier("user", "add", "ada", "--role", "skill-admin")[0] == 0
    people = {one["name"]: one for one in listed(metier, "user", "list")["people"]}
    assert people["ada"] == {"name": "ada", "kind": "user", "roles": ["admin"]}
    assert people["robot"] == {"name": "robot", "kind": "agent", "roles": ["reviewer"]}
    code, out, _ = metier("user", "remove", "robot")
    assert (code, "robot and their tokens are removed" in out) == (0, True)
    assert metier("user", "remove", "robot")[0] == 1
    types = [record["type"] for record in store.of().audit.tail(20)]
    assert types == ["person.added"] * 4 + ["person.removed"]


def test_the_last_admin_stays(metier: Call, as_admin: None) -> None:
    metier("user", "add", "robot", "--role", "admin", "--kind", "agent")
    for words in (["user", "remove", system_user()], ["user", "add", system_user(), "--role", "viewer"]):
        code, _, err = metier(*words)
        assert code == 1
        assert "is the only admin" in err
    metier("user", "add", "ada", "--role", "admin")
    assert metier("user", "remove", system_user())[0] == 0


def test_who_is_no_admin_adds_nobody_and_that_is_recorded(
    metier: Call, as_admin: None, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    metier("user", "add", "ada", "--role", "reviewer")
    monkeypatch.setenv("METIER_API_TOKEN", token_of(metier, "ada"))
    for words in (
        ["user", "add", "ada", "--role", "admin"],
        ["user", "remove", system_user()],
        ["user", "token", system_user()],
    ):
        code, _, err = metier(*words)
        assert (code, "[not-permitted]" in err) == (1, True)
    refused = [(one["type"], one["user"], one["decision"]) for one in store.of().audit.tail(3)]
    assert refused == [("person.refused", "ada", "deny")] * 2 + [("token.refused", "ada", "deny")]


@pytest.mark.each("name", ["", "a b", "a,b", "user:ada", "\x1b[2J", "x" * 65, "a\nb", "-x", ".."])
def test_a_name_is_a_plain_word(metier: Call, name: str) -> None:
    code, out, err = metier("user", "add", "--role", "admin", "--", name)
    assert (code, out) == (2, "")
    assert "\x1b" not in err


def test_a_role_that_nobody_knows_is_said(metier: Call) -> None:
    code, _, err = metier("user", "add", "ada", "--role", "emperor")
    assert (code, "'emperor' is no role" in err) == (2, True)


def test_two_admins_who_remove_each_other_leave_one(store: Store) -> None:
    scope = store.of()
    ada, bob = (Person(name=name, roles=frozenset({"admin"})) for name in ("ada", "bob"))
    add_person(scope, ada, "ada", ["admin"])
    add_person(scope, ada, "bob", ["admin"])
    remove_person(scope, ada, "bob")
    with pytest.raises(NotPermitted):
        remove_person(scope, bob, "ada")
    assert [one.name for one in scope.people.all()] == ["ada"]


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_secret_is_shown_once_and_alone(metier: Call, as_admin: None) -> None:
    metier("user", "add", "ada", "--role", "viewer")
    code, out, err = metier("user", "token", "ada", "--label", "laptop")
    assert code == 0
    assert out.startswith("mtr_")
    assert len(out.split()) == 1
    assert "is a token of ada" in err
    assert out.strip() not in metier("user", "tokens")[1]
    assert out.strip() not in metier("user", "tokens", "--json")[1]
    assert out.strip() not in metier("audit", "tail", "--json")[1]


def test_a_token_that_was_revoked_or_ran_out_counts_no_longer(
    metier: Call, as_admin: None, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    metier("user", "add", "ada", "--role", "viewer")
    secret = token_of(metier, "ada")
    (token,) = listed(metier, "user", "tokens")["tokens"]
    assert (token["person"], token["state"]) == ("ada", "counts")
    assert store.by_token(secret) is not None
    assert metier("user", "revoke", token["id"])[0] == 0
    assert store.by_token(secret) is None
    assert metier("user", "revoke", token["id"])[0] == 1
    _, old = make_token(
        store.of(), Person(name="x", roles=frozenset({"admin"})), "ada", expires=60, clock=lambda: 1_000.0
    )
    assert store.by_token(old) is None
    assert [one["state"] for one in listed(metier, "user", "tokens")["tokens"]] == ["revoked", "expired"]


def test_a_token_goes_with_its_person(metier: Call, as_admin: None, store: Store) -> None:
    metier("user", "add", "ada", "--role", "viewer")
    secret = token_of(metier, "ada")
    metier("user", "remove", "ada")
    assert store.by_token(secret) is None
    metier("user", "add", "ada", "--role", "admin")
    assert store.by_token(secret) is None


def test_everybody_makes_and_revokes_their_own_tokens_and_sees_no_others(
    metier: Call, as_admin: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    metier("user", "add", "ada", "--role", "viewer")
    metier("user", "token")
    (others,) = listed(metier, "user", "tokens")["tokens"]
    monkeypatch.setenv("METIER_API_TOKEN", token_of(metier, "ada"))
    assert metier("user", "token", "--label", "second")[0] == 0
    mine = listed(metier, "user", "tokens")["tokens"]
    assert [one["person"] for one in mine] == ["ada", "ada"]
    code, _, err = metier("user", "revoke", others["id"])
    assert (code, "There is no token" in err) == (1, True)
    assert metier("user", "revoke", mine[1]["id"])[0] == 0


@pytest.mark.parametrize("more", [["--expires", "soon"], ["--expires", "0d"], ["--label", "x" * 300]])
def test_a_token_lasts_for_a_time_that_can_be_read(metier: Call, as_admin: None, more: list[str]) -> None:
    code, out, err = metier("user", "token", *more)
    assert (code, out) == (2, "")
    assert "[invalid-argument]" in err


def test_a_token_is_somebodys(metier: Call) -> None:
    code, _, err = metier("user", "token")
    assert (code, f"metier user add {system_user()} --role" in err) == (1, True)
