"""The conversations of a server: nobody waits for another one's, and none is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from metier import Session
from metier.dialect import Skills
from metier.errors import SessionNotFound
from metier.guard import MemoryLog
from metier.serve.mcp.conversations import Conversations
from metier.session import SessionPool
from metier.testing import library

SECONDS = 10


class Slow:
    """Sessions that take long to be made: until they may go on."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.made: list[Session] = []


@pytest.fixture
def conversations() -> Iterator[Conversations]:
    found = Conversations(Skills(library("greet: Says hello."), audit=MemoryLog()))
    yield found
    found.close()


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], contextlib.AbstractContextManager[Slow]]:
    """From now on, sessions are made slowly."""

    @contextlib.contextmanager
    def slowly() -> Iterator[Slow]:
        slow, begin = Slow(), SessionPool.begin

        def waiting(self: SessionPool[Session], **options: Any) -> Session:
            slow.begun.set()
            assert slow.may_go_on.wait(SECONDS)
            slow.made.append(begin(self, **options))
            return slow.made[-1]

        monkeypatch.setattr(SessionPool, "begin", waiting)
        try:
            yield slow
        finally:
            slow.may_go_on.set()

    return slowly


def test_only_who_asks_for_the_same_conversation_waits_until_it_has_begun(
    conversations: Conversations, slowly: Callable[[], contextlib.AbstractContextManager[Slow]]
) -> None:
    line, (key, named) = conversations.of("there"), conversations.begin()
    with ThreadPoolExecutor(4) as threads, slowly() as slow:
        same = [threads.submit(conversations.of, "new") for _ in range(2)]
        other = threads.submit(conversations.begin)
        assert slow.begun.wait(SECONDS)
        found = threads.submit(lambda: (conversations.of("there"), conversations.get(key)))
        assert found.result(SECONDS / 2) == (line, named)
        slow.may_go_on.set()
        assert same[0].result(SECONDS) is same[1].result(SECONDS)
        assert conversations.get(other.result(SECONDS)[0]) is other.result()[1]
    assert len(slow.made) == 2


def test_a_conversation_that_ends_while_it_begins_has_ended(
    conversations: Conversations, slowly: Callable[[], contextlib.AbstractContextManager[Slow]]
) -> None:
    with ThreadPoolExecutor(1) as threads, slowly() as slow:
        new = threads.submit(conversations.of, "new")
        assert slow.begun.wait(SECONDS)
        conversations.end("new")
        slow.may_go_on.set()
        with pytest.raises(SessionNotFound):
            new.result(SECONDS)
    assert conversations.is_over("new")
    assert [session.context.is_closed for session in slow.made] == [True]


def test_a_conversation_whose_task_is_cancelled_while_it_begins_is_closed(
    conversations: Conversations, slowly: Callable[[], contextlib.AbstractContextManager[Slow]]
) -> None:
    async def begin() -> None:
        async with conversations.beginning():
            pass

    async def main() -> None:
        with slowly() as slow:
            task = asyncio.create_task(begin())
            assert await asyncio.to_thread(slow.begun.wait, SECONDS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(SECONDS):
            while [session.context.is_closed for session in slow.made] != [True]:
                await asyncio.sleep(0.001)

    asyncio.run(main())
