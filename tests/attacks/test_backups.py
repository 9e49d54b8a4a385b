"""Attacks by backups: what docs/how-to/store.md promises, tried with `metier store restore` from outside.

- A backup that no known key signed is refused; with `--untrusted` nothing of it that loosens is brought back.
- To bring a backup back loosens nothing: what was forbidden since stays forbidden, and who was removed stays removed.
- Where the store can no longer say what was forbidden, nothing is brought back unless somebody accepts that loss.
- Once people were added, only an admin brings one back.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.governed import BARRED, SKILLS, Governed, command, governed, let_go, loaded, settle

from metier.store import Install, Proposal, ScanRow, Store
from metier.store.audit_log import canonical, chain_hash

pytestmark = pytest.mark.covers("SEC-18")

EVIL = "sha256:" + "e" * 64
NUMBERS = itertools.count()
Parts = dict[str, bytes]
Attack = Callable[[Parts], object]


@dataclass(frozen=True, kw_only=True)
class Saved(Governed):
    """A store with a backup of it, and the token of a reviewer."""

    archive: Path
    ada: str

    @property
    def file(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///"))


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    root = tmp_path_factory.mktemp("seed")
    made = governed(root, f"sqlite:///{root}/data/metier.db")
    archive = root / "backup.zip"
    with pytest.MonkeyPatch.context() as patch:
        settle(patch, root, made.url)
        ada = command("user", "add", "ada", "--role", "reviewer", "--token", token=made.admin)[1].split()[-1]
        with Store.open(made.url) as store:
            scope = store.of()
            scope.installs.put(Install(location="/skills/x", skill="x", digest="sha256:x"))
            scope.proposals.add(Proposal(skill="x@y"))
            scope.scans.put(ScanRow(digest="sha256:x", engine="other", max_severity="high"))
        assert command("store", "backup", str(archive), token=made.admin)[0] == 0
    let_go(made.url)
    return Saved(**vars(made), archive=archive, ada=ada)


@pytest.fixture
def store(seed: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saved]:
    """A copy of the store, under an address of its own, that was signed there."""
    shutil.copytree(seed.folder, tmp_path / "data")
    one = replace(seed, url=f"sqlite:///{tmp_path}/data/metier.db", folder=tmp_path / "data")
    settle(monkeypatch, seed.root, one.url)
    assert command("audit", "checkpoint", token=one.admin)[0] == 0
    yield one
    let_go(one.url)


def token_of(one: Saved, secret: str) -> tuple[str, ...]:
    """What the owner of a token may do; nothing where it does not count."""
    with Store.open(one.url) as store:
        found = store.by_token(secret)
        return tuple(sorted(found[1].roles)) if found is not None else ()


# --- an archive that somebody changed ---------------------------------------------------------------------------------


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


def appended(**fields: Any) -> Attack:
    """A record at the end of the trail, with the hashes that it must have."""

    def attack(parts: Parts) -> None:
        found = rows(parts, "audit_log")
        last = found[-1]
        text = canonical({**json.loads(last["data_json"]), **fields, "seq": last["seq"] + 1})
        row = {**last, "seq": last["seq"] + 1, "data_json": text, "prev_hash": last["hash"]}
        row |= {"hash": chain_hash(last["hash"], text), "event_type": fields.get("type", "")}
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


GRANT = {"id": "a-evil", "digest": EVIL, "skill": "evil@skills", "decision": "approved", "revoked_at": ""}
ADMIN = '["admin"]'
MINE = hashlib.sha256(b"mtr_evil").hexdigest()
ARCHIVES: dict[str, Attack] = {
    "an approval more": copied("approvals", **GRANT),
    "an approval more, with a record": both(
        copied("approvals", **GRANT), appended(type="approval.granted", approval="a-evil", digest=EVIL)
    ),
    "a revocation taken away": changed("approvals", revoked_at="", revoked_by="", decision="approved"),
    "approvals that grant more": changed("approvals", grants='["scripts","hooks"]', tools='["Bash"]'),
    "approvals without an end": changed("approvals", expires_at="", layer="", environment=""),
    "no decisions": emptied("approvals", "approval_requests"),
    "no quarantine": emptied("blocks"),
    "no quarantine, with a record": both(emptied("blocks"), appended(type="skill.released", notes=["name blocked"])),
    "another quarantine": changed("blocks", value="harmless"),
    "a person more, with a record": both(
        copied("people", name="mallory", roles=ADMIN), appended(type="person.added", reason="user mallory: admin")
    ),
    "a higher role": changed("people", roles=ADMIN),
    "nobody": emptied("tokens", "people"),
    "a token more": copied("tokens", id="t-evil", secret_hash=MINE),
    "tokens of somebody else": changed("tokens", person="vic"),
    "tokens for longer": changed("tokens", expires_at="", parent="", revoked_at=""),
    "other content in a folder": changed("installs", digest=EVIL),
    "a proposal that was approved": changed("proposals", status="approved", reviewer="ada"),
    "a scan that found nothing": changed("scans", max_severity="none", findings="[]"),
    "no trail": emptied("audit_log"),
    "the end of the trail cut": lambda parts: put(parts, "audit_log", rows(parts, "audit_log")[:-2]),
    "the first record removed": lambda parts: put(parts, "audit_log", rows(parts, "audit_log")[1:]),
    "a record changed": changed("audit_log", data_json="{}"),
    "a record with a number below 0": copied("audit_log", seq=-5),
    "a record of another tenant": copied("audit_log", tenant="other"),
    "a tenant in hidden letters": copied("audit_log", tenant="\ufdd00041"),
    "no checkpoints": emptied("audit_checkpoints"),
    "a number of changes far ahead": changed("generations", number=2**62),
    "an earlier time": in_manifest(made_at="1999-01-01T00:00:00.000+00:00"),
    "another version": in_manifest(version=99),
    "another format": in_manifest(format=1),
    "the same in other words": lambda parts: parts.update(
        {"manifest.json": json.dumps(json.loads(parts["manifest.json"]), indent=3).encode()}
    ),
    "no signature": gone("signature.json"),
    "an empty signature": member("signature.json", b"{}"),
    "a signature that is a list": member("signature.json", b"[]"),
    "a signature that is nothing": member("signature.json", b"null"),
    "a signature by an unknown key": member("signature.json", b'{"key_id": "ffffffffffffffff", "signature": "AAAA"}'),
    "the signature of a checkpoint": lambda parts: parts.update(
        {"signature.json": json.dumps(dict(list(rows(parts, "audit_checkpoints")[0].items())[-2:])).encode()}
    ),
    "rows that are not those of the manifest": lambda parts: parts.update(
        {"tables/people.jsonl": parts["tables/people.jsonl"] * 2}
    ),
    "a file outside": member("files/../../evil.md"),
    "a file with an absolute path": member("/etc/evil.md"),
    "a table more": member("tables/sqlite_master.jsonl"),
    "a table less": gone("tables/blocks.jsonl"),
    "a content more": member(f"blobs/{hashlib.sha256(b'x').hexdigest()}"),
    "a content under another hash": member("blobs/" + "0" * 64),
    "no contents": lambda parts: [parts.pop(name) for name in list(parts) if name.startswith("blobs/")],
    "no manifest": gone("manifest.json"),
    "a manifest that is too large": member("manifest.json", b" " * (17 * 1024 * 1024)),
}


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """All cases, of which the first of so many is quick, and the others are slow."""
    return [pytest.param(case, marks=[pytest.mark.slow] if at % every else []) for at, case in enumerate(cases)]


def changed_archive(seed: Saved, path: Path, attack: Attack) -> Path:
    with zipfile.ZipFile(seed.archive) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    attack(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("attack", some(ARCHIVES, 8))
def test_an_archive_that_somebody_changed_is_refused_or_loosens_nothing(
    attack: str, seed: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed_archive(seed, tmp_path / "backup.zip", ARCHIVES[attack])
    one = replace(seed, url=f"sqlite:///{tmp_path}/new/metier.db")
    settle(monkeypatch, seed.root, one.url)
    code, text = command("store", "restore", str(path))
    assert (code != 0, "hint:" in text, one.file.exists()) == (True, True, False)
    code, text = command("store", "restore", str(path), "--untrusted")
    if one.file.exists():
        assert "Nothing in it that loosens was brought back" in text
        assert loaded(*SKILLS) == []
        assert [token_of(one, secret) for secret in (seed.admin, seed.ada, "mtr_evil")] == [(), (), ()]
        with Store.open(one.url) as store:
            for scope in map(store.of, store.tenants()):
                assert (scope.people.all(), scope.installs.all(), scope.scans.latest("sha256:x")) == ([], [], [])
                assert not [one for one in scope.proposals.all() if one.status == "approved"]
    else:
        assert code != 0, text
    assert not list(tmp_path.rglob("*evil*"))
    let_go(one.url)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def with_a_part_twice(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("tables/approvals.jsonl", b"")


@pytest.mark.parametrize("harm", [cut_short, with_a_part_twice])
def test_an_archive_that_is_no_whole_one_is_refused(harm: Callable[[Path], None], store: Saved, tmp_path: Path) -> None:
    harm(Path(shutil.copy(store.archive, tmp_path / "backup.zip")))
    words = ("store", "restore", str(tmp_path / "backup.zip"), "--force", "--untrusted")
    assert command(*words, token=store.admin)[0] != 0
    assert loaded(*SKILLS) == ["totals", "second"]


def test_an_archive_of_another_machine_is_refused_until_its_key_is_named(
    seed: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, seed.root, f"sqlite:///{tmp_path}/new/metier.db")
    monkeypatch.setenv("METIER_CONFIG", str(tmp_path / "config"))
    assert "not known here" in command("store", "restore", str(seed.archive))[1]
    (tmp_path / "made-up.pub").write_text("-----BEGIN PUBLIC KEY-----\n")
    assert command("store", "restore", str(seed.archive), "--key", str(tmp_path / "made-up.pub"))[0] != 0
    (public,) = (seed.root / "config" / "keys").glob("*.pub")
    assert command("store", "restore", str(seed.archive), "--key", str(public))[0] == 0
    assert loaded(*SKILLS) == ["totals", "second"]
    let_go(f"sqlite:///{tmp_path}/new/metier.db")


def test_what_is_here_stays_where_nobody_can_rely_on_an_archive(store: Saved, tmp_path: Path) -> None:
    path = changed_archive(store, tmp_path / "backup.zip", emptied(*("blocks", "people", "tokens", "installs")))
    assert command("quarantine", "add", "totals", "--reason", "x", token=store.admin)[0] == 0
    assert command("store", "restore", str(path), "--force", "--untrusted", token=store.admin)[0] in (0, 3)
    assert loaded("totals", *BARRED) == []
    assert (token_of(store, store.admin), token_of(store, store.ada)) == (("admin",), ())
    with Store.open(store.url) as opened:
        assert [one.digest for one in opened.of().installs.all()] == ["sha256:x"]


# --- an archive of before ---------------------------------------------------------------------------------------------

DENY = ("approve", "deny", "{evil}", "--reason", "x")
REVOKE = ("approve", "revoke", "{totals}", "--reason", "x")
QUARANTINE = ("quarantine", "add", "totals", "--reason", "x")
REMOVE = ("user", "remove", "ada")
LOWER = ("user", "add", "ada", "--role", "viewer")
BLOCKED, LOWERED, OUT = ("totals",), ("viewer",), ()

# What was decided since the backup -> the commands, the skills that stay barred, and what ada's token may still do.
SINCE: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...], tuple[str, ...]]] = {
    "a quarantine of a name": ([QUARANTINE], BLOCKED, ("reviewer",)),
    "a quarantine of a content": (
        [("quarantine", "add", "--digest", "{digest}", "--reason", "x")],
        BLOCKED,
        ("reviewer",),
    ),
    "a quarantine of a source": (
        [("quarantine", "add", "--source", "skills", "--reason", "x")],
        ("totals", "second"),
        ("reviewer",),
    ),
    "a lower role": ([LOWER], (), LOWERED),
    "a revocation": ([REVOKE], BLOCKED, ("reviewer",)),
    "a refusal": ([DENY], (), ("reviewer",)),
    "all of it": ([QUARANTINE, REVOKE, DENY, REMOVE], BLOCKED, OUT),
    "a quarantine, a release, and another": (
        [QUARANTINE, ("quarantine", "release", "totals", "--reason", "x"), QUARANTINE],
        BLOCKED,
        ("reviewer",),
    ),
    "a role lowered twice and raised by half": (
        [LOWER, ("user", "add", "ada", "--role", "author")],
        (),
        ("author",),
    ),
    "a token revoked": ([("user", "revoke", "{token}")], (), OUT),
    "somebody removed, and added with less": ([REMOVE, LOWER], (), OUT),
    "somebody removed": ([REMOVE], (), OUT),
}


def facts_of(one: Saved) -> dict[str, str]:
    with Store.open(one.url) as store:
        scope = store.of()
        approvals = {each.skill.partition("@")[0]: each for each in scope.approvals.all()}
        requests = {each.skill.partition("@")[0]: each.id for each in scope.approvals.requests("pending")}
        token = next(each.id for each in scope.people.tokens() if each.person == "ada")
        totals = approvals["totals"]
        return {"totals": str(totals.id), "digest": totals.digest, "evil": str(requests["evil"]), "token": str(token)}


def decide(one: Saved, *commands: tuple[str, ...]) -> None:
    facts = facts_of(one)
    for words in commands:
        code, text = command(*(word.format(**facts) for word in words), token=one.admin)
        assert code == 0, text


@pytest.mark.parametrize("since", some(SINCE, 6))
def test_what_was_forbidden_since_a_backup_stays_so(since: str, store: Saved) -> None:
    commands, barred, roles = SINCE[since]
    decide(store, *commands)
    for _ in range(2):
        code, text = command("store", "restore", str(store.archive), "--force", token=store.admin)
        assert code == 0, text
        assert loaded(*barred, *BARRED) == []
        assert token_of(store, store.ada) == roles
        assert token_of(store, store.removed) == ()
        let_go(store.url)
    if DENY in commands:
        assert "decided against" in command("--skills", "skills", "run", "evil", "go.sh")[1]
    assert command("audit", "verify")[0] == 0


BY_HAND = {
    "no quarantine and a good approval": ["DELETE FROM blocks", "UPDATE approvals SET revoked_at = ''"],
    "a higher role": ["UPDATE people SET roles = '[\"admin\"]'"],
    "nobody": ["DELETE FROM people"],
    "a good token": ["UPDATE tokens SET revoked_at = ''"],
    "no token": ["DELETE FROM tokens WHERE person = 'ada'"],
    "a number that was set back": ["UPDATE generations SET number = 1", "DELETE FROM blocks"],
}


@pytest.mark.parametrize("by_hand", some(BY_HAND, 3))
def test_rows_that_were_changed_by_hand_before_it_loosen_nothing(by_hand: str, store: Saved) -> None:
    decide(store, QUARANTINE, REVOKE, LOWER, *([("user", "revoke", "{token}")] if "token" in by_hand else []))
    with contextlib.closing(sqlite3.connect(store.file)) as database, database:
        for statement in BY_HAND[by_hand]:
            database.execute(statement)
    command("store", "restore", str(store.archive), "--force", token=store.admin)
    assert loaded("totals", *BARRED) == []
    assert token_of(store, store.ada) in ((OUT,) if "token" in by_hand else (LOWERED, OUT))


# --- a store that can no longer say what it forbids -------------------------------------------------------------------


def remove(one: Saved) -> None:
    for path in one.folder.glob("metier.db*"):
        path.unlink()


def truncate(one: Saved) -> None:
    remove(one)
    one.file.touch()


def overwrite_header(one: Saved) -> None:
    with contextlib.closing(sqlite3.connect(one.file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = one.file.read_bytes()
    remove(one)
    one.file.write_bytes(b"x" * 100 + data[100:])


def overwrite_all(one: Saved) -> None:
    remove(one)
    one.file.write_bytes(b"no database" * 1_000)


def drop_tables(one: Saved) -> None:
    with contextlib.closing(sqlite3.connect(one.file)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        for kind in ("trigger", "table"):
            names = f"SELECT name FROM sqlite_master WHERE type = '{kind}' AND name NOT LIKE 'sqlite_%'"
            for (name,) in database.execute(names).fetchall():
                database.execute(f"DROP {kind} {name}")
        database.execute("PRAGMA user_version = 0")
        database.commit()


def forget_version(one: Saved) -> None:
    with contextlib.closing(sqlite3.connect(one.file)) as database:
        database.execute("PRAGMA user_version = 0")


def cut_trail(one: Saved) -> None:
    """All that speaks of the quarantine, and all that was recorded since."""
    with contextlib.closing(sqlite3.connect(one.file)) as database, database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        quarantined = "SELECT max(seq) FROM audit_log WHERE event_type = 'skill.quarantined'"
        database.execute(f"DELETE FROM audit_log WHERE seq >= ({quarantined})")
        database.execute("DELETE FROM blocks WHERE value = 'totals'")
        for _, text in triggers:
            database.execute(text)


HARM = [remove, truncate, overwrite_header, overwrite_all, drop_tables, forget_version, cut_trail]


@pytest.mark.parametrize("harm", some(HARM, 6))
def test_where_a_store_cannot_say_what_it_forbids_nothing_is_brought_back_unasked(
    harm: Callable[[Saved], None], store: Saved
) -> None:
    decide(store, QUARANTINE)
    assert command("audit", "checkpoint", token=store.admin)[0] == 0
    let_go(store.url)
    harm(store)
    left = store.file.read_bytes() if store.file.exists() else None
    for token in (store.admin, ""):
        code, text = command("store", "restore", str(store.archive), "--force", token=token)
        assert code != 0, text
    if harm is not cut_trail:
        assert (store.file.read_bytes() if store.file.exists() else None) == left
        assert loaded(*SKILLS) == []
    code, text = command("store", "restore", str(store.archive), "--force", "--accept-loss", token=store.admin)
    assert code == (2 if harm is forget_version else 0), text
    if code == 0:
        assert "may be lost" in command("audit", "search", "--type", "store.restored", "--json", token=store.admin)[1]


# --- whoever brings it back -------------------------------------------------------------------------------------------


def test_only_an_admin_brings_a_backup_back_or_makes_one(store: Saved, tmp_path: Path) -> None:
    decide(store, QUARANTINE)
    for token in (store.viewer, store.ada, store.removed, "", "mtr_evil"):
        for more in ((), ("--untrusted",), ("--accept-loss",)):
            code, text = command("store", "restore", str(store.archive), "--force", *more, token=token)
            assert code != 0, text
        if token:
            assert command("store", "backup", str(tmp_path / "mine.zip"), token=token)[0] != 0
        assert loaded("totals", *BARRED) == []
