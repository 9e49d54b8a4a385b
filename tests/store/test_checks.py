"""Whether a store is as it should be."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.test_tenants import DIGEST, Played

from metier.store import Store
from metier.store.checks import check_store
from metier.store.revisions import REVISION_FILES


def parts(store: Store, severity: str = "error") -> list[str]:
    return [problem.part for problem in check_store(store) if problem.severity == severity]


def test_nothing_is_wrong_with_a_store_that_nobody_else_touched(store: Store) -> None:
    assert check_store(store) == []
    Played(store.of("acme"))
    assert check_store(store) == []


@pytest.mark.each(
    "statement",
    [
        "DROP INDEX approvals_digest",
        "ALTER TABLE blocks ADD COLUMN colour TEXT",
        "DROP TABLE policies",
    ],
)
def test_tables_that_somebody_changed_are_told(store: Store, statement: str) -> None:
    with pytest.raises(ZeroDivisionError), store.pool.transaction():
        store.pool.change(statement)
        assert "tables" in [problem.part for problem in check_store(store)]
        raise ZeroDivisionError
    assert check_store(store) == []


@pytest.mark.covers("A-46")
def test_that_the_protection_of_the_audit_log_is_gone_is_told(store: Store) -> None:
    statement = {
        "sqlite": "DROP TRIGGER audit_log_no_update",
        "postgresql": "ALTER TABLE audit_log DISABLE TRIGGER audit_log_no_change",
    }
    with store.pool.transaction():
        store.pool.change(statement[store.kind])
    assert parts(store) == ["tables"]
    (problem,) = check_store(store)
    assert "audit_log_no_" in problem.message


def test_a_content_that_is_gone_or_damaged_is_told(store: Store) -> None:
    Played(store.of("acme"))
    if store.kind == "sqlite":
        (path,) = [path for path in (store.folder / "blobs").rglob("*") if path.is_file()]
        path.write_bytes(b"other")
        assert parts(store) == ["contents"]
        path.unlink()
        assert parts(store) == ["contents"]
    else:
        for change in ("UPDATE blobs SET data = 'other'", "DELETE FROM blobs"):
            with store.pool.transaction():
                store.pool.change(change)
            assert parts(store) == ["contents"]


@pytest.mark.each("values", [{"path": "other"}, {"mode": "exec"}, {"sha256": "x"}, {"sha256": "0" * 64}])
def test_rows_that_no_longer_make_the_digest_are_told(store: Store, values: dict[str, str | int]) -> None:
    scope = store.of("acme")
    Played(scope)
    scope._rows.update(REVISION_FILES, values, digest=DIGEST)
    assert "contents" in parts(store)
    played_once = ("approval_requests", "tokens", "people", "nodes", "deliveries", "webhooks")
    for table in ("revision_files", "revisions", *played_once):
        with store.pool.transaction():
            store.pool.change(f"DELETE FROM {table}")


def test_contents_that_belong_to_nothing_are_told_and_do_no_harm(store: Store) -> None:
    store.blobs.put([b"interrupted"])
    assert parts(store) == []
    assert parts(store, "warning") == ["contents"]


def test_damage_in_the_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "metier.db"
    with Store.open(f"sqlite:///{path}") as store:
        scope = store.of()
        for number in range(200):
            scope.audit.append({"type": "skill.activated", "note": "x" * 500, "number": number})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(path, "r+b") as file:
        file.seek(60 * 4_096)
        file.write(b"\xff" * 4_096 * 4)
    with Store.open(f"sqlite:///{path}") as store:
        assert "database" in parts(store)


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of a Unix")
def test_a_file_that_others_may_read_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with Store.open(f"sqlite:///{folder}/metier.db") as store:
        (problem,) = check_store(store)
    assert (problem.severity, problem.part) == ("warning", "folder")
    assert problem.hint == f"chmod go= {folder}"
