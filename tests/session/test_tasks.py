"""One task: whatever it loaded ends with it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from metier import Session, ToolResult
from metier.guard import MemoryLog

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


@pytest.mark.covers("O-42", "O-35")
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_at_its_end_everything_is_unloaded(
    begin: Begin, skill: Files, log: MemoryLog, error: type[BaseException] | None
) -> None:
    session = begin(skill("a", more="allowed-tools: []\n"), skill("b"))
    try:
        with session.task("t-1") as same:
            assert same is session
            session.load("a")
            session.parts.loader.activate("b")
            assert not session.may_call("Bash", {})
            if error is not None:
                raise error
    except BaseException as caught:
        assert type(caught) is error
    assert (session.active, session.parts.loader.activations) == ((), ())
    assert session.may_call("Bash", {})
    assert [(one.event, one.skill, one.task) for one in log.records] == [
        ("load", "a", "t-1"),
        ("load", "b", "t-1"),
        ("unload", "a", "t-1"),
        ("unload", "b", "t-1"),
    ]


@pytest.mark.covers("O-42")
def test_a_cancelled_task_unloads_everything(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"))

    async def main() -> None:
        with anyio.CancelScope() as scope, session.task():
            session.load("a")
            scope.cancel()
            await anyio.sleep_forever()

    anyio.run(main)
    assert session.active == ()


def test_the_task_is_in_every_record_of_it_and_in_none_after(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"))
    with session.task() as same:
        same.load("a")
        session.calls.admit("Bash", {}).record(ToolResult(success=True))
    session.load("a")
    tasks = [one.task for one in log.records]
    assert tasks[-1] is None
    assert len(set(tasks[:-1])) == 1
    assert tasks[0]


def test_a_session_that_was_closed_in_its_task_ends_quietly(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"))
    with session.task():
        session.load("a")
        session.close()
    assert session.context.is_closed


def test_the_next_task_begins_with_nothing(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"))
    for name in ("one", "two"):
        with session.task(name):
            assert session.active == ()
            session.load("a")
            assert session.context.actor.task == name
    assert session.context.actor.task is None
