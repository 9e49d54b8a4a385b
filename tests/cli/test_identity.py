"""Who gives a command: what people decide takes a terminal or a token, and naming a tenant makes nobody an admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.cli.identity import system_user, who
from metier.errors import NotPermitted
from metier.guard.approvals.people import add_person
from metier.library.places import TrustStore
from metier.store import Person, Store

Call = Callable[..., tuple[int, str, str]]

ADMIN = frozenset({"admin"})
DECIDING = [
    ["approve", "grant", "r-1"],
    ["approve", "deny", "r-1", "--reason", "x"],
    ["approve", "revoke", "a-1", "--reason", "x"],
    ["quarantine", "release", "pdf", "--reason", "x"],
    ["propose", "approve", "p-1"],
    ["propose", "reject", "p-1", "--reason", "x"],
    ["deploy", "."],
    ["rollback", "pdf"],
    ["user", "add", "eve", "--role", "admin"],
    ["user", "remove", "eve"],
    ["user", "token"],
    ["user", "revoke", "t-1"],
    ["trust", "."],
]
NOBODY_THERE = "nobody is at a terminal here"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN", "METIER_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("METIER_ENTERPRISE", str(tmp_path / "enterprise"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as store:
        yield store


@pytest.fixture
def owned(store: Store) -> Store:
    """A store to which its owner was added."""
    store.of().people.add(Person(name=system_user(), roles=ADMIN))
    return store


@pytest.fixture
def law(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path / "law", description="Says what the law is when asked.")
    return tmp_path / "law"


# --- a terminal or a token --------------------------------------------------------------------------------------------


@pytest.mark.each("words", DECIDING)
def test_what_people_decide_is_not_decided_in_a_shell_without_a_terminal(
    metier: Call, owned: Store, words: list[str]
) -> None:
    code, out, err = metier(*words)
    assert (code, out) == (1, "")
    assert f"[not-permitted]: This is for people to decide, and {NOBODY_THERE}." in err
    assert TrustStore().trusted() == ()


def test_that_somebody_tried_is_recorded(metier: Call, owned: Store) -> None:
    metier("approve", "grant", "r-1")
    (record,) = owned.of().audit.tail(1)
    assert (record["type"], record["decision"], record["user"]) == ("person.refused", "deny", system_user())
    assert record["notes"] == ["metier approve grant"]


def test_who_sets_up_a_store_where_nobody_is_at_a_terminal_is_told_the_command_that_does(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    _, _, err = metier("user", "add", system_user(), "--role", "admin")
    words = ("user", "add", system_user(), "--role", "admin", "--token")
    assert f"METIER_API_TOKEN=$(metier {' '.join(words)})" in err
    code, secret, _ = metier(*words)
    assert (code, secret.startswith("mtr_")) == (0, True)


@pytest.mark.each("words", DECIDING)
def test_nor_where_an_administrators_policy_is_in_force(
    metier: Call, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    assert NOBODY_THERE in metier(*words)[2]


def test_scripts_of_the_owner_decide_while_nobody_was_added_and_no_administrator_has_a_say(
    metier: Call, tmp_path: Path
) -> None:
    assert metier("trust", tmp_path)[0] == 0
    assert metier("quarantine", "add", "pdf", "--reason", "x")[0] == 0
    assert metier("quarantine", "release", "pdf", "--reason", "x")[0] == 0


def test_a_person_at_a_terminal_decides(terminal: Callable[..., tuple[int, str]], owned: Store, tmp_path: Path) -> None:
    assert terminal("user", "add", "ada", "--role", "viewer")[0] == 0
    assert terminal("trust", tmp_path)[0] == 0
    assert owned.of().people.get("ada") is not None


def test_a_token_decides_without_a_terminal(
    metier: Call, owned: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("METIER_API_TOKEN", owned.of().people.new_token(system_user())[1])
    assert metier("user", "add", "ada", "--role", "viewer")[0] == 0
    assert metier("trust", tmp_path)[0] == 0


@pytest.mark.parametrize("kind", ["none", "agent"])
def test_a_token_that_does_not_count_or_is_an_agents_trusts_nothing(
    metier: Call, owned: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    owned.of().people.add(Person(name="robot", kind="agent", roles=ADMIN))
    secret = owned.of().people.new_token("robot")[1] if kind == "agent" else "mtr_wrong"
    monkeypatch.setenv("METIER_API_TOKEN", secret)
    assert metier("trust", tmp_path)[0] == 1
    assert TrustStore().trusted() == ()


def test_the_brake_and_whatever_only_looks_need_no_terminal(metier: Call, owned: Store) -> None:
    assert metier("quarantine", "add", "pdf", "--reason", "x")[0] == 0
    for words in (["approve", "list"], ["user", "list"], ["user", "tokens"], ["propose", "list"], ["trust", "--list"]):
        assert metier(*words)[0] == 0
    assert metier("untrust", ".")[0] == 1  # it was not trusted


def test_a_script_that_nobody_watches_sets_up_a_store(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    code, secret, _ = metier("user", "add", system_user(), "--role", "admin", "--token")
    assert (code, secret.startswith("mtr_"), len(secret.split())) == (0, True, 1)
    assert NOBODY_THERE in metier("user", "add", "ada", "--role", "reviewer")[2]
    monkeypatch.setenv("METIER_API_TOKEN", secret.strip())
    assert metier("user", "add", "ada", "--role", "reviewer")[0] == 0


# --- tenants ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("typed")
def test_naming_a_tenant_makes_nobody_an_admin(metier: Call, store: Store, law: Path) -> None:
    store.of().people.add(Person(name="ada", roles=ADMIN))
    for words in (["deploy", str(law)], ["user", "add", system_user(), "--role", "admin"], ["approve", "list"]):
        code, _, err = metier(*words, "--tenant", "x")
        assert (code, "is not known to this store" in err) == (1, True)
    assert not (law.parent / "enterprise").exists()
    assert store.tenants() == [""]


def test_people_of_one_tenant_count_for_the_question_whether_a_store_has_any(store: Store) -> None:
    store.of("acme").people.add(Person(name="ada", roles=ADMIN))
    for tenant in ("", "x"):
        with pytest.raises(NotPermitted):
            who(store.of(tenant))


@pytest.mark.usefixtures("typed")
def test_a_tenant_without_people_is_decided_for_by_those_of_the_installation(
    metier: Call, owned: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert who(owned.of("acme")).roles == ADMIN
    assert "Nobody was added to this tenant" in metier("user", "list", "--tenant", "acme")[1]
    monkeypatch.setenv("METIER_API_TOKEN", owned.of().people.new_token(system_user())[1])
    assert metier("user", "add", "bob", "--role", "admin", "--tenant", "acme")[0] == 0
    # From now on it has its own.
    assert "is not one of the tenant 'acme'" in metier("user", "list", "--tenant", "acme")[2]
    monkeypatch.delenv("METIER_API_TOKEN")
    with pytest.raises(NotPermitted):
        who(owned.of("acme"))


@pytest.mark.usefixtures("typed")
def test_the_first_person_of_a_store_is_no_tenants_and_the_first_of_a_tenant_is_an_admin(
    metier: Call, store: Store
) -> None:
    me = system_user()
    code, _, err = metier("user", "add", me, "--role", "admin", "--tenant", "acme")
    assert (code, "an admin of the whole installation" in err) == (2, True)
    assert metier("user", "add", me, "--role", "admin")[0] == 0
    code, _, err = metier("user", "add", "bob", "--role", "reviewer", "--tenant", "acme")
    assert (code, "The first person of a tenant must be an admin" in err) == (2, True)
    assert metier("user", "add", "bob", "--role", "admin", "--tenant", "acme")[0] == 0
    assert store.of("acme").people.get("bob") is not None


@pytest.mark.usefixtures("typed")
def test_the_admin_of_a_tenant_deploys_nothing_for_all_tenants(metier: Call, owned: Store, law: Path) -> None:
    me = owned.of().people.get(system_user())
    assert me is not None
    add_person(owned.of("acme"), me, system_user(), ["admin"])
    code, _, err = metier("deploy", law, "--tenant", "acme")
    assert (code, "is there for all tenants" in err) == (1, True)
    assert not (law.parent / "enterprise" / "law").exists()
    assert metier("deploy", law)[0] == 0


def test_an_empty_token_is_nobodys(
    metier: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_API_TOKEN", "")
    code, _, err = metier("approve", "list")
    assert (code, "METIER_API_TOKEN is empty" in err) == (1, True)


def test_whoever_has_a_token_of_a_tenant_works_for_it(
    metier: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    write_skill: Callable[..., Path],
) -> None:
    write_skill(tmp_path / "skills" / "greet")
    with Store.open() as store:
        acme = store.of("acme")
        acme.people.add(Person(name="tina", roles=frozenset({"admin"})))
        acme.blocks.add("name", "greet", reason="Not for us.", by="tina")
        _, secret = acme.people.new_token("tina")
    arguments = ("--skills", tmp_path / "skills", "session", "greet")
    assert metier(*arguments, given="")[0] == 0
    monkeypatch.setenv("METIER_API_TOKEN", secret)
    code, out, err = metier(*arguments, given="")
    assert (code, "in quarantine" in out + err) == (1, True)
