"""Asking while others go on: whose thread waits for an answer, who is asked how often, and which answer counts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from metier import FunctionTool, Library, Place, Session
from metier.dialect import Kit
from metier.guard import Action, Decision, Guard, MemoryLog, Policy
from metier.guard.question import Answers, consent_from_any
from metier.run import PlainRunner
from metier.source import MemorySource
from metier.tools import ToolResult

ANY = {"type": "object"}
FREE = {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."}
WRITE = Action(point="call", tool="Write")


def stranger(guard: Guard) -> Session:
    """A session where every load by a model is asked about."""
    source = MemorySource.of(FREE)
    return Library([Place(layer="project", source=source, trusted=False)], cache=False).session(guard=guard)


def deploying(guard: Guard) -> Session:
    return Library.from_files(FREE).session(guard=guard)


async def deploy(session: Session) -> Any:
    async def call() -> str:
        return "deployed"

    return await session.executor().around("deploy", {}, call)


async def load(session: Session) -> ToolResult:
    return await session.executor().execute("skills_load", {"skills": ["free"]})


async def read(session: Session) -> ToolResult:
    return await session.executor().execute("skills_read", {"path": "scripts/go.py"})


class Desk:
    """Somebody who is asked by a plain function, and answers when they are told to."""

    def __init__(self, *, answer: bool = True) -> None:
        self.asked = threading.Semaphore(0)
        self._answer = answer
        self.go_on = threading.Event()
        self.threads: list[int] = []

    def __call__(self, action: Action, decision: Decision) -> bool:
        self.threads.append(threading.get_ident())
        self.asked.release()
        return self.go_on.wait(30) and self._answer

    async def has_been_asked(self) -> None:
        with anyio.fail_after(30):
            while not self.asked.acquire(blocking=False):
                await anyio.sleep(0.001)


async def one_thread_for_all() -> None:
    """From now on there is one thread that all share, so that one that waits in it would stop everything."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1


async def others_go_on() -> None:
    with anyio.fail_after(5):
        await anyio.to_thread.run_sync(lambda: None)


def with_a_script(guard: Guard) -> Session:
    return Library.from_files({**FREE, "scripts/go.py": "print(1)"}).session(guard=guard, skills=["free"])


@pytest.mark.each(
    ("begin", "policy", "do"),
    [
        (deploying, {"ask": "deploy"}, deploy),
        (deploying, {"ask": "skills_load"}, load),
        (stranger, {"untrusted": "ask"}, load),
        (with_a_script, {"script_reads": "ask"}, read),
    ],
    ids=["call", "control tool", "load", "read"],
)
def test_open_questions_use_up_no_thread_that_others_need(
    begin: Callable[[Guard], Session], policy: dict[str, Any], do: Callable[[Session], Coroutine[Any, Any, Any]]
) -> None:
    desk = Desk()
    guard = Guard(Policy(**policy), audit=MemoryLog(), approve=desk)
    answers: list[Any] = []

    async def main() -> None:
        await one_thread_for_all()

        async def ask() -> None:
            answers.append(await do(begin(guard)))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)
            for _ in range(3):
                await desk.has_been_asked()
            await others_go_on()
            desk.go_on.set()
        assert threading.get_ident() not in desk.threads, "whoever is asked does not hold up the event loop"

    anyio.run(main)
    assert [answer if isinstance(answer, str) else answer.success for answer in answers] in (
        ["deployed"] * 3,
        [True] * 3,
    )


def test_hooks_that_are_asked_about_use_up_no_thread_that_others_need(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    hooks = "hooks:\n  PreToolUse:\n    - hooks:\n        - command: hooks/look.sh\n"
    write_skill(tmp_path / "s" / "free", more=hooks)
    desk = Desk(answer=False)
    guard = Guard(Policy(hooks="ask", unsandboxed="allow"), audit=MemoryLog(), approve=desk)
    library = Library.from_folder(tmp_path / "s")
    session = library.session(guard=guard, skills=["free"], runner=PlainRunner(), workspace=tmp_path)

    async def main() -> None:
        await one_thread_for_all()
        async with anyio.create_task_group() as group:
            group.start_soon(deploy, session)
            await desk.has_been_asked()
            await others_go_on()
            desk.go_on.set()

    anyio.run(main)


def test_an_async_callback_needs_no_thread_and_may_use_some() -> None:
    async def approve(action: Action, decision: Decision) -> bool:
        return await anyio.to_thread.run_sync(lambda: True)

    guard = Guard(Policy(ask="deploy"), audit=MemoryLog(), approve=approve)
    answers: list[Any] = []

    async def main() -> None:
        await one_thread_for_all()

        async def ask() -> None:
            answers.append(await deploy(deploying(guard)))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(ask)

    anyio.run(main)
    assert answers == ["deployed"] * 5


class Later:
    """A callback that is an object, and async."""

    async def __call__(self, action: Action, decision: Decision) -> bool:
        await anyio.sleep(0)
        return True


class Promise:
    """An answer that can be awaited, is no coroutine, and counts how often it is awaited."""

    def __init__(self, error: Exception | None = None) -> None:
        self.awaited = 0
        self._error = error

    def __await__(self) -> Generator[Any, Any, bool]:
        self.awaited += 1
        yield from asyncio.sleep(0).__await__()
        if self._error is not None:
            raise self._error
        return True


@pytest.mark.parametrize("policy", [{"ask": "skills_load"}, {"untrusted": "ask"}], ids=["in the loop", "in a thread"])
@pytest.mark.parametrize("approve", [Later(), lambda action, decision: Later()(action, decision)])
def test_an_async_callback_may_be_any_callable(policy: dict[str, Any], approve: Any) -> None:
    session = stranger(Guard(Policy(**{"untrusted": "allow", **policy}), audit=MemoryLog(), approve=approve))
    assert anyio.run(load, session).success


@pytest.mark.parametrize("error", [None, RuntimeError("no")])
@pytest.mark.parametrize("how", ["in the loop", "in a thread", "without a loop"])
def test_an_answer_is_awaited_once_whatever_it_raises(how: str, error: Exception | None) -> None:
    promise = Promise(error)
    asked: list[str] = []

    def approve(action: Action, decision: Decision) -> Promise:
        asked.append(action.point)
        return promise

    policy = Policy(ask="skills_load", untrusted="allow") if how == "in the loop" else Policy(untrusted="ask")
    session = stranger(Guard(policy, audit=MemoryLog(), approve=approve))
    if how == "without a loop":
        with contextlib.suppress(Exception):
            session.load("free", by="model")
    else:
        anyio.run(load, session)
    assert (len(asked), promise.awaited) == (1, 1)
    assert bool(session.active) is (error is None)


def test_a_question_that_is_withdrawn_is_no_and_does_not_end_whoever_asked() -> None:
    async def approve(action: Action, decision: Decision) -> bool:
        raise asyncio.CancelledError

    log = MemoryLog()
    result = anyio.run(deploy, deploying(Guard(Policy(ask="deploy"), audit=log, approve=approve)))
    assert result.code == "approval-failed"
    assert [(record.decision, record.code) for record in log.records] == [("deny", "approval-failed")]


@pytest.mark.covers("O-105")
@pytest.mark.each(
    ("begin", "policy", "do"),
    [(deploying, Policy(ask="deploy"), deploy), (stranger, Policy(untrusted="ask"), load)],
    ids=["call", "load"],
)
def test_a_yes_that_comes_after_the_end_counts_for_nothing(
    begin: Callable[[Guard], Session], policy: Policy, do: Callable[[Session], Coroutine[Any, Any, Any]]
) -> None:
    desk, log = Desk(), MemoryLog()
    session = begin(Guard(policy, audit=log, approve=desk))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(do, session)
            await desk.has_been_asked()
            group.cancel_scope.cancel()
            desk.go_on.set()

    anyio.run(main)
    assert session.active == ()
    assert {record.code for record in log.records} == {"cancelled"}
    assert (log.records[0].event, log.records[0].decision) == ("call" if do is deploy else "load", "deny")


def test_an_async_question_ends_with_whoever_asked() -> None:
    ended: list[str] = []

    async def approve(action: Action, decision: Decision) -> bool:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(action.tool)
        return True

    log = MemoryLog()
    session = deploying(Guard(Policy(ask="deploy"), audit=log, approve=approve))

    async def main() -> None:
        with anyio.move_on_after(0.01):
            await deploy(session)

    anyio.run(main)
    assert ended == ["deploy"]
    assert [(record.tool, record.decision, record.code) for record in log.records] == [("deploy", "deny", "cancelled")]


@pytest.mark.each(
    ("tool", "arguments", "code"),
    [("none", {}, "tool-not-found"), ("deploy", "no JSON", "invalid-arguments"), ("deploy", {}, "invalid-arguments")],
)
def test_nobody_is_asked_about_a_call_that_cannot_be_made(tool: str, arguments: Any, code: str) -> None:
    asked: list[str] = []

    def approve(action: Action, decision: Decision) -> bool:
        asked.append(action.tool)
        return True

    def deploy(where: str) -> str:
        return where

    log = MemoryLog()
    session = deploying(Guard(Policy(ask="*"), audit=log, approve=approve))
    told: list[str] = []
    session.listen(lambda event: told.append(event.kind))
    executor = session.executor([FunctionTool(deploy)])
    assert executor.execute_blocking(tool, arguments).code == code
    assert (asked, told) == ([], [])
    assert [(one.tool, one.decision, one.success, one.code) for one in log.records] == [(tool, "ask", False, code)]


def test_nobody_is_asked_about_a_call_that_is_not_made_here() -> None:
    log = MemoryLog()
    kit = Kit(deploying(Guard(Policy(ask="web_search", deny="web_fetch"), audit=log, approve=lambda *_: 1 / 0)))  # type: ignore[arg-type]

    async def main() -> list[ToolResult | None]:
        return [await kit.attempted(tool, {"query": "x"}) for tool in ("web_search", "web_fetch", "other")]

    searched, fetched, other = anyio.run(main)
    assert (searched, other) == (None, None)
    assert fetched is not None
    assert fetched.code == "tool-not-allowed"
    assert [(one.tool, one.decision) for one in log.records] == [
        ("web_search", "ask"),
        ("web_fetch", "deny"),
        ("other", "allow"),
    ]


def test_answers_are_asked_only_where_there_are_some() -> None:
    guard, answers = Guard(Policy(ask="Write"), audit=MemoryLog()), Answers()
    with consent_from_any(None):
        assert not guard.may_ask
    with consent_from_any(answers):
        assert guard.settle(WRITE).code == "approval-pending"
    assert len(answers.open) == 1


@pytest.mark.parametrize("rounds", [400, pytest.param(5_000, marks=pytest.mark.slow)])
def test_decisions_can_be_made_in_many_threads_at_once(rounds: int) -> None:
    guard = Guard(audit=MemoryLog())
    failed: list[BaseException] = []

    def decide(who: int) -> None:
        for number in range(rounds):
            try:
                assert guard.decide(Action(point="call", tool=f"tool-{who}-{number}")).is_allowed
            except BaseException as error:
                failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=decide, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []


@pytest.mark.covers("O-105")
def test_a_decision_that_fails_is_a_no_with_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    guard = Guard(audit=log)
    monkeypatch.setattr(guard, "decide", lambda action: 1 / 0)
    result = anyio.run(deploy, deploying(guard))
    assert result.code == "not-decided"
    assert [(one.tool, one.decision, one.code) for one in log.records] == [("deploy", "deny", "not-decided")]


@pytest.mark.covers("O-105")
def test_a_call_is_recorded_also_when_nobody_knows_what_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    session = deploying(Guard(audit=log))
    executor = session.executor([FunctionTool(lambda: "x", name="deploy")])
    session.guard.block("another")
    monkeypatch.setattr(session.loaded, "live", lambda: 1 / 0)
    assert executor.execute_blocking("deploy").code == "not-decided"
    assert [(one.tool, one.decision, one.code) for one in log.records] == [("deploy", "deny", "not-decided")]
