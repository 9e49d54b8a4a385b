"""The one way a tool is called."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import FileMissing, InvalidArgument
from metier.guard.decision import Decision, allow, ask, refuse
from metier.tools import Executor, FunctionTool, ToolRegistry, ToolResult
from metier.tools.tool import MAX_RESULT_BYTES


class Entry:
    """One call at the gate of these tests."""

    def __init__(self, tool: str, arguments: Mapping[str, Any], decision: Decision) -> None:
        self.tool, self.arguments, self.decision = tool, arguments, decision
        self.results: list[ToolResult] = []

    async def before(self) -> Decision | None:
        return None

    async def after(self, result: ToolResult) -> None:
        pass

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        self.results.append(result)


class Door:
    """Lets in what is on a list, as a session with an active skill does, and remembers every call."""

    def __init__(self, *allowed: str) -> None:
        self.allowed: tuple[str, ...] | None = allowed or None
        self.entries: list[Entry] = []

    async def admit_async(
        self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
    ) -> Entry:
        decision = allow("list", "It is on the list.")
        if self.allowed is not None and not is_control and tool not in self.allowed:
            decision = refuse(
                "list",
                f"Skill 'deploy' cannot use tool {tool!r}. It allows: {', '.join(self.allowed)}.",
                code="tool-not-allowed",
                hint="Use one of those.",
            )
        self.entries.append(Entry(tool, arguments, decision))
        return self.entries[-1]

    def codes(self) -> list[str | None]:
        """The codes of all records, of which each call has one."""
        assert all(len(entry.results) == 1 for entry in self.entries)
        return [entry.results[0].code for entry in self.entries]


@pytest.fixture
def done() -> list[str]:
    """What the tools have really done."""
    return []


@pytest.fixture
def registry(done: list[str]) -> ToolRegistry:
    def read(path: str = "") -> str:
        done.append("read")
        return path

    def write(path: str = "", lines: int = 1) -> str:
        done.append("write")
        return path

    def grep() -> None:
        done.append("grep")
        raise ValueError("broken\x1b[2J")

    def missing() -> None:
        raise FileMissing("There is no x.", hint="List them.")

    async def wait() -> None:
        done.append("wait")
        await anyio.sleep_forever()

    return ToolRegistry(FunctionTool(function) for function in (read, write, grep, missing, wait))


@pytest.mark.covers("O-37")
def test_without_a_list_every_tool_runs(registry: ToolRegistry, done: list[str]) -> None:
    door = Door()
    assert Executor(registry, door).execute_blocking("write", {"path": "x"}).result == "x"
    assert Executor(registry).execute_blocking("read", {"path": "y"}).result == "y"
    assert done == ["write", "read"]
    assert door.codes() == [None]


@pytest.mark.covers("O-37", "O-43")
def test_a_tool_that_is_not_allowed_never_runs(registry: ToolRegistry, done: list[str]) -> None:
    door = Door("read", "grep")
    result = Executor(registry, door).execute_blocking("write", {"path": "x"})
    assert not result.success
    assert result.code == "tool-not-allowed"
    assert result.error is not None
    assert "cannot use tool 'write'" in result.error
    assert "read, grep" in result.error
    assert result.hint == "Use one of those."
    assert done == []
    assert door.codes() == ["tool-not-allowed"]


@pytest.mark.covers("O-43")
@pytest.mark.parametrize(
    "name", ["write", "Write", "write ", "write\0", "functions.write", "WRITE", "wri\u0074e\u200b"]
)
def test_no_spelling_of_a_name_gets_past_the_gate(registry: ToolRegistry, done: list[str], name: str) -> None:
    result = Executor(registry, Door("read")).execute_blocking(name, {"path": "x"})
    assert result.code in ("tool-not-allowed", "tool-not-found")
    assert done == []


@pytest.mark.covers("O-39")
def test_restrictions_survive_an_exception_in_a_tool_and_end_with_the_skill(
    registry: ToolRegistry, done: list[str]
) -> None:
    door = Door("grep")
    executor = Executor(registry, door)
    assert executor.execute_blocking("grep").code == "tool-failed"
    assert executor.execute_blocking("write").code == "tool-not-allowed"
    door.allowed = None
    assert executor.execute_blocking("write").success
    assert done == ["grep", "write"]


def test_a_decision_to_ask_is_a_refusal_for_now(registry: ToolRegistry, done: list[str]) -> None:
    class Asking:
        async def admit_async(
            self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
        ) -> Entry:
            return Entry(tool, arguments, ask("list", "Somebody has to agree.", hint="", code=""))

    result = Executor(registry, Asking()).execute_blocking("read")
    assert (result.success, result.code, result.error) == (False, "tool-not-allowed", "Somebody has to agree.")
    assert result.hint
    assert done == []


def test_control_tools_say_so_at_the_gate() -> None:
    class Control(FunctionTool):
        is_control = True

    def load() -> str:
        return "loaded"

    assert Executor(ToolRegistry([Control(load)]), Door("read")).execute_blocking("load").result == "loaded"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("raed", "Did you mean 'read'?"),
        ("READ", "Did you mean 'read'?"),
        ("Grep", "Did you mean 'grep'?"),
        ("zzz", "The tools are read, write, grep, missing, wait."),
        ("", "The tools are"),
        ("x" * 100_000, "The tools are"),
        ("\x1b[2J", "The tools are"),
        (None, "The tools are"),
        pytest.param(10**5_000, "The tools are", id="huge"),
        (["read"], "The tools are"),
    ],
)
def test_an_unknown_tool_is_recorded_and_answered_with_a_suggestion(
    registry: ToolRegistry, name: Any, hint: str
) -> None:
    door = Door()
    result = Executor(registry, door).execute_blocking(name, {"path": "x"})
    assert result.code == "tool-not-found"
    assert result.hint is not None
    assert hint in result.hint
    assert result.error is not None
    assert len(result.error) < 300
    assert result.error.isprintable()
    assert door.codes() == ["tool-not-found"]
    assert door.entries[0].arguments == {"path": "x"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"lines": "3"},
        {"path": 3},
        {"unknown": 1},
        [],
        "not json",
        '{"lines": "3"}',
        {"path": "x" * 2_000_000},
        {"path": float("nan")},
        {1: 2},
        {"path": "\ud800"},
        7,
    ],
)
def test_arguments_that_do_not_fit_are_recorded_and_never_reach_the_tool(
    registry: ToolRegistry, done: list[str], arguments: Any
) -> None:
    door = Door()
    result = Executor(registry, door).execute_blocking("write", arguments)
    assert result.code == "invalid-arguments"
    assert result.error is not None
    assert result.error.startswith("Tool 'write': ")
    assert result.hint
    assert done == []
    assert door.codes() == ["invalid-arguments"]


def test_arguments_may_be_json_text(registry: ToolRegistry) -> None:
    door = Door()
    assert Executor(registry, door).execute_blocking("write", '{"path": "x", "lines": 2}').result == "x"
    assert door.entries[0].arguments == {"path": "x", "lines": 2}


def test_what_a_tool_raises_is_a_result_without_a_traceback(registry: ToolRegistry) -> None:
    door = Door()
    executor = Executor(registry, door)
    result = executor.execute_blocking("grep")
    assert result.code == "tool-failed"
    assert result.error == "The tool 'grep' failed: ValueError: broken\\x1b[2J"
    assert result.hint
    result = executor.execute_blocking("missing")
    assert (result.code, result.error, result.hint) == ("file-missing", "There is no x.", "List them.")
    assert door.codes() == ["tool-failed", "file-missing"]


def raising(error: BaseException) -> ToolRegistry:
    async def fail() -> None:
        raise error

    return ToolRegistry([FunctionTool(fail)])


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.each(
    ("error", "text"),
    [
        (Unprintable(), "failed: Unprintable"),
        (ExceptionGroup("many", [ExceptionGroup("one", [KeyError("x")])]), "failed: KeyError: 'x'"),
        (ExceptionGroup("many", [KeyError("x"), KeyError("y")]), "failed: ExceptionGroup: many"),
        (ValueError("x" * 1_000_000), "failed: ValueError: xxx"),
        (ValueError(), "failed: ValueError"),
        (RecursionError("deep"), "failed: RecursionError: deep"),
        (TimeoutError("slow"), "failed: TimeoutError: slow"),
    ],
)
def test_errors_of_every_kind_are_told_in_short(error: Exception, text: str) -> None:
    result = Executor(raising(error)).execute_blocking("fail")
    assert result.code == "tool-failed"
    assert result.error is not None
    assert text in result.error
    assert len(result.error) < 1_200


@pytest.mark.each("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_interrupt_is_recorded_and_raised(error: BaseException) -> None:
    door = Door()

    async def main() -> None:
        with pytest.raises(type(error)):
            await Executor(raising(error), door).execute("fail")

    anyio.run(main)
    assert door.codes() == ["interrupted"]


@pytest.mark.parametrize("own", [True, False])
def test_a_call_that_takes_too_long_ends(own: bool) -> None:
    door = Door()

    async def wait() -> None:
        await anyio.sleep_forever()

    registry = ToolRegistry([FunctionTool(wait, timeout=0.01 if own else None)])
    result = Executor(registry, door).execute_blocking("wait", timeout=None if own else 0.01)
    assert result.code == "timed-out"
    assert result.error == "The tool 'wait' timed out after 0.01 seconds."
    assert result.hint
    assert door.codes() == ["timed-out"]


def test_a_function_that_hangs_is_left_behind() -> None:
    door = Door()
    go_on = threading.Event()

    def hang() -> bool:
        return go_on.wait(60)

    result = Executor(ToolRegistry([FunctionTool(hang)]), door).execute_blocking("hang", timeout=0.01)
    go_on.set()
    assert result.code == "timed-out"
    assert door.codes() == ["timed-out"]


def test_functions_that_hang_hold_up_no_other_tool() -> None:
    go_on = threading.Event()

    def hang() -> bool:
        return go_on.wait(60)

    def quick() -> str:
        return "done"

    executor = Executor(ToolRegistry([FunctionTool(hang), FunctionTool(quick)]))
    results: list[ToolResult] = []

    async def call(name: str, timeout: float) -> None:
        results.append(await executor.execute(name, timeout=timeout))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(call, "hang", 0.05)
        try:
            await call("quick", 30)
        finally:
            go_on.set()

    anyio.run(main)
    assert [result.code for result in results] == ["timed-out"] * 60 + [None]


def test_a_cancelled_call_is_recorded_and_stays_cancelled(registry: ToolRegistry, done: list[str]) -> None:
    door = Door()
    after: list[ToolResult] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def call() -> None:
                after.append(await Executor(registry, door).execute("wait"))

            group.start_soon(call)
            while not done:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(main)
    assert after == []
    assert door.codes() == ["cancelled"]


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_none_is_refused(registry: ToolRegistry, timeout: float) -> None:
    with pytest.raises(InvalidArgument, match="no time limit"):
        Executor(registry).execute_blocking("read", timeout=timeout)


def test_blocking_calls_are_for_programs_without_an_event_loop(registry: ToolRegistry) -> None:
    async def main() -> None:
        with pytest.raises(InvalidArgument, match="event loop"):
            Executor(registry).execute_blocking("read")

    anyio.run(main)


def test_the_time_a_call_took_is_in_its_result(registry: ToolRegistry) -> None:
    ticks = itertools.count(step=0.25)
    result = Executor(registry, clock=lambda: next(ticks)).execute_blocking("read")
    assert result.duration_ms == 250


def test_the_record_keeps_the_arguments_that_were_decided_about() -> None:
    def change(items: list[int]) -> None:
        items.append(2)

    door = Door()
    given = {"items": [1]}
    Executor(ToolRegistry([FunctionTool(change)]), door).execute_blocking("change", given)
    assert door.entries[0].arguments == given == {"items": [1]}


class Failing:
    """A gate that fails to decide, or to record."""

    decision = allow("list", "")

    def __init__(self, *, at: str, error: Exception) -> None:
        self.at, self.error = at, error

    async def admit_async(
        self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
    ) -> Failing:
        if self.at == "admit":
            raise self.error
        return self

    async def before(self) -> Decision | None:
        return None

    async def after(self, result: ToolResult) -> None:
        pass

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        raise self.error


def test_a_gate_that_fails_is_closed(registry: ToolRegistry, done: list[str]) -> None:
    result = Executor(registry, Failing(at="admit", error=RuntimeError("down"))).execute_blocking("read")
    assert (result.success, result.code) == (False, "not-decided")
    result = Executor(registry, Failing(at="admit", error=FileMissing("No log."))).execute_blocking("read")
    assert (result.success, result.code) == (False, "file-missing")
    assert done == []


def test_what_keeps_an_admitted_call_from_being_made_is_recorded_as_the_decision(
    registry: ToolRegistry, done: list[str]
) -> None:
    class Late(Entry):
        against: Decision | None = None

        async def before(self) -> Decision | None:
            raise RuntimeError("down")

        def record(self, result: ToolResult, against: Decision | None = None) -> None:
            super().record(result)
            self.against = against

    entry = Late("read", {}, allow("list", ""))

    class Once:
        async def admit_async(
            self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
        ) -> Late:
            return entry

    assert Executor(registry, Once()).execute_blocking("read").code == "not-decided"
    assert done == []
    assert entry.against is not None
    assert (entry.against.outcome, entry.against.code) == ("deny", "not-decided")


@pytest.mark.parametrize(("name", "arguments"), [("none", {}), ("write", "no JSON"), ("write", {"lines": "many"})])
def test_nobody_is_asked_about_a_call_that_cannot_be_made(registry: ToolRegistry, name: str, arguments: Any) -> None:
    asked: list[bool] = []

    class Asking(Door):
        async def admit_async(
            self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
        ) -> Entry:
            asked.append(asks)
            return await super().admit_async(tool, arguments, is_control=is_control, asks=asks)

    assert not Executor(registry, Asking()).execute_blocking(name, arguments).success
    assert asked == [False]


def test_a_call_that_cannot_be_recorded_is_no_success(registry: ToolRegistry) -> None:
    result = Executor(registry, Failing(at="record", error=RuntimeError("disk full"))).execute_blocking("read")
    assert (result.success, result.code, result.result) == (False, "not-recorded", None)
    assert result.hint


def returned(value: Any) -> ToolResult:
    def give() -> Any:
        return value

    return Executor(ToolRegistry([FunctionTool(give)])).execute_blocking("give")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.each(
    ("value", "result"),
    [
        (None, None),
        ("text", "text"),
        (True, True),
        (3, 3),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({1: 2}, {"1": 2}),
        ({"a": {3}}, {"a": [3]}),
        (ValueError("x"), "x"),
        ({"a": ValueError("x")}, {"a": "x"}),
        (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"x", "b'x'"),
        ("a\ud800b", "a?b"),
        ({"a": "\ud800"}, {"a": "?"}),
        (CIRCLE, "[[...]]"),
    ],
)
def test_what_a_tool_returns_becomes_a_value_that_json_can_hold(value: Any, result: Any) -> None:
    given = returned(value)
    assert given.success
    assert given.result == result
    assert not given.truncated
    json.dumps(given.result, allow_nan=False)


def test_a_result_of_its_own_passes_through() -> None:
    own = ToolResult(success=False, result="part", error="Broke.", code="broken", keep=True, data={"exit": 3})
    result = returned(own)
    assert (result.result, result.error, result.code, result.keep, result.data) == (
        "part", "Broke.", "broken", True, {"exit": 3},
    )  # fmt: skip
    assert result.duration_ms > 0


@pytest.mark.parametrize(
    "value",
    ["é" * MAX_RESULT_BYTES, ["x" * 100] * 20_000, ToolResult(success=True, result="x" * (MAX_RESULT_BYTES + 1))],
)
def test_a_huge_result_is_cut_and_says_so(value: Any) -> None:
    result = returned(value)
    assert result.truncated
    assert result.result.endswith(" bytes]")
    assert "[Result truncated: the first 1,048,576 of " in result.result
    assert len(result.result.encode()) < MAX_RESULT_BYTES + 200


def test_the_largest_result_is_whole() -> None:
    result = returned("x" * MAX_RESULT_BYTES)
    assert not result.truncated
    assert len(result.result) == MAX_RESULT_BYTES


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.sampled_from(["read", "write", "grep", "raed"]) | st.text(max_size=8),
    JSON | st.dictionaries(st.sampled_from(["path", "lines"]), JSON) | JSON.map(json.dumps) | st.text(max_size=20),
)
def test_whatever_a_model_says_there_is_a_result_and_one_record(name: str, arguments: Any) -> None:
    def read(path: str) -> str:
        return path

    def write(path: str, lines: int = 1) -> str:
        return path * min(lines, 3)

    def grep(lines: list[int]) -> int:
        return sum(lines)

    door = Door("read", "grep")
    tools = ToolRegistry(FunctionTool(function) for function in (read, write, grep))
    result = Executor(tools, door).execute_blocking(name, arguments)
    assert door.entries[0].results == [result]
    assert len(door.entries) == 1
    if not result.success:
        assert result.code in ("tool-not-found", "invalid-arguments", "tool-not-allowed")
        assert result.error
        assert result.hint
    else:
        assert name in ("read", "grep")
