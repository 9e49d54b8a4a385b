"""`metier waiting`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.cli.identity import system_user
from metier.guard import Actor, Subject
from metier.guard.approvals.quarantine import quarantine
from metier.guard.approvals.requests import request_approval
from metier.store import Person, Proposal, Store

pytestmark = pytest.mark.covers("ACC-19")

Call = Callable[..., tuple[int, str, str]]
ME = system_user()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("METIER_STORE", "METIER_DATA", "METIER_API_TOKEN", "METIER_POLICY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as store:
        yield store


def ask(store: Store, name: str = "pdf", user: str = "sam", tenant: str = "") -> str:
    """Something that waits for an approval."""
    subject = Subject(name=name, source="acme", layer="plugin", digest="sha256:" + name.encode().hex().ljust(64, "0"))
    scope = store.of(tenant)
    return request_approval(scope, subject, capabilities=["scripts"], new=[], scripts={}, actor=Actor(user=user)).id


def report(metier: Call, *words: str, code: int = 4) -> dict[str, Any]:
    found, out, err = metier("waiting", "--json", *words)
    assert found == code, err
    shape: dict[str, Any] = json.loads(out)
    return shape


def ids(shape: dict[str, Any]) -> list[str]:
    return [one["id"] for one in shape["waiting"]]


def test_where_nothing_was_ever_asked_nothing_waits_and_no_store_is_made(metier: Call, own_home: Path) -> None:
    assert metier("waiting")[:2] == (0, "Nothing waits for you.\n")
    assert report(metier, code=0)["waiting"] == []
    assert not list(own_home.rglob("metier.db"))


def test_requests_proposals_and_quarantines_wait_with_counts_and_ages(metier: Call, store: Store) -> None:
    asked = ask(store)
    proposed = store.of().proposals.add(Proposal(skill="pdf@acme", author="bot", author_kind="agent")).id
    quarantine(store.of(), Person(name=ME, roles=frozenset({"admin"})), "name", "csv", reason="It lies.")
    shape = report(metier)
    assert sorted(ids(shape)) == sorted([asked, proposed, "name:csv"])
    assert shape["counts"] == {"proposal": 1, "quarantine": 1, "request": 1}
    assert all(one["may_decide"] and one["age_seconds"] >= 0 for one in shape["waiting"])
    assert 0 <= shape["oldest_seconds"] < 3_600
    code, out, _ = metier("waiting")
    assert code == 4 and asked in out and "metier approve show" in out


def test_a_cursor_tells_what_came_since(metier: Call, store: Store) -> None:
    ask(store)
    cursor = report(metier)["cursor"]
    again = report(metier, "--since", cursor, code=0)
    assert (again["waiting"], again["cursor"]) == ([], cursor)
    later = ask(store, "csv")
    assert ids(report(metier, "--since", cursor)) == [later]
    for wrong in ("nonsense", "x" * 1_000):
        assert metier("waiting", "--since", wrong)[0] == 2


def test_somebody_is_told_only_of_what_they_may_decide_or_made(
    metier: Call, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = store.of().people
    people.add(Person(name=ME, roles=frozenset({"admin"})))
    tokens = {}
    for name, role in (("rae", "reviewer"), ("sam", "viewer"), ("vic", "viewer")):
        people.add(Person(name=name, roles=frozenset({role})))
        tokens[name] = people.new_token(name)[1]
    mine = ask(store, "pdf", "sam")
    other = ask(store, "csv", "tom")
    ask(store, "secret", "tom", tenant="acme")
    quarantine(store.of(), Person(name=ME, roles=frozenset({"admin"})), "name", "evil", reason="It lies.")

    def seen(name: str, code: int = 4) -> list[tuple[str, bool]]:
        monkeypatch.setenv("METIER_API_TOKEN", tokens[name])
        return [(one["id"], one["may_decide"]) for one in report(metier, code=code)["waiting"]]

    assert sorted(seen("rae")) == sorted([(mine, True), (other, True)])
    assert seen("sam") == [(mine, False)]
    assert seen("vic", code=0) == []


PROGRAM = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps([json.load(sys.stdin), sys.argv[2:], "METIER_API_TOKEN" in os.environ]))
"""


def test_a_program_is_started_with_what_is_new_and_no_shell(
    metier: Call, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.of().people.add(Person(name=ME, roles=frozenset({"admin"})))
    monkeypatch.setenv("METIER_API_TOKEN", store.of().people.new_token(ME)[1])
    (tmp_path / "tell.py").write_text(PROGRAM)
    then = ("--new", "--then", sys.executable, str(tmp_path / "tell.py"), str(tmp_path / "told"), "$HOME; --json")
    assert metier("waiting", *then)[0] == 0
    assert not (tmp_path / "told").exists()
    asked = ask(store)
    assert metier("waiting", *then)[0] == 4
    shape, arguments, has_token = json.loads((tmp_path / "told").read_text())
    assert (ids(shape), arguments, has_token) == ([asked], ["$HOME; --json"], False)
    (tmp_path / "told").unlink()
    assert metier("waiting", *then)[0] == 0
    assert not (tmp_path / "told").exists(), "nobody is told twice"
    assert ids(report(metier)) == [asked]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["/there/is/no/such/program"], "cannot be started"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with 3"),
        pytest.param(
            [sys.executable, "-c", "import time; time.sleep(60)"], "did not end within 1 s", marks=pytest.mark.slow
        ),
    ],
)
def test_a_program_that_fails_is_recorded_and_tried_again(
    metier: Call, store: Store, command: list[str], problem: str
) -> None:
    asked = ask(store)
    for _ in range(2):
        code, out, err = metier("waiting", "--new", "--timeout", "1s", "--then", *command)
        assert code == 4 and asked in out and problem in err
    record = store.of().audit.tail(1)[0]
    assert (record["type"], problem in record["reason"]) == ("notification.failed", True)
    assert store.of().approvals.requests("pending")


def test_a_skill_that_was_changed_by_hand_waits_by_its_name_until_it_is_put_right(
    metier: Call, store: Store, tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_ENTERPRISE", str(tmp_path / "company"))
    (tmp_path / "company").mkdir()
    file = write_skill(tmp_path / "drafts" / "totals")
    assert metier("deploy", tmp_path / "drafts" / "totals", "--reason", "For all.")[0] == 0
    deployed = tmp_path / "company" / "totals"
    (deployed / file.name).write_text(file.read_text() + "Quickly.\n")
    assert metier("session", "totals", given="")[0] == 3
    (found,) = report(metier)["waiting"]
    assert (found["id"].split(":")[0], found["by"]) == ("digest", "integrity check")
    assert found["skill"].startswith("totals@")

    code, out, err = metier("quarantine", "release", "totals", "--reason", "It is fine.")
    assert (code, out) == (1, ""), "nothing is said to be usable that is not"
    assert "metier rollback totals@" in err
    assert metier("rollback", "totals", "--reason", "Back.")[0] == 0
    assert report(metier, code=0)["waiting"] == []


def test_commands_in_hints_find_what_a_tenant_has(metier: Call, store: Store) -> None:
    asked = ask(store, tenant="acme")
    (found,) = report(metier, "--tenant", "acme")["waiting"]
    assert found["next"] == f"metier approve show {asked} --tenant acme"
    code, out, _ = metier(*found["next"].split()[1:])
    assert (code, f"`metier approve grant {asked} --tenant acme`" in out) == (0, True)
    _, out, _ = metier("approve", "list", "--tenant", "acme")
    assert found["next"] in out
