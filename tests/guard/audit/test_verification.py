"""Whether an audit log is what was written: each way to tamper with it is noticed, and the first bad record named."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres import sqlite_first, store_url

from metier.errors import AuditUnavailable
from metier.guard.audit.checkpoints import Checkpoint, CheckpointFile, checkpoints_of, default_key_file, make_checkpoint
from metier.guard.audit.export import export_lines
from metier.guard.audit.keys import SigningKey, known_keys
from metier.guard.audit.verification import ChainFault, ChainVerification, verify_export, verify_store
from metier.store import Store, TenantScope
from metier.store.audit_log import AuditTable, canonical, chain_hash
from metier.store.location import parse_address

__all__ = ["store_url"]

COUNT = 30
Tamper = Callable[..., None]


def record(number: int, **more: Any) -> dict[str, Any]:
    moment = f"2026-01-01T10:00:{number % 60:02}.000+00:00"
    return {"timestamp": moment, "type": "tool.called", "decision": "allow", "tool": f"tool-{number}", **more}


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.open(store_url) as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    """A trail with a checkpoint after 20 records, and 10 more."""
    scope = store.of("")
    fill(scope, 20)
    make_checkpoint(store, "", default_key_file())
    fill(scope, COUNT - 20)
    return scope


def fill(scope: TenantScope, count: int) -> None:
    last = scope.audit.last()
    first = last.seq + 1 if last else 1
    with scope.transaction():
        for number in range(first, first + count):
            scope.audit.append(record(number))


@pytest.fixture
def tamper(store: Store) -> Tamper:
    """Does what somebody with the database in their hands can do."""

    def change(*statements: str, **values: str) -> None:
        if store.kind == "sqlite":
            with sqlite3.connect(parse_address(store.url).target) as connection:
                triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
                for (name,) in triggers:
                    connection.execute(f"DROP TRIGGER {name}")
                for statement in statements:
                    connection.execute(statement, values)
            connection.close()
            return
        import psycopg

        with psycopg.connect(store.url) as server:
            server.execute("SET session_replication_role = replica")
            for statement in statements:
                for name in values:
                    statement = statement.replace(f":{name}", f"%({name})s")
                server.execute(statement, values)

    return change


def verdict_of(store: Store) -> ChainVerification:
    (verdict,) = verify_store(known_keys(default_key_file()), store.url).chains
    return verdict


def fault_of(store: Store) -> tuple[int, str]:
    fault = verdict_of(store).fault
    assert fault is not None
    assert fault.message
    return fault.seq, fault.kind


@pytest.mark.covers("A-45")
def test_a_clean_trail_is_fine(store: Store, scope: TenantScope) -> None:
    verdict = verdict_of(store)
    assert verdict.is_ok
    assert (verdict.records, verdict.checkpoints, verdict.unsigned) == (COUNT, 1, 10)


@sqlite_first
def test_an_empty_store_is_fine(store: Store) -> None:
    assert verdict_of(store).is_ok


DEEP = '{"seq":17,"a":' + "[" * 500 + "]" * 500 + "}"
CONTENT = "UPDATE audit_log SET data_json = replace(data_json, 'tool-17', 'tool-99') WHERE seq = 17"


@pytest.fixture
def restore(scope: TenantScope, tamper: Tamper) -> Callable[[], None]:
    """Puts everything back as it was."""
    tables = ("audit_log", "audit_checkpoints")
    tamper(*(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}" for table in tables))

    def back() -> None:
        for table in tables:
            tamper(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM kept_{table}")

    return back


@sqlite_first
@pytest.mark.covers("A-45")
@pytest.mark.each(
    ("statements", "fault"),
    [
        ([CONTENT], (17, "edited")),
        (["UPDATE audit_log SET hash = prev_hash WHERE seq = 17"], (17, "edited")),
        (["UPDATE audit_log SET data_json = '[' WHERE seq = 17"], (17, "edited")),
        ([f"UPDATE audit_log SET data_json = '{'[' * 60_000}{']' * 60_000}' WHERE seq = 17"], (17, "edited")),
        ([f"UPDATE audit_log SET data_json = '{DEEP}' WHERE seq = 17"], (17, "edited")),
        (["UPDATE audit_log SET outcome = 'deny' WHERE seq = 17"], (17, "edited")),
        (["UPDATE audit_log SET ts = '2020' WHERE seq = 1"], (1, "edited")),
        (["DELETE FROM audit_log WHERE seq = 17"], (17, "deleted")),
        (["DELETE FROM audit_log WHERE seq <= 3"], (1, "deleted")),
        (
            [
                "DELETE FROM audit_log WHERE seq = 17",
                "UPDATE audit_log SET seq = seq + 1000 WHERE seq > 17",
                "UPDATE audit_log SET seq = seq - 1001 WHERE seq > 1000",
            ],
            (17, "deleted"),
        ),
        (
            [
                "UPDATE audit_log SET seq = seq + 1000 WHERE seq >= 17",
                "UPDATE audit_log SET seq = seq - 999 WHERE seq > 1000",
                "INSERT INTO audit_log (tenant, seq, data_json, prev_hash, hash) "
                "SELECT tenant, 17, data_json, prev_hash, hash FROM audit_log WHERE seq = 3",
            ],
            (17, "inserted"),
        ),
        (
            [
                "INSERT INTO audit_log (tenant, seq, data_json, prev_hash, hash) "
                "SELECT tenant, 31, data_json, prev_hash, hash FROM audit_log WHERE seq = 3",
            ],
            (31, "inserted"),
        ),
        (
            [
                "UPDATE audit_log SET seq = 1000 WHERE seq = 17",
                "UPDATE audit_log SET seq = 17 WHERE seq = 23",
                "UPDATE audit_log SET seq = 23 WHERE seq = 1000",
            ],
            (17, "swapped"),
        ),
        (["DELETE FROM audit_log WHERE seq > 15"], (16, "truncated")),
        (["DELETE FROM audit_log"], (1, "gone")),
        (["UPDATE audit_checkpoints SET hash = 'x'"], (20, "forged")),
        (["UPDATE audit_checkpoints SET seq = 5"], (5, "forged")),
    ],
)
def test_tampering_is_noticed_and_the_first_bad_record_named(
    store: Store, restore: Callable[[], None], tamper: Tamper, statements: list[str], fault: tuple[int, str]
) -> None:
    restore()
    assert verdict_of(store).is_ok
    tamper(*statements)
    assert fault_of(store) == fault


@sqlite_first
@pytest.mark.covers("A-45")
def test_the_last_ten_records_cannot_go_unnoticed_once_a_checkpoint_stands_for_them(
    store: Store, scope: TenantScope, tamper: Tamper
) -> None:
    make_checkpoint(store, "", default_key_file())
    tamper("DELETE FROM audit_log WHERE seq > 20", "DELETE FROM audit_checkpoints")
    assert fault_of(store) == (21, "truncated")


def test_a_record_that_was_changed_together_with_its_hash_is_noticed(
    store: Store, scope: TenantScope, tamper: Tamper
) -> None:
    link = next(scope.audit.walk(start=25))
    text = canonical({**(link.record or {}), "tool": "tool-99"})
    tamper(
        "UPDATE audit_log SET data_json = :text, hash = :hash WHERE seq = 25",
        text=text,
        hash=chain_hash(link.previous, text),
    )
    assert fault_of(store) == (25, "edited")


def test_a_history_that_was_written_anew_is_noticed_by_what_was_signed(
    store: Store, scope: TenantScope, tamper: Tamper
) -> None:
    links = list(scope.audit.walk(start=15))
    previous = links[0].previous
    for link in links:
        text = canonical({**(link.record or {}), "reason": "another"})
        made = chain_hash(previous, text)
        tamper(
            f"UPDATE audit_log SET data_json = :text, prev_hash = :previous, hash = :hash WHERE seq = {link.seq}",
            text=text,
            previous=previous,
            hash=made,
        )
        previous = made
    assert fault_of(store) == (20, "rewritten")


@pytest.mark.covers("A-45")
@pytest.mark.parametrize("then", ["nothing", "a new one", "a longer one"])
def test_a_database_that_was_deleted_is_missed(tmp_path: Path, then: str) -> None:
    url = f"sqlite:///{tmp_path}/metier.db"
    with Store.open(url) as store:
        fill(store.of(), 20)
        make_checkpoint(store, "", default_key_file())
    for path in tmp_path.glob("metier.db*"):
        path.unlink()
    expected = {"nothing": (1, "gone"), "a new one": (4, "truncated"), "a longer one": (20, "rewritten")}
    if then != "nothing":
        with Store.open(url) as store:
            for number in range(3 if then == "a new one" else 25):
                store.of().audit.append(record(number, reason="another"))
    report = verify_store(known_keys(default_key_file()), url)
    assert [(one.fault.seq, one.fault.kind) for one in report.chains if one.fault] == [expected[then]]


def test_where_there_never_was_a_trail_nothing_is_missed(tmp_path: Path) -> None:
    assert verify_store({}, f"sqlite:///{tmp_path}/metier.db").chains == ()
    assert list(tmp_path.iterdir()) == []


def test_the_chain_of_every_tenant_is_verified(store: Store, scope: TenantScope, tamper: Tamper) -> None:
    for tenant in ("acme", "other"):
        fill(store.of(tenant), 3)
    tamper("UPDATE audit_log SET outcome = 'deny' WHERE tenant = 'other' AND seq = 2")
    verdicts = verify_store(known_keys(default_key_file()), store.url).chains
    assert {one.tenant: one.fault.seq if one.fault else None for one in verdicts} == {
        "": None,
        "acme": None,
        "other": 2,
    }


def test_a_record_of_another_tenant_is_no_record_of_this_one(store: Store, scope: TenantScope, tamper: Tamper) -> None:
    fill(store.of("acme"), 5)
    tamper("DELETE FROM audit_log WHERE tenant = 'acme'", "UPDATE audit_log SET tenant = 'acme' WHERE seq <= 5")
    verdicts = {one.tenant: one.fault for one in verify_store(known_keys(default_key_file()), store.url).chains}
    assert verdicts["acme"] is not None
    assert (verdicts["acme"].seq, verdicts["acme"].kind) == (1, "inserted")


def test_a_checkpoint_of_somebody_elses_key_counts_for_nothing(
    store: Store, scope: TenantScope, tmp_path: Path
) -> None:
    make_checkpoint(store, "", tmp_path / "theirs")
    assert fault_of(store) == (COUNT, "unknown-key")
    assert verdict_of(store).unknown_keys == (SigningKey.of(tmp_path / "theirs").id,)
    assert verify_store(known_keys(default_key_file(), *tmp_path.glob("*.pub")), store.url).chains[0].checkpoints == 2


@sqlite_first
def test_checkpoints_of_a_stranger_cannot_break_it(store: Store, scope: TenantScope) -> None:
    file = CheckpointFile(store.folder)
    for seq, text in [(10**400, "x"), (3, "\ud800"), (-1, "\x1b[2J")]:
        file.append(Checkpoint(tenant=text, seq=seq, hash=text, signed_at=text, key_id=text, signature=text))
    report = verify_store(known_keys(default_key_file()), store.url)
    faults = {one.tenant: one.fault.kind if one.fault else None for one in report.chains}
    assert faults == {"": None, "\x1b[2J": "unknown-key"}
    assert report.damaged == (2, 3)
    assert not report.is_ok


@sqlite_first
def test_a_key_that_was_replaced_still_proves_what_it_signed(store: Store, scope: TenantScope) -> None:
    default_key_file().unlink()
    make_checkpoint(store, "", default_key_file())
    verdict = verdict_of(store)
    assert verdict.is_ok
    assert verdict.checkpoints == 2


@sqlite_first
def test_a_line_of_the_checkpoints_that_a_crash_cut_short_spoils_no_other(store: Store, scope: TenantScope) -> None:
    file = CheckpointFile(store.folder)
    with open(file.path, "ab") as opened:
        opened.write(b'{"tenant":"","seq":3')
    assert verify_store(known_keys(default_key_file()), store.url).is_ok
    make_checkpoint(store, "", default_key_file())
    report = verify_store(known_keys(default_key_file()), store.url)
    assert report.is_ok
    assert report.chains[0].signed == COUNT


# --- where checkpoints are kept ---------------------------------------------------------------------------------------


@pytest.fixture
def marks(scope: TenantScope) -> list[Path]:
    """The marks beside the key."""
    return list(default_key_file().parent.glob("*.last"))


def cut_back(store: Store, tamper: Tamper, after: int) -> None:
    """Take away what came later, from the database and from the file."""
    tamper(f"DELETE FROM audit_log WHERE seq > {after}", f"DELETE FROM audit_checkpoints WHERE seq > {after}")
    file = CheckpointFile(store.folder)
    lines = file.path.read_text().splitlines()
    file.path.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["seq"] <= after))


@pytest.mark.covers("A-45")
def test_a_trail_that_was_cut_back_in_all_places_of_the_store_is_missed(
    store: Store, scope: TenantScope, tamper: Tamper
) -> None:
    make_checkpoint(store, "", default_key_file())
    cut_back(store, tamper, 20)
    assert fault_of(store) == (21, "truncated")
    with pytest.raises(AuditUnavailable, match="not the one of which record 30 was signed"):
        make_checkpoint(store, "", default_key_file())
    for number in range(15):
        scope.audit.append(record(number, reason="another"))
    with pytest.raises(AuditUnavailable):  # nor once it is as long again
        make_checkpoint(store, "", default_key_file())
    assert not verdict_of(store).is_ok


@pytest.mark.covers("A-45")
def test_a_store_that_is_gone_with_all_that_lay_beside_it_is_missed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/data/metier.db"
    with Store.open(url) as store:
        fill(store.of(), 20)
        make_checkpoint(store, "", default_key_file())
    shutil.rmtree(tmp_path / "data")
    (verdict,) = verify_store(known_keys(default_key_file()), url).chains
    assert verdict.fault is not None
    assert verdict.fault.kind == "gone"


@sqlite_first
def test_a_mark_that_somebody_else_has_written_is_noticed(store: Store, marks: list[Path]) -> None:
    (mark,) = marks
    mark.write_text(mark.read_text().replace('"seq":20', '"seq":10'))
    assert fault_of(store) == (10, "forged")
    mark.write_text("{}")
    report = verify_store(known_keys(default_key_file()), store.url)
    assert not report.is_ok
    assert report.damaged_marks == (str(mark),)
    with pytest.raises(AuditUnavailable, match="cannot be used"):
        make_checkpoint(store, "", default_key_file())


@sqlite_first
@pytest.mark.covers("A-45")
def test_checkpoints_that_are_missing_in_one_place_are_missed(store: Store, scope: TenantScope, tamper: Tamper) -> None:
    file = CheckpointFile(store.folder)
    kept = file.path.read_bytes()
    file.path.unlink()
    assert fault_of(store) == (20, "checkpoint-missing")
    file.path.write_bytes(kept)
    make_checkpoint(store, "", default_key_file())
    tamper("DELETE FROM audit_checkpoints")
    assert fault_of(store) == (20, "checkpoint-missing")


@sqlite_first
def test_a_file_of_checkpoints_that_was_overwritten_is_no_proof(store: Store, scope: TenantScope) -> None:
    CheckpointFile(store.folder).path.write_text("x\n" * 3)
    report = verify_store(known_keys(default_key_file()), store.url)
    assert not report.is_ok
    assert report.damaged == (1, 2, 3)


@sqlite_first
@pytest.mark.parametrize("step", ["append", "keep_checkpoint"])
def test_who_dies_while_signing_leaves_nothing_wrong(
    store: Store, scope: TenantScope, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CheckpointFile if step == "append" else AuditTable, step, die)
        make_checkpoint(store, "", default_key_file())
    assert verdict_of(store).is_ok
    fill(scope, 5)
    make_checkpoint(store, "", default_key_file())
    verdict = verdict_of(store)
    assert verdict.is_ok
    assert [one.seq for one in checkpoints_of(scope)] == [20, COUNT, COUNT + 5]


@sqlite_first
def test_two_stores_that_one_key_signs_have_marks_of_their_own(
    store: Store, scope: TenantScope, tmp_path: Path
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/other/metier.db") as other:
        fill(other.of(), 3)
        make_checkpoint(other, "", default_key_file())
        assert verdict_of(other).is_ok
    assert verdict_of(store).is_ok


@pytest.mark.each(
    "value",
    [
        None,
        [],
        {},
        {"tenant": "", "seq": "1", "hash": "", "signed_at": "", "key_id": "", "signature": ""},
        {"tenant": "", "seq": True, "hash": "", "signed_at": "", "key_id": "", "signature": ""},
        {"tenant": "", "seq": 1, "hash": "", "signed_at": "", "key_id": "", "signature": "", "more": 1},
        {"tenant": "x" * 201, "seq": 1, "hash": "", "signed_at": "", "key_id": "", "signature": ""},
    ],
)
def test_what_is_no_checkpoint_is_none(value: Any) -> None:
    assert Checkpoint.of(value) is None


# --- exports ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def export(scope: TenantScope, tmp_path: Path) -> Path:
    path = tmp_path / "export.jsonl"
    lines = export_lines(scope.audit.walk(), checkpoints_of(scope), "jsonl")
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def verdict_of_export(path: Path) -> ChainVerification:
    return verify_export(path, known_keys(default_key_file()))


@sqlite_first
@pytest.mark.covers("A-48")
def test_an_export_is_verified_from_the_file_alone(export: Path, scope: TenantScope) -> None:
    verdict = verdict_of_export(export)
    assert verdict.is_ok
    assert (verdict.records, verdict.checkpoints, verdict.unsigned) == (COUNT, 1, 10)


@sqlite_first
def test_an_export_of_strange_content_is_verified_too(store: Store, tmp_path: Path) -> None:
    trail = store.of("acmé").audit
    values: list[Any] = ["\0\ud800\u2028", 2.0**60, 1e300, 5e-324, -0.0, float("nan"), "x" * 400_000, {"\ud800": [{}]}]
    for value in values:
        trail.append(record(1, reason=value))
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(export_lines(trail.walk(), [], "jsonl")))
    assert verdict_of_export(path) == ChainVerification(tenant="acmé", records=8, checkpoints=0, signed=0, fault=None)


@sqlite_first
@pytest.mark.each(
    ("change", "fault"),
    [
        (lambda lines: [*lines[:16], lines[16].replace("tool-17", "tool-99"), *lines[17:]], (17, "edited")),
        (lambda lines: [*lines[:16], "{", *lines[17:]], (17, "edited")),
        (lambda lines: [*lines[:16], lines[16].replace('"seq":17', '"seq":17,"seq":17'), *lines[17:]], (17, "edited")),
        (lambda lines: [*lines[:16], "[" * 100_000, *lines[17:]], (17, "edited")),
        (lambda lines: [*lines[:16], *lines[17:]], (17, "deleted")),
        (lambda lines: lines[5:], (1, "deleted")),
        (lambda lines: [*lines[:16], lines[3], *lines[16:]], (17, "inserted")),
        (lambda lines: [*lines[:16], lines[22], *lines[17:22], lines[16], *lines[23:]], (17, "swapped")),
        (lambda lines: [line.replace('"seq":20,"hash"', '"seq":99,"hash"') for line in lines], (99, "forged")),
    ],
)
def test_tampering_with_an_export_is_noticed(
    export: Path, change: Callable[[list[str]], list[str]], fault: tuple[int, str]
) -> None:
    changed = export.with_name("changed.jsonl")
    changed.write_text("\n".join(change(export.read_text().splitlines())))
    found = verdict_of_export(changed).fault
    assert isinstance(found, ChainFault)
    assert (found.seq, found.kind) == fault


@sqlite_first
def test_an_export_that_another_program_has_written_anew_is_the_same(export: Path) -> None:
    lines = [
        json.dumps(json.loads(line), ensure_ascii=False, sort_keys=True) for line in export.read_text().splitlines()
    ]
    export.write_text("\r\n".join(lines))
    assert verdict_of_export(export).is_ok
