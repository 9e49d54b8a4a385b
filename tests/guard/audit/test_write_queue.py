"""A store that another process writes to for long: nobody's event loop stands still, and no record is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from metier import FunctionTool, Library
from metier.guard import Action, AuditRecord, Guard, Subject
from metier.guard.audit.store_log import StoreLog
from metier.guard.audited_action import AuditedAction

LOAD = Action(point="load", skill=Subject(name="greet", layer="personal"))
LONG = 10.0
"""Less than anybody waits for the store, and more than a decision may take."""


def record(reason: str) -> AuditRecord:
    return AuditRecord(timestamp="2026-01-01T10:00:00.000+00:00", event="load", decision="allow", reason=reason)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long for the store."""
    for module in ("connection_pool", "sqlite"):
        monkeypatch.setattr(f"metier.store.{module}.WAIT_SECONDS", 0.05)


def reasons(log: StoreLog) -> list[str]:
    return [one.get("reason", "") for one in log.store.of().audit.tail(1_000)]


def test_a_record_does_not_hold_the_event_loop_while_others_write(log: StoreLog, other: sqlite3.Connection) -> None:
    async def work() -> float:
        began = time.monotonic()
        for number in range(20):
            log.append(record(str(number)))
        return time.monotonic() - began

    assert asyncio.run(work()) < LONG
    behind = [log.is_behind]
    other.execute("ROLLBACK")
    log.catch_up()
    assert [*behind, log.is_behind] == [True, False]
    assert reasons(log) == ["first", *map(str, range(20))]


def test_what_waits_is_written_without_anybody_asking(log: StoreLog, other: sqlite3.Connection) -> None:
    async def work() -> None:
        log.append(record("late"))
        other.execute("ROLLBACK")

    asyncio.run(work())
    log.flush()
    assert reasons(log) == ["first", "late"]


def test_a_record_of_another_thread_comes_behind_those_that_wait(log: StoreLog, other: sqlite3.Connection) -> None:
    async def work() -> None:
        log.append(record("one"))
        thread = threading.Thread(target=log.append, args=(record("two"),))
        thread.start()
        log.append(record("three"))
        other.execute("ROLLBACK")
        await asyncio.to_thread(thread.join)

    asyncio.run(work())
    log.catch_up()
    found = reasons(log)
    assert sorted(found) == sorted(["first", "one", "two", "three"])
    assert found.index("one") < found.index("two")
    assert found.index("one") < found.index("three")


def test_a_decision_waits_for_records_off_the_event_loop(log: StoreLog, other: sqlite3.Connection) -> None:
    guard = Guard(audit=log)

    async def work() -> AuditedAction:
        (await guard.enter_async(LOAD)).close(success=True)
        deciding = asyncio.ensure_future(guard.enter_async(LOAD))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not deciding.done(), "what is to be recorded before it is not yet"
        other.execute("ROLLBACK")
        return await deciding

    audited = asyncio.run(work())
    assert audited.decision.is_allowed
    audited.close(success=True)
    assert len(reasons(log)) == 3


def test_a_call_ends_when_its_record_is_on_the_disk(log: StoreLog, other: sqlite3.Connection) -> None:
    session = Library.from_files().session(guard=Guard(audit=log))
    executor = session.executor([FunctionTool(lambda: "sent", name="send")])

    async def work() -> int:
        calling = [asyncio.ensure_future(executor.execute("send", {})) for _ in range(3)]
        while not log.is_behind:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert not any(call.done() for call in calling)
        other.execute("ROLLBACK")
        assert all(result.success for result in await asyncio.gather(*calling))
        return len(reasons(log))

    assert asyncio.run(work()) == 4


def test_nothing_happens_while_records_cannot_be_written(
    log: StoreLog, other: sqlite3.Connection, impatient: None
) -> None:
    guard = Guard(audit=log)

    async def work() -> list[str]:
        (await guard.enter_async(LOAD)).close(success=True)
        return [(await guard.enter_async(LOAD)).decision.code, guard.enter(LOAD).decision.code]

    assert asyncio.run(work()) == ["audit-unavailable", "audit-unavailable"]
    other.execute("ROLLBACK")
    assert guard.enter(LOAD).decision.is_allowed
    assert len(reasons(log)) == 2, "the record of what had happened"


def test_a_log_that_nobody_insists_on_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/own.db")
    guard = Guard()
    guard.enter(LOAD).close(success=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        async def work() -> list[bool]:
            found = []
            for _ in range(5):
                audited = await guard.enter_async(LOAD)
                audited.close(success=True)
                found.append(audited.decision.is_allowed)
            return found

        assert asyncio.run(work()) == [True] * 5
        other.execute("ROLLBACK")
    trail = guard.governance.log
    assert isinstance(trail, StoreLog)
    trail.catch_up()
    assert len(reasons(trail)) == 6


def test_the_policy_in_force_is_noted_off_the_event_loop(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = own_home / "policy.yaml"
    policy.write_text("mode: enforce\nskills: {deny: [miner]}\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/own.db")
    StoreLog(f"sqlite:///{tmp_path}/own.db").prepare()
    with contextlib.closing(sqlite3.connect(tmp_path / "own.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        async def work() -> AuditedAction:
            deciding = asyncio.ensure_future(Guard().enter_async(LOAD))
            for _ in range(10):
                await asyncio.sleep(0)
            other.execute("ROLLBACK")
            return await deciding

        began = time.monotonic()
        assert asyncio.run(work()).decision.is_allowed
        assert time.monotonic() - began < LONG


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_does_not_write_what_its_parent_will(log: StoreLog, other: sqlite3.Connection) -> None:
    async def work() -> bool:
        log.append(record("once"))
        child = os.fork()
        if child == 0:
            os._exit(int(log.is_behind))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    assert asyncio.run(work())
    other.execute("ROLLBACK")
    log.catch_up()
    assert reasons(log) == ["first", "once"]
