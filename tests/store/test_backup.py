"""Backups: made while others write, brought back into either kind of database, and never half."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.store.test_tenants import FILES, Played

from metier.errors import IntegrityFailed, InvalidArgument, MetierError, StoreUnavailable
from metier.guard.audit.verification import verify
from metier.guard.backups import back_up, restore
from metier.skill.package import MemoryPackage
from metier.store import Approval, ApprovalRequest, Revision, Store, revision_files
from metier.store.checks import check_store


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a store with something of everything, of two tenants."""
    with Store.open(f"sqlite:///{tmp_path}/old/metier.db") as store:
        Played(store.of("acme"))
        Played(store.of("\0odd\udc80"))
        (store.folder / "audit").mkdir()
        (store.folder / "audit" / "checkpoints.jsonl").write_bytes(b"{}\n")
        (store.folder / "proposals").mkdir()
        (store.folder / "proposals" / "x-1.md").write_bytes(b"# Diff\n")
        back_up(store, tmp_path / "backup.zip")
    return tmp_path / "backup.zip"


def rows(store: Store) -> dict[str, object]:
    """All that a store says, but for the numbers that tell that something changed."""
    found = {tenant: store.of(tenant) for tenant in store.tenants()}
    return {
        name: (
            *(scope.approvals.all(), scope.approvals.requests(), scope.proposals.all(), scope.blocks.all()),
            *(scope.installs.all(), scope.versions.of("/x"), scope.people.all(), scope.people.tokens()),
            *(scope.scans.latest("d"), scope.policies.texts("d"), list(scope.audit.walk()), scope.audit.checkpoints()),
            *(scope.revisions.files(digest_of(FILES)), scope.revisions.get(digest_of(FILES))),
        )
        for name, scope in found.items()
    }


def digest_of(files: dict[str, tuple[Any, bytes]]) -> str:
    return MemoryPackage({path: data for path, (_, data) in files.items()}).digest()


def test_everything_is_brought_back_into_either_database(tmp_path: Path, backup: Path, store_url: str) -> None:
    restored = restore(store_url, backup)
    with Store.open(f"sqlite:///{tmp_path}/old/metier.db") as old, Store.open(store_url, create=False) as new:
        assert rows(new) == rows(old)
        assert [problem for problem in check_store(new) if problem.severity == "error"] == []
        assert (new.folder / "proposals" / "x-1.md").read_bytes() == b"# Diff\n"
        assert (new.folder / "audit" / "checkpoints.jsonl").read_bytes() == b"{}\n"
        assert verify("acme", new.of("acme").audit.walk(), (), {}).is_ok
        # What was restored goes on: the chain, and its protection.
        new.of("acme").audit.append({"type": "skill.activated"})
        with pytest.raises(StoreUnavailable), new.pool.transaction():
            new.pool.change("DELETE FROM audit_log")
    assert restored.blobs == 1
    assert restored.rows > 20


def test_a_backup_of_a_server_fits_a_file(tmp_path: Path, store_url: str) -> None:
    with Store.open(store_url) as store:
        Played(store.of("acme"))
        back_up(store, tmp_path / "backup.zip")
        restore(f"sqlite:///{tmp_path}/new/metier.db", tmp_path / "backup.zip")
        with Store.open(f"sqlite:///{tmp_path}/new/metier.db") as new:
            assert rows(new) == rows(store)


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of a Unix")
def test_only_its_owner_can_read_a_backup(backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"mine")
    with Store.open() as store, pytest.raises(InvalidArgument, match="exists already"):
        back_up(store, tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"mine"


def test_a_backup_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with Store.open() as store:
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            back_up(store, tmp_path / "no" / "such" / "folder.zip")
        Played(store.of())
        for path in (store.folder / "blobs").rglob("*"):
            if path.is_file():
                path.write_bytes(b"damaged")
        with pytest.raises(IntegrityFailed):
            back_up(store, tmp_path / "backup.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_of_one_moment_however_much_is_written_meanwhile(tmp_path: Path, store_url: str) -> None:
    stop = threading.Event()
    with Store.open(store_url) as store:

        def write() -> None:
            scope = store.of("acme")
            while not stop.is_set():
                scope.approvals.add(Approval(digest="d", skill="x", decided_by="ada"))

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for number in range(3):
                back_up(store, tmp_path / f"{number}.zip")
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    for number in range(3):
        url = f"sqlite:///{tmp_path}/{number}/metier.db"
        restore(url, tmp_path / f"{number}.zip")
        with Store.open(url) as restored:
            scope = restored.of("acme")
            told = {link.record["approval"] for link in scope.audit.walk() if link.record}
            assert told == {approval.id for approval in scope.approvals.all()}
            assert verify("acme", scope.audit.walk(), (), {}).is_ok


def test_a_store_in_use_is_only_replaced_when_somebody_says_so(backup: Path, store_url: str) -> None:
    with Store.open(store_url) as store:
        store.of("acme").blocks.add("name", "later", reason="", by="")
        before = store.of("acme").state()
        with pytest.raises(InvalidArgument, match="is in use") as caught:
            restore(store_url, backup)
        assert "--force" in caught.value.hint
        assert store.of("acme").state() is before
        restore(store_url, backup, force=True)
        # Whoever has it open sees at once that it is another one.
        assert store.of("acme").state().blocked == {("name", "x"), ("name", "later")}
        assert store.of("acme").state() is not before


def test_what_was_blocked_since_stays_blocked(backup: Path, store_url: str) -> None:
    with Store.open(store_url) as store:
        store.of("\0odd\udc80").blocks.add("name", "late\udc80", reason="bad", by="ada")
        before = store.of("\0odd\udc80").blocks.all()
    restored = restore(store_url, backup, force=True)
    assert [(one.tenant, one.kind, one.value) for one in restored.kept_blocks] == [
        ("\0odd\udc80", "name", "late\udc80")
    ]
    with Store.open(store_url, create=False) as store:
        assert set(before) < set(store.of("\0odd\udc80").blocks.all())
        assert ("name", "late\udc80") in store.of("\0odd\udc80").state().blocked


def decisions(store: Store) -> tuple[Approval, Approval, Approval]:
    """Two approvals and a refusal that is taken back later."""
    ours = store.of("acme").approvals
    first = ours.add(Approval(digest="d1", skill="x@y", decided_by="ada", grants=("network",)))
    second = ours.add(Approval(digest="d2", skill="x@y", decided_by="ada"))
    return first, second, ours.add(Approval(digest="d3", skill="x@y", decision="denied", decided_by="ada"))


def test_what_was_revoked_or_refused_since_stays_so(tmp_path: Path, store_url: str) -> None:
    with Store.open(store_url) as store:
        ours = store.of("acme").approvals
        early, untouched, lifted = decisions(store)
        asked = ours.request(ApprovalRequest(digest="d4", skill="x@y", requested_by="bob"))
        back_up(store, tmp_path / "backup.zip")
        ours.revoke(early.id, "eve", "It leaks.")
        ours.revoke(lifted.id, "eve", "It is fine.")
        refused = ours.add(
            Approval(digest="d4", skill="x@y", request=asked.id, decision="denied", decided_by="eve", reason="No.")
        )
        ours.set_request(asked.id, "denied", expected="pending")
        late = ours.request(ApprovalRequest(digest="d5", skill="x@y", requested_by="bob"))
        ours.set_request(late.id, "denied", expected="pending")
        unseen = ours.add(Approval(digest="d5", skill="x@y", request=late.id, decision="denied", decided_by="eve"))
        given = ours.add(Approval(digest="d6", skill="x@y", decided_by="eve"))
        ours.revoke(given.id, "eve", "")
        restored = restore(store_url, tmp_path / "backup.zip", force=True)
        found = {one.id: one for one in ours.all()}
        assert found.keys() == {early.id, untouched.id, lifted.id, refused.id, unseen.id}
        assert (found[early.id].revoked_by, found[early.id].revoked_reason) == ("eve", "It leaks.")
        assert not found[untouched.id].revoked_at
        # Nothing is loosened by a backup, but it may well be stricter.
        assert not found[lifted.id].revoked_at
        assert (found[refused.id], found[unseen.id]) == (refused, unseen)
        # Who asked may not take back what was said to them, so it must be known who did.
        assert {(one.id, one.status, one.requested_by) for one in ours.requests()} == {
            (asked.id, "denied", "bob"),
            (late.id, "denied", "bob"),
        }
    assert {(one.tenant, one.decision, one.id, one.reason) for one in restored.kept_decisions} == {
        ("acme", "revoked", early.id, "It leaks."),
        ("acme", "denied", refused.id, "No."),
        ("acme", "denied", unseen.id, ""),
    }


def test_a_backup_cannot_say_otherwise_of_what_was_refused(tmp_path: Path, store_url: str) -> None:
    with Store.open(f"sqlite:///{tmp_path}/other.db") as store:
        store.of().approvals.add(Approval(id="a-1", digest="d1", skill="x@y", decided_by="ada"))
        back_up(store, tmp_path / "backup.zip")
    with Store.open(store_url) as store:
        refused = store.of().approvals.add(
            Approval(id="a-1", digest="d1", skill="x@y", decision="denied", decided_by="eve")
        )
        restore(store_url, tmp_path / "backup.zip", force=True)
        assert store.of().approvals.all() == [refused]


def test_a_request_that_waits_keeps_no_backup_from_coming_back(tmp_path: Path, store_url: str) -> None:
    with Store.open(f"sqlite:///{tmp_path}/other.db") as store:
        saved = store.of().approvals.request(ApprovalRequest(digest="d1", skill="x@y"))
        back_up(store, tmp_path / "backup.zip")
    with Store.open(store_url) as store:
        ours = store.of().approvals
        waiting = ours.request(ApprovalRequest(digest="d1", skill="x@y"))
        ours.add(Approval(digest="d1", skill="x@y", request=waiting.id, decision="denied", decided_by="eve"))
        restore(store_url, tmp_path / "backup.zip", force=True)
        assert (ours.requests(), len(ours.all())) == ([saved], 1)


def test_old_checkpoints_are_set_aside_not_lost(backup: Path, store_url: str) -> None:
    with Store.open(store_url) as store:
        folder = store.folder / "audit"
        folder.mkdir(parents=True)
        (folder / "checkpoints.jsonl").write_bytes(b"old\n")
        restored = restore(store_url, backup)
        (aside,) = restored.set_aside
        assert Path(aside).read_bytes() == b"old\n"
        assert (folder / "checkpoints.jsonl").read_bytes() == b"{}\n"
        assert restore(store_url, backup, force=True).set_aside == ()


def test_a_store_that_is_damaged_makes_room_for_a_backup(tmp_path: Path, backup: Path) -> None:
    path = tmp_path / "new" / "metier.db"
    path.parent.mkdir()
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 9_000)
    url = f"sqlite:///{path}"
    with pytest.raises(StoreUnavailable):
        restore(url, backup, accept_loss=True)
    with pytest.raises(IntegrityFailed, match="is damaged"):
        restore(url, backup, force=True)
    (aside,) = restore(url, backup, force=True, accept_loss=True).set_aside
    assert Path(aside).read_bytes().startswith(b"SQLite format 3\0\xff")
    with Store.open(url) as store:
        assert store.of("acme").state().blocked == {("name", "x")}


def rewritten(backup: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """The same archive with other parts; what is said of them in the manifest is up to the change."""
    with zipfile.ZipFile(backup) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(backup, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def with_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], object]:
    def changed(parts: dict[str, bytes]) -> None:
        manifest = json.loads(parts["manifest.json"])
        change(manifest)
        parts["manifest.json"] = json.dumps(manifest).encode()

    return changed


def with_rows(data: bytes) -> Callable[[dict[str, bytes]], object]:
    """Another table of blocks, of which the manifest speaks as if it had always been so."""

    def changed(parts: dict[str, bytes]) -> None:
        said = {"sha256": hashlib.sha256(data).hexdigest(), "rows": data.count(b"\n")}
        with_manifest(lambda manifest: manifest["tables"].update(blocks=said))(parts)
        parts["tables/blocks.jsonl"] = data

    return changed


def blob_of(parts: dict[str, bytes]) -> str:
    return next(name for name in parts if name.startswith("blobs/"))


BLOCK = {"tenant": "", "kind": "name", "value": "x", "reason": "", "by": "", "at": ""}
HOSTILE: dict[str, Callable[[dict[str, bytes]], object]] = {
    "no manifest": lambda parts: parts.pop("manifest.json"),
    "manifest is no JSON": lambda parts: parts.update({"manifest.json": b"{"}),
    "manifest is a list": lambda parts: parts.update({"manifest.json": b"[]"}),
    "manifest is deep": lambda parts: parts.update({"manifest.json": b"[" * 100_000}),
    "manifest without tables": with_manifest(lambda manifest: manifest.pop("tables")),
    "manifest with another table": with_manifest(lambda manifest: manifest["tables"].update(sqlite_master={})),
    "another format": with_manifest(lambda manifest: manifest.update(format=1)),
    "another version": with_manifest(lambda manifest: manifest.update(version=99)),
    "a table is missing": lambda parts: parts.pop("tables/blocks.jsonl"),
    "a row was added": lambda parts: parts.update({"tables/blocks.jsonl": parts["tables/blocks.jsonl"] * 2}),
    "a row was removed": lambda parts: parts.update({"tables/audit_log.jsonl": b""}),
    "a content is missing": lambda parts: parts.pop(blob_of(parts)),
    "a content was changed": lambda parts: parts.update({blob_of(parts): b"other"}),
    "a file is missing": lambda parts: parts.pop("files/proposals/x-1.md"),
    "a file was changed": lambda parts: parts.update({"files/proposals/x-1.md": b"other"}),
    "a row is no JSON": with_rows(b"x\n"),
    "a row is a number": with_rows(b"7\n"),
    "a row has too little": with_rows(b"{}\n"),
    "a row has too much": with_rows(json.dumps({**BLOCK, "x": ""}).encode() + b"\n"),
    "a value is of another kind": with_rows(json.dumps({**BLOCK, "value": 7}).encode() + b"\n"),
    "a value is a list": with_rows(json.dumps({**BLOCK, "value": []}).encode() + b"\n"),
}


@pytest.mark.each("what", HOSTILE, every=3)
def test_what_is_not_as_it_was_saved_changes_nothing(backup: Path, store_url: str, what: str) -> None:
    original = backup.read_bytes()
    with Store.open(store_url) as store:
        before = {tenant: store.of(tenant).state() for tenant in ("", "acme")}
        rewritten(backup, HOSTILE[what])
        with pytest.raises(MetierError) as caught:
            restore(store_url, backup, force=True)
        assert caught.value.hint
        assert before == {tenant: store.of(tenant).state() for tenant in ("", "acme")}
    backup.write_bytes(original)


def test_files_of_a_backup_never_leave_the_folder(tmp_path: Path, backup: Path) -> None:
    def escape(parts: dict[str, bytes]) -> None:
        for name in ("files/../../escaped.md", "files/proposals/../../../escaped.md", "blobs/../escaped", "/escaped"):
            parts[name] = b"out"

    rewritten(backup, escape)
    with pytest.raises(IntegrityFailed, match="is no part of one"):
        restore(f"sqlite:///{tmp_path}/deep/new/metier.db", backup, untrusted=True)
    assert list(tmp_path.rglob("*escaped*")) == []


@pytest.mark.each("data", [b"", b"PK", b"no archive", b"PK\x05\x06" + b"\0" * 18, b"PK\x05\x06" + b"\xff" * 18])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "backup.zip").write_bytes(data)
    with pytest.raises(IntegrityFailed):
        restore(f"sqlite:///{tmp_path}/new/metier.db", tmp_path / "backup.zip")
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_not_there_or_a_folder_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none.zip", tmp_path):
        with pytest.raises(InvalidArgument if path != tmp_path else StoreUnavailable):
            restore(None, path)


def test_a_backup_that_was_cut_short_is_refused(tmp_path: Path, backup: Path) -> None:
    data = backup.read_bytes()
    for size in (len(data) // 2, len(data) - 1):
        backup.write_bytes(data[:size])
        with pytest.raises(IntegrityFailed):
            restore(f"sqlite:///{tmp_path}/new/metier.db", backup)


def test_what_no_revision_has_is_left_out(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/old/metier.db") as store:
        store.blobs.put([b"interrupted"])
        store.of().revisions.put(Revision(digest="sha256:x", skill="x", files=revision_files(FILES)))
        assert back_up(store, tmp_path / "backup.zip")["blobs"] == 0
