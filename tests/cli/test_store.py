"""`metier store`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import thinned

from metier.store import Approval, Person, Store, data_folder, default_store
from metier.store.connection_pool import Backend
from metier.store.schema import PROTECTION, UNPROTECTION

Call = Callable[..., tuple[int, str, str]]


def block(name: str) -> None:
    with Store.open() as store:
        store.of().blocks.add("name", name, reason="", by="ada")


def blocked() -> set[str]:
    with Store.open(create=False) as store:
        return {block.value for block in store.of().blocks.all()}


def test_a_store_is_made_and_then_up_to_date(metier: Call) -> None:
    code, out, err = metier("store", "migrate")
    assert (code, err) == (0, "")
    assert out == f"✓ The store {default_store()} was made, at version {Backend.newest}.\n"
    assert (
        metier("store", "migrate")[1] == f"✓ The store {default_store()} is up to date, at version {Backend.newest}.\n"
    )
    code, out, _ = metier("store", "migrate", "--json")
    assert json.loads(out) == {"store": default_store(), "before": Backend.newest, "version": Backend.newest}


def test_a_backup_is_made_and_brought_back(metier: Call, tmp_path: Path) -> None:
    block("early")
    code, out, err = metier("store", "backup", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert "2 rows and 0 contents" in out
    block("late")
    code, out, err = metier("store", "restore", tmp_path / "backup.zip")
    assert (code, out) == (2, "")
    assert "is in use" in err
    assert "--force" in err
    assert blocked() == {"early", "late"}
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert blocked() == {"early", "late"}


def test_what_was_put_in_quarantine_since_a_backup_stays_there(metier: Call, tmp_path: Path) -> None:
    block("early")
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    block("late")
    with Store.open(create=False) as store:
        store.of("acme").blocks.add("digest", "sha256:" + "a" * 64, reason="It was bad.", by="bob")
        store.of().blocks.remove("name", "early")
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert "The name late is not blocked in the backup, and stays in quarantine." in out
    assert "(tenant acme)" in out
    assert "name early" not in out
    assert blocked() == {"early", "late"}
    with Store.open(create=False) as store:
        (own,) = store.of("acme").blocks.all()
        assert (own.kind, own.reason, own.by) == ("digest", "It was bad.", "bob")
        types = [record["type"] for record in store.of().audit.tail(5)]
        (record,) = store.of("acme").audit.tail(5)
    assert types == ["store.restored", "skill.quarantined"]
    assert (record["type"], record["digest"]) == ("skill.quarantined", "sha256:" + "a" * 64)
    code, out, _ = metier("store", "restore", "--force", tmp_path / "backup.zip", "--json")
    assert {one["value"] for one in json.loads(out)["kept_blocks"]} == {"late", "sha256:" + "a" * 64}


def test_what_was_revoked_or_refused_since_a_backup_stays_so(metier: Call, tmp_path: Path) -> None:
    with Store.open() as store:
        given = store.of().approvals.add(Approval(digest="d1", skill="pdf@acme", layer="user", decided_by="ada"))
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    with Store.open() as store:
        store.of().approvals.revoke(given.id, "bob", "It leaks.")
        refused = store.of("acme").approvals.add(
            Approval(digest="d2", skill="zip\x1b[2J", decision="denied", decided_by="bob", reason="No.")
        )
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert f"The approval {given.id} of pdf@acme counts in the backup, and stays revoked." in out
    assert f"The refusal {refused.id} of zip" in out
    assert "(tenant acme) is not in the backup, and stays." in out
    assert "\x1b" not in out
    with Store.open(create=False) as store:
        assert "d1" not in store.of().state().approvals
        restored, revoked = store.of().audit.tail(2)
        (denied,) = store.of("acme").audit.tail(5)
    assert restored["type"] == "store.restored"
    assert [revoked[name] for name in ("type", "approval", "skill", "source", "digest", "layer")] == [
        *("approval.revoked", given.id, "pdf", "acme", "d1", "user"),
    ]
    assert "It leaks." in revoked["reason"]
    assert (denied["type"], denied["approval"], denied["digest"]) == ("approval.denied", refused.id, "d2")
    code, out, _ = metier("store", "restore", "--force", tmp_path / "backup.zip", "--json")
    assert json.loads(out)["kept_decisions"][0] == {
        "tenant": "",
        "decision": "revoked",
        "id": given.id,
        "skill": "pdf@acme",
        "digest": "d1",
        "reason": "It leaks.",
    }


@pytest.mark.usefixtures("typed")
def test_what_was_taken_from_people_since_a_backup_is_not_given_back(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.guard.current_user", lambda: "ada")
    for name, role in (("ada", "admin"), ("eve", "admin"), ("rita", "reviewer"), ("bob", "author")):
        assert metier("user", "add", name, "--role", role)[0] == 0
    ids = {name: json.loads(metier("user", "token", name, "--json")[1])["id"] for name in ("eve", "bob")}
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    assert metier("user", "remove", "eve")[0] == 0
    assert metier("user", "add", "rita", "--role", "viewer")[0] == 0
    assert metier("user", "revoke", ids["bob"])[0] == 0
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert "The user eve is in the backup, and stays removed." in out
    assert "The user rita may do more in the backup, and stays viewer." in out
    assert f"The token {ids['bob']} of bob counts in the backup, and stays revoked." in out
    with Store.open(create=False) as store:
        records = [record for record in store.of().audit.tail(4) if record["type"] != "store.restored"]
    assert [(record["type"], record["reason"], record["user"]) for record in records] == [
        ("person.added", "user rita: viewer", "ada"),
        ("person.removed", "user eve", "ada"),
        ("token.revoked", f"{ids['bob']} of bob", "ada"),
    ]
    assert all("backup" in record["notes"][0] for record in records)
    # What is known of it now is what the restored store says, and that is enough for the next time.
    told = json.loads(metier("store", "restore", "--force", tmp_path / "backup.zip", "--json")[1])
    assert told["kept_people"] == [
        {"tenant": "", "name": "eve", "kind": "user", "state": "removed", "roles": []},
        {"tenant": "", "name": "rita", "kind": "user", "state": "lowered", "roles": ["viewer"]},
    ]
    assert told["kept_tokens"] == [{"tenant": "", "id": ids["bob"], "person": "bob", "label": ""}]


@pytest.mark.usefixtures("typed")
def test_an_admin_who_is_not_in_a_backup_is_named_when_nobody_else_is_left(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.guard.current_user", lambda: "ada")
    block("x")
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    assert metier("user", "add", "ada", "--role", "admin")[0] == 0
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, err) == (0, "")
    assert "The backup leaves nobody who is an admin: the user ada stays one." in out
    assert metier("user", "list")[0] == 0


def test_that_a_backup_was_brought_back_is_recorded(metier: Call, tmp_path: Path) -> None:
    block("x")
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    assert metier("store", "restore", "--force", tmp_path / "backup.zip")[0] == 0
    with Store.open(create=False) as store:
        (record,) = store.of().audit.tail(5)
    assert record["type"] == "store.restored"
    assert record["path"] == str(tmp_path / "backup.zip")
    assert record["user"]


def test_old_checkpoints_are_named_when_they_are_set_aside(metier: Call, tmp_path: Path) -> None:
    block("x")
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    with Store.open() as store:
        folder = store.folder / "audit"
    folder.mkdir(exist_ok=True)
    (folder / "checkpoints.jsonl").write_bytes(b"old\n")
    code, out, _ = metier("store", "restore", "--force", tmp_path / "backup.zip", "--json")
    told = json.loads(out)
    (aside,) = told["set_aside"]
    assert (code, Path(aside).read_bytes()) == (0, b"old\n")


def test_what_is_no_backup_is_refused_and_nothing_changes(metier: Call, tmp_path: Path) -> None:
    block("x")
    (tmp_path / "bad.zip").write_bytes(b"no archive")
    code, out, err = metier("store", "restore", "--force", tmp_path / "bad.zip")
    assert (code, out) == (3, "")
    assert "[integrity-failed]" in err
    assert blocked() == {"x"}
    code, _, err = metier("store", "restore", tmp_path / "none.zip")
    assert (code, "does not exist" in err) == (2, True)


def test_there_is_nothing_to_check_or_to_save_where_there_is_no_store(metier: Call, tmp_path: Path) -> None:
    code, out, err = metier("store", "check")
    assert (code, err) == (0, "")
    assert out.startswith("There is no store at")
    assert json.loads(metier("store", "check", "--json")[1])["exists"] is False
    code, _, err = metier("store", "backup", tmp_path / "backup.zip")
    assert (code, "There is no store" in err) == (2, True)
    assert Store.peek() is None


def test_a_store_is_checked(metier: Call) -> None:
    block("x")
    code, out, err = metier("store", "check")
    assert (code, err) == (0, "")
    assert "is as it should be" in out
    with Store.open() as store, store.pool.transaction():
        store.pool.change("DROP TRIGGER audit_log_no_delete")
    code, out, err = metier("store", "check")
    assert (code, err) == (3, "")
    assert "error tables The trigger audit_log_no_delete is missing." in out
    code, out, err = metier("store", "check", "--json")
    assert code == 3
    assert [problem["part"] for problem in json.loads(out)["problems"]] == ["tables"]


def add_people() -> dict[str, str]:
    """An admin and a reviewer of the installation, and an admin of a tenant; their tokens."""
    with Store.open() as store:
        tokens = {}
        for tenant, name, role in (("", "ada", "admin"), ("", "rita", "reviewer"), ("acme", "tina", "admin")):
            people = store.of(tenant).people
            people.add(Person(name=name, roles=frozenset({role})))
            tokens[name] = people.new_token(name)[1]
    return tokens


@thinned("name", ["rita", "tina", "mallory", "nobody's"], one_in=2)
@pytest.mark.usefixtures("typed")
def test_only_an_admin_of_the_installation_saves_or_replaces_what_all_tenants_have(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tokens = add_people()
    monkeypatch.setenv("METIER_API_TOKEN", tokens["ada"])
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    block("late")
    if name == "mallory":  # somebody without a token, whom nobody has added
        monkeypatch.delenv("METIER_API_TOKEN")
        monkeypatch.setattr("metier.guard.guard.current_user", lambda: name)
    else:
        monkeypatch.setenv("METIER_API_TOKEN", tokens.get(name, "mtr_wrong"))
    for words in (("backup", tmp_path / "other.zip"), ("restore", "--force", tmp_path / "backup.zip")):
        code, out, err = metier("store", *words)
        assert (code, out) == (1, "")
        assert "[person-not-found]" in err if name == "nobody's" else "[not-permitted]" in err
    assert not (tmp_path / "other.zip").exists()
    assert blocked() == {"late"}
    monkeypatch.setenv("METIER_API_TOKEN", tokens["ada"])
    assert metier("store", "restore", "--force", tmp_path / "backup.zip")[0] == 0
    with Store.open(create=False) as store:
        assert [record["user"] for record in store.of().audit.search(type="store.restored")] == ["ada"]
    with Store.open() as store:
        assert store.of().audit.tail(1)[0]["user"] == "ada"


def test_no_script_brings_a_backup_back_where_there_are_people(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.guard.current_user", lambda: "ada")
    add_people()
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, out) == (1, "")
    assert "nobody is at a terminal" in err


@pytest.mark.skipif(os.name == "nt", reason="folders have no such owner")
@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_where_the_store_cannot_say_who_may_the_owner_of_its_folder_brings_it_back(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    block("x")
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    for path in data_folder().glob("metier.db*"):
        path.unlink()
    (data_folder() / "blobs").mkdir(exist_ok=True)
    if harm == "damaged":
        (data_folder() / "metier.db").write_bytes(b"no database" * 1_000)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 54_321)
        code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
        assert (code, out) == (1, "")
        assert "does not own" in err
    code, out, err = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert (code, out) == (3, "")
    assert "would be allowed again" in err
    assert "--accept-loss" in err
    code, _, err = metier("store", "restore", "--force", "--accept-loss", tmp_path / "backup.zip")
    assert code == 0
    assert f"is {harm} and cannot say who is an admin" in err
    assert blocked() == {"x"}


def test_a_trail_is_signed_anew_when_a_backup_is_brought_back(metier: Call, tmp_path: Path) -> None:
    with Store.open() as store:
        for number in range(5):
            store.of().audit.append({"type": "tool.called", "tool": f"tool-{number}"})
        assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
        store.of().audit.append({"type": "tool.called", "tool": "later"})
    assert metier("audit", "checkpoint")[0] == 0
    code, out, _ = metier("store", "restore", "--force", tmp_path / "backup.zip", "--json")
    assert code == 0
    assert [Path(path).name.split(".")[-2] for path in json.loads(out)["set_aside"]] == ["jsonl", "last"]
    code, out, _ = metier("audit", "verify")
    assert (code, out) == (
        0,
        "✓ 6 records, all as they were written; 1 checkpoint signed, 0 records since the last.\n",
    )


def test_a_backup_with_a_trail_that_nobody_wrote_so_is_told(metier: Call, tmp_path: Path) -> None:
    with Store.open() as store:
        for number in range(3):
            store.of().audit.append({"type": "tool.called", "tool": f"tool-{number}"})
        with store.pool.transaction():
            harm = "UPDATE audit_log SET outcome = 'deny' WHERE seq = 2"
            for statement in (*UNPROTECTION["sqlite"], harm, *PROTECTION["sqlite"]):
                store.pool.change(statement)
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    code, out, _ = metier("store", "restore", "--force", tmp_path / "backup.zip")
    assert code == 3
    assert "The column outcome of record 2 is not what its content says." in out


@pytest.mark.parametrize("harm", ["damaged", "gone", "empty"])
def test_a_store_that_is_damaged_or_gone_is_not_as_it_should_be(metier: Call, harm: str) -> None:
    block("x")
    for path in data_folder().glob("metier.db*"):
        path.unlink()
    (data_folder() / "blobs").mkdir(exist_ok=True)
    if harm != "gone":
        (data_folder() / "metier.db").write_bytes(b"no database" * 1_000 if harm == "damaged" else b"")
    code, out, err = metier("store", "check")
    assert (code, err) == (3, "")
    assert "error database The store" in out
    code, out, _ = metier("store", "check", "--json")
    assert (code, len(json.loads(out)["problems"])) == (3, 1)


def test_the_store_is_where_an_administrator_says(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"sqlite:///{tmp_path}/ours.db"
    (tmp_path / "policy.yaml").write_text(f"version: 1\nstore: {ours}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/mine.db")
    for words in (["migrate"], ["check"], ["backup", tmp_path / "backup.zip"]):
        code, out, _ = metier("store", *words, "--json")
        assert (code, json.loads(out)["store"]) == (0, ours)
    assert not (tmp_path / "mine.db").exists()


@pytest.mark.each("url", ["mysql://db", "sqlite:///:memory:", "\x1b[31m"])
def test_an_address_that_is_none_is_wrong_usage(metier: Call, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("METIER_STORE", url)
    for verb in ("migrate", "check"):
        code, out, err = metier("store", verb)
        assert (code, out) == (2, "")
        assert "[invalid-argument]" in err
        assert "\x1b" not in err


@pytest.mark.skipif(os.name == "nt", reason="there is no such device here")
def test_a_store_that_cannot_be_opened_is_told(metier: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_STORE", "sqlite:////dev/null")
    code, out, err = metier("store", "migrate")
    assert (code, out) == (2, "")
    assert "not a regular file" in err


def test_it_takes_a_word(metier: Call) -> None:
    assert metier("store")[0] == 2
    assert metier("store", "--help")[0] == 0


def test_a_backup_of_another_machine_brings_its_key_along(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stands_on(machine: str) -> Path:
        monkeypatch.setenv("METIER_CONFIG", str(tmp_path / machine / "config"))
        monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/{machine}/metier.db")
        (tmp_path / machine).mkdir(mode=0o700, exist_ok=True)
        return tmp_path / machine / "config" / "keys"

    keys = stands_on("old")
    assert metier("quarantine", "add", "x", "--reason", "It is bad.")[0] == 0
    assert metier("audit", "checkpoint")[0] == 0
    assert metier("store", "backup", tmp_path / "backup.zip")[0] == 0
    (public,) = keys.glob("*.pub")

    other = stands_on("new")
    code, out, err = metier("store", "restore", tmp_path / "backup.zip", "--key", public)
    assert (code, err, "warning" in out) == (0, "", False), out

    # Without the key nothing is wrong either, but for what cannot be checked: no mark says that all was.
    (other / public.name).rename(tmp_path / "away")
    code, out, _ = metier("store", "check")
    assert (code, "✓" in out, "not as it was written" in out) == (0, False, False), out
    assert "1 warning" in out and str(other) in out

    shutil.copy(tmp_path / "away", other / public.name)
    for words in (("store", "check"), ("audit", "verify")):
        code, out, err = metier(*words)
        assert (code, err, out.startswith("✓")) == (0, "", True), out
