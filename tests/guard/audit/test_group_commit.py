"""Writers to one audit log that wait at the same time share a commit: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres import sqlite_first, store_url

from metier.errors import AuditUnavailable, StoreUnavailable
from metier.guard import AuditRecord
from metier.guard.audit.store_log import GroupCommit, StoreLog, _Waiting
from metier.guard.audit.verification import verify
from metier.store import Store, TenantScope

__all__ = ["store_url"]

THREADS = 8


@pytest.fixture
def scope(store_url: str) -> Iterator[TenantScope]:
    with Store.open(store_url) as store:
        yield store.of("acme")


def content(reason: str) -> dict[str, Any]:
    return {"type": "tool.called", "reason": reason}


def record(reason: str) -> AuditRecord:
    return AuditRecord(timestamp="2026-01-01T10:00:00.000+00:00", event="load", decision="allow", reason=reason)


def reasons(scope: TenantScope) -> list[str]:
    assert verify(scope.tenant, scope.audit.walk(), (), {}).fault is None
    return [one["reason"] for one in scope.audit.tail(10_000)]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.002)


def in_threads(*works: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


class Writers:
    """Threads that each write one record to a group, and what became of them."""

    def __init__(self, scope: TenantScope, count: int = THREADS) -> None:
        self.group, self.table = GroupCommit(), scope.audit
        self.acknowledged: dict[str, int] = {}
        self.refused: dict[str, Exception] = {}
        # While somebody else holds the store, all of them come to wait.
        with scope.transaction():
            self.threads = in_threads(*(lambda name=f"t{number}": self.write(name) for number in range(count)))
            wait_until(lambda: len(self.group) == count)

    def write(self, name: str, wait: float | None = None) -> None:
        try:
            self.acknowledged[name] = self.group.write(self.table, [content(name)], wait).seq
        except StoreUnavailable as error:
            self.refused[name] = error

    def end(self) -> None:
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def commits(scope: TenantScope, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One item for each transaction that is committed by `COMMIT`, which may be told to fail."""
    backend, made = scope.store.pool.backend, list[str]()
    commit = backend.commit

    def counted(connection: Any) -> None:
        if "fail" in made:
            raise backend.failures[0]("database or disk is full")
        commit(connection)
        made.append("committed")

    monkeypatch.setattr(backend, "commit", counted)
    return made


def test_threads_that_wait_at_once_share_one_commit(scope: TenantScope, commits: list[str]) -> None:
    writers = Writers(scope)
    writers.end()
    kept = reasons(scope)
    assert sorted(kept) == sorted(writers.acknowledged) == [f"t{number}" for number in range(THREADS)]
    assert {name: kept.index(name) + 1 for name in kept} == writers.acknowledged
    # The holder's own, the first writer's, and one for all others.
    assert len(commits) <= 3


def test_more_writers_than_one_transaction_takes_are_all_written(
    scope: TenantScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.audit.store_log._MAX_GROUP", 2)
    writers = Writers(scope)
    writers.end()
    assert sorted(reasons(scope)) == sorted(writers.acknowledged)
    assert len(writers.acknowledged) == THREADS


def test_a_full_disk_is_told_to_everybody_whose_record_is_not_there(scope: TenantScope, commits: list[str]) -> None:
    scope.audit.append(content("before"))
    writers = Writers(scope)
    commits.append("fail")
    writers.end()
    assert writers.refused
    assert "disk is full" in str(next(iter(writers.refused.values())))
    assert set(reasons(scope)) == {"before", *writers.acknowledged}
    commits.remove("fail")
    for name in writers.refused:
        writers.write(name)
    assert sorted(reasons(scope)) == sorted(["before", *writers.acknowledged])
    assert len(writers.acknowledged) == THREADS


def test_one_that_does_not_wait_as_long_as_the_others_is_refused_alone(scope: TenantScope) -> None:
    group, table, ended = GroupCommit(), scope.audit, dict[str, str]()

    def write(name: str, wait: float | None) -> None:
        try:
            group.write(table, [content(name)], wait)
            ended[name] = "written"
        except StoreUnavailable as error:
            ended[name] = "busy" if error.context.get("is_busy") else str(error)

    with scope.transaction():
        patient = in_threads(*(lambda name=name: write(name, None) for name in ("a", "b", "c")))
        wait_until(lambda: len(group) == 3)
        [hasty] = in_threads(lambda: write("hasty", 0.01))
        hasty.join(60)
        assert ended == {"hasty": "busy"}
    for thread in patient:
        thread.join(60)
    assert ended == {"hasty": "busy", "a": "written", "b": "written", "c": "written"}
    assert sorted(reasons(scope)) == ["a", "b", "c"]


def test_an_interrupted_writer_takes_nobody_with_it(scope: TenantScope, monkeypatch: pytest.MonkeyPatch) -> None:
    writers, pool = Writers(scope, 1), scope.store.pool
    writers.end()

    def interrupt(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "insert_alone", interrupt)
        patch.setattr(pool, "change", interrupt)
        with pytest.raises(KeyboardInterrupt):
            writers.group.write(scope.audit, [content("lost")], None)
    writers.write("after")
    assert (len(writers.group), reasons(scope)) == (0, ["t0", "after"])


def test_an_interrupt_after_the_commit_leaves_nobody_else_in_doubt(
    scope: TenantScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers, backend = Writers(scope, 0), scope.store.pool.backend
    commit, main = backend.commit, threading.main_thread()

    def interrupted(connection: Any) -> None:
        commit(connection)
        if threading.current_thread() is main:
            raise KeyboardInterrupt

    group, own = writers.group, _Waiting([content("main")])
    with group._turn, monkeypatch.context() as patch:
        # It is the turn of the main thread while all others wait.
        writers.threads = in_threads(*(lambda name=f"t{number}": writers.write(name) for number in range(3)))
        wait_until(lambda: len(group) == 3)
        group._waiting.append(own)
        patch.setattr(backend, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            group._write_waiting(writers.table, own, None)
    writers.end()
    assert not writers.refused
    assert sorted(reasons(scope)) == ["main", "t0", "t1", "t2"]


def test_the_records_of_each_caller_stay_in_the_order_of_their_acknowledgements(scope: TenantScope) -> None:
    group, table = GroupCommit(), scope.audit
    positions: dict[int, list[int]] = {number: [] for number in range(THREADS)}

    def write(caller: int) -> None:
        for step in range(15):
            positions[caller].append(group.write(table, [content(f"{caller}-{step}")], None).seq)

    for thread in in_threads(*(lambda caller=caller: write(caller) for caller in positions)):
        thread.join(60)
    kept = reasons(scope)
    for caller, own in positions.items():
        assert own == sorted(own)
        assert [kept[seq - 1] for seq in own] == [f"{caller}-{step}" for step in range(15)]


def test_another_process_that_writes_in_between_does_not_fork_the_chain(store_url: str, scope: TenantScope) -> None:
    with Store.open(store_url) as other:
        for number in range(6):
            (scope, other.of("acme"))[number % 2].audit.append(content(str(number)))
    assert reasons(scope) == [str(number) for number in range(6)]


def test_what_is_hashed_and_stored_is_what_it_was_before(scope: TenantScope) -> None:
    call = AuditRecord(
        timestamp="2026-01-01T10:00:00.000+00:00",
        event="call",
        decision="allow",
        reason="Read allows it.",
        rule="pdf: allowed-tools Read",
        policy="sha256:" + "b" * 64,
        active=("pdf", "straße"),
        skills=("pdf@acme#0123", "straße@acme#4567"),
        tool="Read",
        arguments='{"path": "a b.md", "token": "ghp_abcdefghijklmnopqrstuvwxyz"}',
        by="model",
        trigger="model",
        user="ada",
        session="s-1",
        success=True,
        exit_code=0,
        duration_ms=1.25,
    )
    load = AuditRecord(
        timestamp="2026-01-01T10:00:01.000+00:00",
        event="load",
        decision="deny",
        reason="It is blocked.",
        skill="pdf",
        source="acme",
        success=False,
    )
    group = GroupCommit()
    hashes = [group.write(scope.audit, [one.as_dict()], None).hash for one in (call, load, call)]
    assert hashes == [
        "4e237d123a732fd6b38f3d53b67758f715aada848a4a8716fb9576f661292879",
        "1d51d91d25341085a9c885e1b5216f0e5cc7cce9bf219b1417434c3e0d0501b1",
        "3bbdc9f4c39482f38fb1fbe6f54ff02001c58d912ae6ef2985814b0a00f4e6d1",
    ]
    assert load.as_line() == (
        b'{"timestamp":"2026-01-01T10:00:01.000+00:00","event":"load","decision":"deny","reason":"It is blocked.",'
        b'"type":"skill.denied","skill":"pdf","source":"acme","success":false,"duration_ms":0.0}\n'
    )


@pytest.mark.parametrize("is_undone", [False, True])
def test_a_record_inside_of_a_transaction_is_part_of_it_alone(scope: TenantScope, is_undone: bool) -> None:
    writers = Writers(scope, 0)
    group, table = writers.group, writers.table
    with contextlib.suppress(ZeroDivisionError), scope.transaction():
        # One has its turn and waits for the store, another one for its turn.
        writers.threads = in_threads(lambda: writers.write("a"), lambda: writers.write("b"))
        wait_until(lambda: len(group) == 2)
        began = time.monotonic()
        group.write(table, [content("inside")], None)
        assert time.monotonic() - began < 10
        assert not writers.acknowledged
        if is_undone:
            raise ZeroDivisionError
    writers.end()
    assert not writers.refused
    assert sorted(reasons(scope)) == ["a", "b", *([] if is_undone else ["inside"])]


# --- through the log of a guard ---------------------------------------------------------------------------------------


def test_tasks_that_wait_at_once_lose_nothing_when_one_is_cancelled(log: StoreLog, other: sqlite3.Connection) -> None:
    async def write(number: int) -> None:
        log.append(record(f"{number} begins"))
        await asyncio.sleep(0 if number != 3 else 60)
        log.append(record(f"{number} ends"))

    async def work() -> None:
        tasks = [asyncio.ensure_future(write(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert log.is_behind
        other.execute("ROLLBACK")

    asyncio.run(work())
    log.catch_up()
    begins, ends = ([f"{number} {word}" for number in range(5)] for word in ("begins", "ends"))
    del ends[3]
    assert reasons(log.store.of()) == ["first", *begins, *ends]


def test_a_log_that_is_closed_while_threads_wait_keeps_all_of_theirs(log: StoreLog, other: sqlite3.Connection) -> None:
    ready = [threading.Event() for _ in range(THREADS)]
    refused: list[Exception] = []

    def write(number: int) -> None:
        ready[number].set()
        try:
            log.append(record(str(number)))
        except AuditUnavailable as error:
            refused.append(error)

    threads = in_threads(*(lambda number=number: write(number) for number in range(THREADS)))
    for event in ready:
        event.wait(60)
    log.close()
    log.store.close()
    other.execute("ROLLBACK")
    for thread in threads:
        thread.join(60)
    assert not refused
    assert sorted(reasons(log.store.of())) == sorted(["first", *map(str, range(THREADS))])


FORKING = """
import os, subprocess, sys, threading, warnings
from metier.guard import AuditRecord
from metier.guard.audit.store_log import StoreLog
warnings.simplefilter("ignore")
log = StoreLog(f"sqlite:///{sys.argv[1]}")
def write(reason):
    log.append(AuditRecord(timestamp="2026", event="load", decision="allow", reason=reason))
write("first")
# Another process: the locks that SQLite knows of in this one would be taken over by the child.
holding = (
    "import sqlite3, sys; other = sqlite3.connect(sys.argv[1]); other.execute('BEGIN IMMEDIATE'); "
    "print(flush=True); input()"
)
other = subprocess.Popen([sys.executable, "-c", holding, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
threads = [threading.Thread(target=write, args=(f"parent {number}",)) for number in range(4)]
for thread in threads:
    thread.start()
while sum(map(len, log._groups.values())) < 4:
    pass
child = os.fork()
if not child:
    write("child")
    os._exit(0)
other.communicate(b"\\n")
for thread in threads:
    thread.join()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_threads_wait_leaves_each_record_to_its_own_process(tmp_path: Path) -> None:
    path = tmp_path / "metier.db"
    subprocess.run([sys.executable, "-c", FORKING, str(path)], check=True, timeout=60)
    with Store.open(f"sqlite:///{path}") as store:
        kept = reasons(store.of())
    assert sorted(kept) == ["child", "first", *(f"parent {number}" for number in range(4))]


WRITING = """
import itertools, os, sys, threading
from metier.guard import AuditRecord
from metier.guard.audit.store_log import StoreLog
log = StoreLog(sys.argv[1])
def write(name):
    for number in itertools.count():
        reason = f"{sys.argv[2]} {name} {number}"
        log.append(AuditRecord(timestamp="2026", event="load", decision="allow", reason=reason))
        os.write(1, f"{reason}\\n".encode())
for name in range(8):
    threading.Thread(target=write, args=(name,)).start()
"""


@sqlite_first
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
@pytest.mark.parametrize("runs", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_killed_process_loses_nothing_that_it_acknowledged(store_url: str, runs: int) -> None:
    acknowledged: list[str] = []
    for run in range(runs):
        process = subprocess.Popen([sys.executable, "-c", WRITING, store_url, str(run)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().decode().strip() for _ in range(40)]
        process.kill()
        acknowledged += [line.decode().strip() for line in process.stdout if line.endswith(b"\n")]
        process.stdout.close()
        process.wait(60)
    with Store.open(store_url) as store:
        kept = reasons(store.of())
    assert len(set(kept)) == len(kept)
    assert set(acknowledged) <= set(kept)
    assert len(kept) - len(acknowledged) <= runs * THREADS
