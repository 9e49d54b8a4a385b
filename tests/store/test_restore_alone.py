"""What others decide while a backup is brought back: it was not acknowledged, or it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from metier.errors import InvalidArgument, StoreUnavailable
from metier.guard.backups import back_up, restore
from metier.store import Store
from metier.store.connection_pool import ConnectionPool

SHORT = 0.001
"""Seconds that a decision waits here; nobody is in its way who would be gone then."""
STRICT = "%20-cdefault_transaction_isolation%3Dserializable"
"""A database whose transactions see what was there when they began, unless they say otherwise."""


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    with Store.open(f"sqlite:///{tmp_path}/old.db") as store:
        store.of().blocks.add("name", "early", reason="", by="")
        back_up(store, tmp_path / "backup.zip")
    return tmp_path / "backup.zip"


@contextmanager
def before_each_statement(other: Store, decide: Callable[[], object]) -> Iterator[None]:
    """Somebody decides something before each statement that is not their own."""
    with pytest.MonkeyPatch.context() as patch:

        def watch(name: str) -> None:
            original = getattr(ConnectionPool, name)

            def watched(pool: ConnectionPool, *given: Any, **named: Any) -> Any:
                if pool is not other.pool:
                    decide()
                return original(pool, *given, **named)

            patch.setattr(ConnectionPool, name, watched)

        for name in ("execute", "change", "change_all"):
            watch(name)
        yield


@pytest.mark.parametrize(
    ("store_url", "more"), [("sqlite", ""), ("postgresql", ""), ("postgresql", STRICT)], indirect=["store_url"]
)
def test_whatever_was_acknowledged_while_a_backup_came_back_is_kept(backup: Path, store_url: str, more: str) -> None:
    with Store.open(store_url) as other:
        acknowledged, refused = set[str](), 0

        def quarantine() -> None:
            nonlocal refused
            name = f"late-{len(acknowledged)}"
            try:
                with other.pool.transaction(wait=SHORT):
                    other.of().blocks.add("name", name, reason="", by="eve")
                acknowledged.add(name)
            except StoreUnavailable:
                refused += 1

        with before_each_statement(other, quarantine):
            restored = restore(store_url + more, backup, force=True)
        assert acknowledged
        assert refused
        assert {block.value for block in other.of().blocks.all()} == {"early", *acknowledged}
        assert acknowledged <= {block.value for block in restored.kept_blocks}


def test_a_store_that_is_used_at_the_last_moment_is_in_use(
    backup: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(store_url) as other:
        begin = ConnectionPool.transaction

        def at_last(pool: ConnectionPool, *given: Any) -> AbstractContextManager[None]:
            if pool is not other.pool:
                other.of().blocks.add("name", "late", reason="", by="eve")
            return begin(pool, *given)

        monkeypatch.setattr(ConnectionPool, "transaction", at_last)
        with pytest.raises(InvalidArgument, match="is in use"):
            restore(store_url, backup)
        assert [block.value for block in other.of().blocks.all()] == ["late"]
