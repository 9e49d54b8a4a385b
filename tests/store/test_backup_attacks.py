"""Attacks by a backup: an archive that somebody made, or changed, and has a person bring back.

Whatever it holds, nothing is allowed afterwards that the signed backup does not allow; and of one that no known
key signed, nothing that loosens is brought back at all.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metier.errors import IntegrityFailed, MetierError
from metier.guard.audit.verifying import verify_store
from metier.guard.backups import back_up, restore
from metier.skill.memory import MemoryPackage
from metier.store import Approval, Install, Person, Proposal, Revision, ScanRow, Store, revision_files
from metier.store.canonical import canonical, tied

FILES: dict[str, tuple[Any, bytes]] = {"SKILL.md": ("file", b"---\nname: x\n---\n")}
DIGEST = MemoryPackage({"SKILL.md": FILES["SKILL.md"][1]}).digest()
EVIL = "sha256:" + "e" * 64

Parts = dict[str, bytes]
Attack = Callable[[Parts], object]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A signed backup, the key that signed it, and what the store allowed that it is of."""

    archive: bytes
    key: Path
    approved: str
    secret: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    key = folder / "keys" / "audit.ed25519"
    with Store.open(f"sqlite:///{folder}/store/metier.db") as store:
        scope = store.of()
        scope.people.add(Person(name="ada", roles=frozenset({"admin"})))
        scope.people.add(Person(name="eve", roles=frozenset({"viewer"})))
        secret = scope.people.new_token("ada")[1]
        given = scope.approvals.add(Approval(digest=DIGEST, skill="x@y", decided_by="ada", grants=("scripts",)))
        taken = scope.approvals.add(Approval(digest=EVIL, skill="evil@y", decided_by="ada", grants=("scripts",)))
        scope.approvals.revoke(taken.id, "ada", "No longer.")
        scope.approvals.add(Approval(digest="sha256:no", skill="no@y", decision="denied", decided_by="ada"))
        scope.blocks.add("name", "miner", reason="It mines.", by="ada")
        scope.installs.put(Install(location="/skills/x", skill="x", digest=DIGEST))
        scope.proposals.add(Proposal(skill="x@y"))
        scope.scans.put(ScanRow(digest=DIGEST, engine="other", max_severity="high"))
        scope.revisions.put(Revision(digest=DIGEST, skill="x", files=revision_files(FILES)), FILES)
        scope.audit.append({"type": "tool.called", "decision": "allow"})
        (store.folder / "proposals").mkdir()
        (store.folder / "proposals" / "x.md").write_bytes(b"# Diff\n")
        back_up(store, folder / "backup.zip", key_file=key)
    return Made(archive=(folder / "backup.zip").read_bytes(), key=key, approved=given.id, secret=secret)


# What is done to an archive:


def rows(parts: Parts, table: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in parts[f"tables/{table}.jsonl"].splitlines()]


def put(parts: Parts, table: str, found: list[dict[str, Any]]) -> None:
    """Rows in place of others, with a manifest that fits them: whoever has the archive can write that too."""
    data = b"".join(json.dumps(row).encode() + b"\n" for row in found)
    parts[f"tables/{table}.jsonl"] = data
    manifest = json.loads(parts["manifest.json"])
    manifest["tables"][table] = {"sha256": hashlib.sha256(data).hexdigest(), "rows": len(found)}
    parts["manifest.json"] = json.dumps(manifest).encode()


def changed(table: str, /, **values: Any) -> Attack:
    """All rows of a table with other values."""
    return lambda parts: put(parts, table, [{**row, **values} for row in rows(parts, table)])


def copied(table: str, /, **values: Any) -> Attack:
    """Another row like the first."""
    return lambda parts: put(parts, table, [*rows(parts, table), {**rows(parts, table)[0], **values}])


def emptied(*tables: str) -> Attack:
    def attack(parts: Parts) -> None:
        for table in tables:
            put(parts, table, [])

    return attack


def without(table: str, **values: Any) -> Attack:
    def attack(parts: Parts) -> None:
        put(parts, table, [row for row in rows(parts, table) if not values.items() <= row.items()])

    return attack


def appended(**fields: Any) -> Attack:
    """A record at the end of the trail, with the hashes that it must have."""

    def attack(parts: Parts) -> None:
        found = rows(parts, "audit_log")
        last = found[-1]
        text = canonical({**json.loads(last["data_json"]), **fields, "seq": last["seq"] + 1})
        row = {**last, "seq": last["seq"] + 1, "data_json": text, "prev_hash": last["hash"]}
        row |= {"hash": tied(last["hash"], text), "event_type": fields.get("type", "")}
        put(parts, "audit_log", [*found, row])

    return attack


def both(*attacks: Attack) -> Attack:
    return lambda parts: [attack(parts) for attack in attacks]


def in_manifest(**values: Any) -> Attack:
    def attack(parts: Parts) -> None:
        parts["manifest.json"] = json.dumps({**json.loads(parts["manifest.json"]), **values}).encode()

    return attack


def member(name: str, data: bytes = b"x") -> Attack:
    return lambda parts: parts.update({name: data})


def gone(name: str) -> Attack:
    return lambda parts: parts.pop(name)


def file_changed(parts: Parts) -> None:
    manifest = json.loads(parts["manifest.json"])
    parts["files/proposals/x.md"] = b"# Other\n"
    manifest["files"]["proposals/x.md"] = hashlib.sha256(b"# Other\n").hexdigest()
    parts["manifest.json"] = json.dumps(manifest).encode()


GRANT = {"id": "a-evil", "digest": EVIL, "skill": "evil@y", "decision": "approved", "revoked_at": ""}
ADMIN = '["admin"]'
ATTACKS: dict[str, Attack] = {
    "an approval more": copied("approvals", **GRANT),
    "an approval more with a record of it": both(
        copied("approvals", **GRANT), appended(type="approval.granted", approval="a-evil", digest=EVIL)
    ),
    "a revocation taken away": changed("approvals", revoked_at="", revoked_by="", decision="approved"),
    "an approval for other content": changed("approvals", digest=EVIL),
    "an approval that grants more": changed("approvals", grants='["scripts","hooks"]'),
    "an approval that grants tools": changed("approvals", tools='["Bash"]'),
    "an approval without an end": changed("approvals", expires_at="", layer="", environment=""),
    "an approval by a rule": changed("approvals", rule="auto-approve-when"),
    "refusals that are approvals": changed("approvals", decision="approved"),
    "no refusals": without("approvals", decision="denied"),
    "no decisions": emptied("approvals", "approval_requests"),
    "no quarantine": emptied("blocks"),
    "another quarantine": changed("blocks", value="harmless"),
    "a person more": copied("people", name="mallory", roles=ADMIN),
    "a higher role": changed("people", roles=ADMIN),
    "a person more with a record": both(
        copied("people", name="mallory", roles=ADMIN), appended(type="person.added", reason="user mallory: admin")
    ),
    "nobody": emptied("tokens", "people"),
    "a token more": copied("tokens", id="t-evil", secret_hash=hashlib.sha256(b"mtr_evil").hexdigest()),
    "a token of somebody else": changed("tokens", person="eve"),
    "a token with another secret": changed("tokens", secret_hash=hashlib.sha256(b"mtr_evil").hexdigest()),
    "a token for longer": changed("tokens", expires_at="", parent=""),
    "other content in a folder": changed("installs", digest=EVIL),
    "no content in a folder": emptied("installs"),
    "a folder that is enabled": changed("installs", state="enabled", by="ada"),
    "a proposal that was approved": changed("proposals", status="approved", reviewer="ada"),
    "a scan that found nothing": changed("scans", max_severity="none", findings="[]"),
    "another trail": emptied("audit_log"),
    "a record removed": lambda parts: put(parts, "audit_log", rows(parts, "audit_log")[:-2]),
    "the first record removed": lambda parts: put(parts, "audit_log", rows(parts, "audit_log")[1:]),
    "a record changed": changed("audit_log", data_json="{}"),
    "a record with the number 0": copied("audit_log", seq=0),
    "a record with a number below 0": copied("audit_log", seq=-5),
    "a record of another tenant": copied("audit_log", tenant="other"),
    "records in another order": lambda parts: put(parts, "audit_log", rows(parts, "audit_log")[::-1]),
    "a tenant in hidden letters": copied("audit_log", tenant="\ufdd00041"),
    "a checkpoint that nobody signed": lambda parts: put(
        parts,
        "audit_checkpoints",
        [{"tenant": "", "seq": 1, "hash": "x", "signed_at": "", "key_id": "k", "signature": "s"}],
    ),
    "a generation far ahead": changed("generations", number=2**62),
    "an earlier time": in_manifest(made_at="1999-01-01T00:00:00.000+00:00"),
    "another store": in_manifest(store="postgresql://elsewhere/metier"),
    "another version": in_manifest(version=99),
    "another format": in_manifest(format=1),
    "no signature": gone("signature.json"),
    "an empty signature": member("signature.json", b"{}"),
    "a signature that is a list": member("signature.json", b"[]"),
    "a signature by an unknown key": member("signature.json", b'{"key_id": "ffffffffffffffff", "signature": "AAAA"}'),
    "a file that was changed": file_changed,
    "a file more": member("files/proposals/evil.md"),
    "a file outside": member("files/../../evil.md"),
    "a file with an absolute path": member("/etc/evil.md"),
    "a script": member("scripts/evil.sh"),
    "a table more": member("tables/sqlite_master.jsonl"),
    "a content more": member(f"blobs/{hashlib.sha256(b'x').hexdigest()}"),
    "a content under another hash": member("blobs/" + "0" * 64),
    "no contents": lambda parts: [parts.pop(name) for name in list(parts) if name.startswith("blobs/")],
    "no manifest": gone("manifest.json"),
    "a manifest that is too large": member("manifest.json", b" " * (17 * 1024 * 1024)),
}


def rewritten(made: Made, path: Path, attack: Attack) -> Path:
    path.write_bytes(made.archive)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    attack(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


@pytest.mark.covers("SEC-18")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_backup_that_somebody_changed_is_refused_or_loosens_nothing(made: Made, tmp_path: Path, attack: str) -> None:
    path = rewritten(made, tmp_path / "backup.zip", ATTACKS[attack])
    url = f"sqlite:///{tmp_path}/new/metier.db"
    with pytest.raises(MetierError) as caught:
        restore(url, path, key_file=made.key)
    assert caught.value.hint
    assert not (tmp_path / "new" / "metier.db").exists()
    try:
        restored = restore(url, path, untrusted=True, key_file=made.key)
    except MetierError as error:
        assert error.hint
        return
    assert restored.distrusted
    with Store.open(url) as store:
        for tenant in store.tenants():
            scope = store.of(tenant)
            assert [one for one in scope.approvals.all() if one.decision == "approved" and not one.revoked_at] == []
            assert (scope.people.all(), scope.people.tokens(), scope.installs.all()) == ([], [], [])
            assert [one for one in scope.proposals.all() if one.status == "approved"] == []
            assert scope.scans.latest(DIGEST) == []
        assert (store.by_token(made.secret), store.by_token("mtr_evil"), store.has_people) == (None, None, False)
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.covers("SEC-18")
def test_a_backup_that_its_own_key_signed_brings_all_of_it_back(made: Made, tmp_path: Path) -> None:
    path = rewritten(made, tmp_path / "backup.zip", lambda parts: None)
    url = f"sqlite:///{tmp_path}/new/metier.db"
    assert restore(url, path, key_file=made.key).distrusted == ""
    with Store.open(url) as store:
        assert [one.id for one in store.of().state().approvals[DIGEST]] == [made.approved]
        assert store.of().state().approvals.get(EVIL, ()) == ()
        person = store.by_token(made.secret)
        assert person is not None and person[1].name == "ada"
    assert verify_store({}, url).is_ok


@pytest.mark.covers("SEC-18")
def test_a_backup_of_another_machine_is_refused_until_its_key_is_named(made: Made, tmp_path: Path) -> None:
    path = rewritten(made, tmp_path / "backup.zip", lambda parts: None)
    url, ours = f"sqlite:///{tmp_path}/new/metier.db", tmp_path / "ours" / "audit.ed25519"
    with pytest.raises(IntegrityFailed, match="which is not known here") as caught:
        restore(url, path, key_file=ours)
    assert "--key" in caught.value.hint
    (public,) = made.key.parent.glob("*.pub")
    assert restore(url, path, key_file=ours, keys=[public]).distrusted == ""


@pytest.mark.covers("SEC-18")
def test_a_part_that_is_there_twice_is_refused(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "backup.zip"
    path.write_bytes(made.archive)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("tables/approvals.jsonl", b"")
    with pytest.raises(IntegrityFailed, match="twice"):
        restore(f"sqlite:///{tmp_path}/new/metier.db", path, untrusted=True, key_file=made.key)


@pytest.mark.covers("SEC-18")
def test_what_is_here_stays_when_a_backup_comes_that_nobody_can_rely_on(made: Made, tmp_path: Path) -> None:
    path = rewritten(made, tmp_path / "backup.zip", ATTACKS["nobody"])
    url = f"sqlite:///{tmp_path}/new/metier.db"
    with Store.open(url) as store:
        scope = store.of()
        scope.people.add(Person(name="root", roles=frozenset({"admin"})))
        secret = scope.people.new_token("root")[1]
        scope.installs.put(Install(location="/skills/x", skill="x", digest="sha256:ours"))
        scope.blocks.add("name", "later", reason="", by="root")
    restore(url, path, force=True, untrusted=True, key_file=made.key)
    with Store.open(url) as store:
        assert [one.name for one in store.of().people.all()] == ["root"]
        assert store.by_token(secret) is not None
        assert store.of().installs.all()[0].digest == "sha256:ours"
        assert {value for _, value in store.of().state().blocked} == {"miner", "later"}
