"""Whatever happens in a conversation: no call outside what all active skills allow, and a record of every call."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import FunctionTool, Guard, Library, Policy, Session, ToolResult
from metier.errors import MetierError
from metier.guard import AuditRecord, MemoryLog
from metier.tools import Executor

TOOLS = ("alpha", "beta", "gamma", "delta")
ALLOWED: dict[str, frozenset[str] | None] = {
    "free": None,
    "nothing": frozenset(),
    "one": frozenset({"alpha"}),
    "two": frozenset({"alpha", "beta"}),
    "three": frozenset({"alpha", "beta", "gamma"}),
    "other": frozenset({"gamma", "delta"}),
}


class Deliberate(Exception):
    """What a tool or a task fails with here."""


def skill(name: str, allowed: frozenset[str] | None) -> dict[str, str]:
    rules = "" if allowed is None else f"allowed-tools: [{', '.join(sorted(allowed))}]\n"
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{rules}---\nDo it."}


LIBRARY = Library.from_files(*(skill(name, allowed) for name, allowed in ALLOWED.items()))


def inside_all(active: tuple[str, ...]) -> frozenset[str]:
    """The tools that skills allow together, worked out without any code of ours."""
    lists = [allowed for name in active if (allowed := ALLOWED[name]) is not None]
    return frozenset(TOOLS).intersection(*lists)


class World:
    """A session with tools that note when they are really carried out, and under which skills."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.guard = Guard(Policy(), audit=self.log)
        self.session: Session = LIBRARY.session(guard=self.guard, max_active=4)
        self.carried_out: list[tuple[str, tuple[str, ...]]] = []
        self.asked: Counter[str] = Counter()
        self.executor: Executor = self.session.executor([self._tool(name) for name in TOOLS])

    def _tool(self, name: str) -> FunctionTool:
        async def act(how: str) -> str:
            # Nothing can come between the decision and this line: there is no await in between.
            self.carried_out.append((name, tuple(one.name for one in self.session.active)))
            if how == "fail":
                raise Deliberate(name)
            if how == "wait":
                await anyio.sleep_forever()
            if how == "yield":
                await anyio.sleep(0)
            return name

        return FunctionTool(act, name=name, description="Acts.", timeout=None)

    async def call(self, tool: str, how: str) -> None:
        self.asked[tool] += 1
        result = await self.executor.execute(tool, {"how": how})
        assert result.success or result.code in ("tool-not-allowed", "tool-failed"), result

    async def control(self, tool: str, arguments: dict[str, Any]) -> None:
        self.asked[tool] += 1
        await self.executor.execute(tool, arguments)

    async def cancelled(self, tool: str) -> None:
        self.asked[tool] += 1
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self.executor.execute, tool, {"how": "wait"})
                await anyio.sleep(0)
                scope.cancel()

    async def failing_task(self, names: list[str], tools: list[str]) -> None:
        with pytest.raises(Deliberate), self.session.task():
            await self.step(("load", names, "add"))
            for tool in tools:
                await self.call(tool, "return")
            raise Deliberate
        assert self.session.active == ()

    async def step(self, step: tuple[Any, ...]) -> None:
        kind, *rest = step
        if kind == "call":
            await self.call(*rest)
        elif kind == "cancel":
            await self.cancelled(*rest)
        elif kind == "task":
            await self.failing_task(*rest)
        elif kind == "by-model":
            await self.control("skills_load", {"skills": rest[0], "mode": rest[1]})
        elif kind == "together":
            async with anyio.create_task_group() as group:
                for inner in rest[0]:
                    group.start_soon(self.step, inner)
        elif kind == "block":
            self.guard.block(rest[0])
        elif kind == "unblock":
            self.guard.unblock(rest[0])
        else:
            self._change(kind, *rest)

    def _change(self, kind: str, names: list[str], mode: Any) -> None:
        try:
            if kind == "load":
                self.session.load(names, mode)
            else:
                self.session.unload(names, all=mode == "replace")
        except MetierError:
            pass

    def check(self) -> None:
        for tool, active in self.carried_out:
            assert tool in inside_all(active), (tool, active)
        calls = [record for record in self.log.records if record.event == "call"]
        for record in calls:
            if record.tool in TOOLS and record.decision == "allow":
                assert record.tool in inside_all(record.active), record
        assert Counter(record.tool for record in calls) == self.asked
        allowed = Counter(record.tool for record in calls if record.decision == "allow" and record.tool in TOOLS)
        assert allowed == Counter(tool for tool, _ in self.carried_out)
        _check_loads(self.log.records, self.session)


def _check_loads(records: list[AuditRecord], session: Session) -> None:
    """Whatever is active was loaded and not unloaded since, and nothing else was."""
    active = {one.name for one in session.active}  # a look, which may unload what was blocked meanwhile
    balance: Counter[str] = Counter()
    for record in records:
        if record.event == "load" and record.success:
            balance[record.skill] = 1
        elif record.event == "unload":
            balance[record.skill] = 0
    assert {name for name, count in balance.items() if count} == active


names = st.lists(st.sampled_from(sorted(ALLOWED)), min_size=1, max_size=3)
modes = st.sampled_from(["add", "replace"])
tools = st.sampled_from(TOOLS)
simple = st.one_of(
    st.tuples(st.just("load"), names, modes),
    st.tuples(st.just("by-model"), names, modes),
    st.tuples(st.just("unload"), names, modes),
    st.tuples(st.just("call"), tools, st.sampled_from(["return", "fail", "yield"])),
    st.tuples(st.just("cancel"), tools),
    st.tuples(st.just("block"), st.sampled_from(sorted(ALLOWED))),
    st.tuples(st.just("unblock"), st.sampled_from(sorted(ALLOWED))),
)
steps = st.lists(
    st.one_of(
        simple,
        st.tuples(st.just("task"), names, st.lists(tools, max_size=3)),
        st.tuples(st.just("together"), st.lists(simple, min_size=2, max_size=5)),
    ),
    max_size=14,
)


@pytest.mark.covers("O-37", "O-39", "O-40", "O-42", "O-43", "O-44", "O-105", "O-108")
@given(steps)
def test_no_call_is_carried_out_outside_the_intersection_and_every_call_is_recorded(history: list[Any]) -> None:
    world = World()

    async def main() -> None:
        for step in history:
            await world.step(step)

    anyio.run(main)
    world.check()


@pytest.mark.covers("O-40", "O-43")
def test_threads_that_load_unload_and_call_at_once_never_get_outside_the_intersection() -> None:
    world = World()
    session = world.session
    stop = threading.Event()

    def changing(seed: int) -> None:
        choices = sorted(ALLOWED)
        for number in range(60):
            name = choices[(seed * 7 + number) % len(choices)]
            try:
                if number % 5:
                    session.load([name], "add" if number % 2 else "replace")
                else:
                    session.unload(all=True)
            except MetierError:
                pass
        stop.set()

    def calling(seed: int) -> None:
        number = seed
        while not stop.is_set() or number < seed + 50:
            tool = TOOLS[number % len(TOOLS)]
            admission = session.calls.admit(tool, {"how": "return"})
            admission.record(ToolResult(success=True))
            number += 1

    threads = [threading.Thread(target=changing, args=(seed,)) for seed in range(3)]
    threads += [threading.Thread(target=calling, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    calls = [record for record in world.log.records if record.event == "call"]
    assert calls
    for record in calls:
        is_inside = record.tool in inside_all(record.active)
        assert (record.decision == "allow") == is_inside, record
