"""Connections and transactions, on both databases."""

from __future__ import annotations

import os
import threading

import pytest

from metier.errors import InvalidArgument, StoreUnavailable
from metier.store import Store, TenantScope


def names(scope: TenantScope) -> list[str]:
    return [block.value for block in scope.blocks.all()]


def block(scope: TenantScope, name: str) -> None:
    scope.blocks.add("name", name, reason="", by="")


def test_what_is_done_in_a_transaction_happens_together(scope: TenantScope, store: Store) -> None:
    with scope.transaction():
        block(scope, "a")
        block(scope, "b")
        with ThreadOf(lambda: names(store.of("acme"))) as other:
            assert other.result == []
    assert sorted(names(scope)) == ["a", "b"]


def test_a_transaction_that_fails_leaves_nothing_behind(scope: TenantScope) -> None:
    with pytest.raises(ZeroDivisionError), scope.transaction():
        block(scope, "a")
        raise ZeroDivisionError
    assert names(scope) == []


def test_an_inner_transaction_takes_back_only_its_own_part(scope: TenantScope) -> None:
    with scope.transaction():
        block(scope, "a")
        with pytest.raises(ZeroDivisionError), scope.transaction():
            block(scope, "b")
            with scope.transaction():
                block(scope, "c")
            raise ZeroDivisionError
        block(scope, "d")
    assert sorted(names(scope)) == ["a", "d"]


def test_records_belong_to_the_transaction_around_them(scope: TenantScope) -> None:
    with pytest.raises(ZeroDivisionError), scope.transaction():
        scope.audit.append({"type": "approval.granted"})
        raise ZeroDivisionError
    assert scope.audit.last() is None


def test_whoever_passes_over_a_failure_inside_is_told_when_the_rest_was_lost_with_it(
    scope: TenantScope, store: Store
) -> None:
    try:
        with scope.transaction():
            block(scope, "a")
            with pytest.raises(StoreUnavailable):
                store.pool.change("UPDATE no_such_table SET x = 1")
    except StoreUnavailable:
        assert names(scope) == []
    else:
        assert names(scope) == ["a"]


def test_nothing_is_changed_outside_of_a_transaction(store: Store) -> None:
    with pytest.raises(InvalidArgument):
        store.pool.change("DELETE FROM blocks")
    with pytest.raises(InvalidArgument), store.pool.snapshot(), store.pool.transaction():
        pass


def test_a_snapshot_is_of_one_moment(scope: TenantScope, store: Store) -> None:
    block(scope, "a")
    with store.pool.snapshot():
        assert names(scope) == ["a"]
        with ThreadOf(lambda: block(store.of("acme"), "b")):
            pass
        assert names(scope) == ["a"]
    assert sorted(names(scope)) == ["a", "b"]


def test_threads_write_one_after_the_other(scope: TenantScope, store: Store) -> None:
    def count() -> None:
        mine = store.of("acme")
        for _ in range(10):
            mine.versions.add("skill", "/place", "sha256:x", by="", reason="")

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [version.number for version in scope.versions.of("/place")] == list(range(1, 61))


def test_connections_are_kept_few_and_closed_at_the_end(store: Store) -> None:
    ready = threading.Barrier(8)

    def hold() -> None:
        with store.pool.snapshot():
            store.of("acme").blocks.all()
            ready.wait(60)

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(store.pool._pool.idle) <= 4
    idle = list(store.pool._pool.idle)
    store.close()
    assert store.pool._pool.idle == []
    for connection in idle:
        with pytest.raises(store.pool.backend.failures):
            connection.execute("SELECT 1")


def test_a_store_that_was_closed_opens_again_by_itself(scope: TenantScope, store: Store) -> None:
    block(scope, "a")
    store.close()
    assert names(scope) == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_both_sides_of_a_fork_go_on_with_connections_of_their_own(scope: TenantScope) -> None:
    block(scope, "before")
    child = os.fork()
    if not child:
        code = 1
        try:
            block(scope, "child")
            code = 0
        finally:
            os._exit(code)
    block(scope, "parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sorted(names(scope)) == ["before", "child", "parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_cannot_end_the_transaction_of_its_parent(scope: TenantScope) -> None:
    child = -1
    try:
        with scope.transaction():
            block(scope, "parent")
            child = os.fork()
    except InvalidArgument:
        os._exit(7)
    if not child:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert names(scope) == ["parent"]


class ThreadOf:
    """Another thread, which has another connection, and what it found."""

    def __init__(self, work: object) -> None:
        self.result: object = None
        self._thread = threading.Thread(target=self._run, args=(work,))

    def _run(self, work: object) -> None:
        assert callable(work)
        self.result = work()

    def __enter__(self) -> ThreadOf:
        self._thread.start()
        self._thread.join(60)
        return self

    def __exit__(self, *_: object) -> None:
        pass
