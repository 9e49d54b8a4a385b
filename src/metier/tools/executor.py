"""The executor: a tool is found, its arguments checked, the call admitted, run within its time, and recorded.

Whatever happens, a call ends in exactly one record, and what a model sees is a result with a code and a hint.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from metier._lazy import logger
from metier._suggest import suggestions
from metier._telemetry import tool_call
from metier.errors import InvalidArgument, MetierError
from metier.guard.decision import refuse, unguarded
from metier.hints import BUILTIN, Hint, for_model
from metier.skill import shown
from metier.tools.arguments import Misfit, arguments_for, read_arguments, schema_of
from metier.tools.tool import ToolResult, failure_of, result_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metier.guard.decision import Decision
    from metier.tools.tool import Tool, ToolRegistry

log = logger("metier.tools")

_MAX_LISTED = 20
_NOT_THERE = "tool-not-found"

T = TypeVar("T")


class Admission(Protocol):
    """The admission of one call: the decision about it, and the record of its end."""

    @property
    def decision(self) -> Decision:
        """The decision about the call."""
        ...

    async def before(self) -> Decision | None:
        """Run the steps before the call; a decision when it must not be made after all."""
        ...

    async def after(self, result: ToolResult) -> None:
        """Run the steps after a call that was made or cancelled."""
        ...

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        """Record the call; called exactly once, at its end, whatever its result.

        `against` is a decision that stopped a call which had been admitted.
        """
        ...


class Gate(Protocol):
    """The interface that every call passes. A session has one."""

    async def admit_async(
        self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
    ) -> Admission:
        """Decide about a call, and ask a person where that is needed, without blocking the event loop.

        Calls that cannot be made come here too, to be recorded: without `asks`, nobody is asked. A call that cannot be
        decided is recorded before the error is raised.
        """
        ...


class Executor:
    """Calls tools of a registry through a gate; without a gate, everything is allowed and nothing is recorded.

    >>> from metier.tools import FunctionTool, ToolRegistry
    >>> def double(number: int) -> int:
    ...     return number * 2
    >>> executor = Executor(ToolRegistry([FunctionTool(double)]))
    >>> executor.execute_blocking("double", {"number": 21}).result
    42
    >>> executor.execute_blocking("duoble", {"number": 21}).hint
    "Did you mean 'double'?"
    """

    def __init__(
        self,
        registry: ToolRegistry,
        gate: Gate | None = None,
        *,
        words: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`words` are the tools by which the model uses skills, by their function: hints name no others."""
        self.registry = registry
        self._gate = gate
        self._words = dict(words or {})
        self._clock = clock

    async def execute(self, name: str, arguments: Any = None, *, timeout: float | None = None) -> ToolResult:
        """Call a tool with arguments as a model gave them, a mapping or JSON text.

        `timeout`, in seconds, replaces the tool's own. Only cancellation and interrupts are raised, once they have been
        recorded.
        """
        if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
            raise InvalidArgument(f"{timeout!r} is no time limit.", hint="Give seconds, or None for the tool's own.")
        started = self._clock()
        tool = self.registry.get(name) if isinstance(name, str) else None
        named = tool.name if tool is not None else shown(name, 200) if isinstance(name, str) else ""
        read = read_arguments(arguments) if tool is None else arguments_for(tool, arguments)
        problem = self._format_unknown(named) if tool is None else _check_arguments(tool, read)
        values = {} if isinstance(read, Misfit) else read

        async def make() -> ToolResult:
            assert tool is not None
            return await _call_tool(tool, values, tool.timeout if timeout is None else timeout)

        return await self._run(_Call(named, values, make, problem, started, tool is not None and tool.is_control))

    async def around(self, name: str, arguments: Any, call: Callable[[], Awaitable[T]]) -> T | ToolResult:
        """Make a call of a tool of a framework, through the same gate and with the same record.

        Returns the value of `call`, or a failed `ToolResult` where the call must not be made. Exceptions of `call` are
        raised, as frameworks use them for their own control flow.

        >>> async def fetch() -> str:
        ...     return "a page"
        >>> import anyio
        >>> from metier.tools import ToolRegistry
        >>> anyio.run(Executor(ToolRegistry()).around, "web_fetch", {"url": "https://example.com"}, fetch)
        'a page'
        """
        started = self._clock()
        named = shown(name, 200) if isinstance(name, str) else ""
        read = read_arguments(arguments)
        problem = None
        if isinstance(read, Misfit):
            problem = ToolResult.failure("invalid-arguments", f"Tool '{named}': {read.problem}", hint=read.hint)
            read = {}
        made: list[T] = []

        async def make() -> ToolResult:
            made.append(await call())
            return _external_result(made[0])

        result = await self._run(_Call(named, read, make, problem, started))
        return made[0] if made else result

    async def record_attempt(self, name: str, arguments: Any, problem: ToolResult | None = None) -> ToolResult | None:
        """Record a call that is not made here: a framework makes it, or nobody can, for a `problem`.

        Nobody is asked. Returns the refusal where it would have been refused, and else None.
        """
        started = self._clock()
        named = shown(name, 200) if isinstance(name, str) else ""
        read = read_arguments(arguments)
        values = {} if isinstance(read, Misfit) else read
        try:
            admission = await self._admit(named, values, asks=False)
            decision = admission.decision
        except Exception as error:
            return self._finish(_format_undecided(named, error), started)
        if decision.outcome == "deny":
            return self._record(admission, _format_refusal(named, decision), started)
        against = None if problem is None else _missing_tool_denial(problem, decision)
        self._record(admission, problem or ToolResult(success=True), started, against)
        return None

    async def _run(self, call: _Call) -> ToolResult:
        """Admit a call, make it, and record its result; with a `problem` it is recorded and not made."""
        is_unknown = call.problem is not None and call.problem.code == _NOT_THERE
        with tool_call("" if is_unknown else call.name) as telemetry:
            result = await self._admit_and_make(call)
            telemetry.ended(None if result.success else result.code or "failed")
            return result

    async def _admit_and_make(self, call: _Call) -> ToolResult:
        name, problem, started = call.name, call.problem, call.started
        try:
            # Nobody is asked about what will not happen, whatever they say.
            admission = await self._admit(name, call.values, is_control=call.is_control, asks=problem is None)
            decision = admission.decision
        except Exception as error:
            return self._finish(_format_undecided(name, error), started)
        if problem is None and not decision.is_allowed:
            problem = _format_refusal(name, decision)
        if problem is not None:
            return self._record(admission, problem, started, _missing_tool_denial(problem, decision))
        try:
            against = await _run_before(admission)
            if against is not None:
                return self._record(admission, _format_refusal(name, against), started, against)
            result = await call.make()
        except BaseException as error:
            await _run_after(admission, self._record_end(admission, name, error, started))
            raise
        # Recorded first: whatever comes afterwards may be cancelled.
        result = self._record(admission, result, started)
        await _run_after(admission, result)
        return result

    def execute_blocking(self, name: str, arguments: Any = None, *, timeout: float | None = None) -> ToolResult:
        """`execute` for programs without an event loop."""
        import anyio
        from anyio.lowlevel import current_token

        try:
            current_token()
        except RuntimeError:  # no event loop runs in this thread
            pass
        else:
            raise InvalidArgument("An event loop is running in this thread.", hint="Use `await executor.execute(...)`.")
        return anyio.run(functools.partial(self.execute, name, arguments, timeout=timeout))

    async def _admit(self, name: str, values: Mapping[str, Any], *, is_control: bool = False, asks: bool) -> Admission:
        if self._gate is None:
            return _OpenAdmission()
        return await self._gate.admit_async(name, values, is_control=is_control, asks=asks)

    def _format_unknown(self, name: str) -> ToolResult:
        names = self.registry.names()
        close = suggestions(name.lower(), [known.lower() for known in names], 1)
        if close:
            guess = next(known for known in names if known.lower() == close[0])
            hint = f"Did you mean '{guess}'?"
        elif names:
            more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
            hint = f"The tools are {', '.join(names[:_MAX_LISTED])}{more}."
        else:
            hint = "There are no tools."
        return ToolResult.failure(_NOT_THERE, f"There is no tool {name!r}.", hint=hint)

    def _finish(self, result: ToolResult, started: float) -> ToolResult:
        """The result for a model: with a hint in its words, and the duration of the call."""
        hint = result.hint
        if isinstance(hint, Hint):
            own = {name: name for name in BUILTIN if name in self.registry}
            hint = for_model(hint, own | self._words)
        return dataclasses.replace(result, hint=hint, duration_ms=max(0.0, (self._clock() - started) * 1000))

    def _record(
        self, admission: Admission, result: ToolResult, started: float, against: Decision | None = None
    ) -> ToolResult:
        result = self._finish(result, started)
        try:
            admission.record(result, against)
        except Exception as error:
            return self._finish(
                ToolResult.failure(
                    "not-recorded",
                    f"The call ended, but no record of it could be made: {type(error).__name__}.",
                    hint="Do not repeat the call; tell the user.",
                ),
                started,
            )
        return result

    def _record_end(self, admission: Admission, name: str, error: BaseException, started: float) -> ToolResult:
        import anyio

        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        if isinstance(error, Exception) and not cancelled:
            return self._record(admission, failure_of(name, error), started)
        ended = ToolResult.failure(
            "cancelled" if cancelled else "interrupted",
            f"The call of '{name}' was {'cancelled' if cancelled else f'interrupted by {type(error).__name__}'}.",
        )
        return self._record(admission, ended, started)


class _Call(NamedTuple):
    """A call that is to be admitted and made."""

    name: str
    values: Mapping[str, Any]
    make: Callable[[], Awaitable[ToolResult]]
    problem: ToolResult | None
    """The reason why it cannot be made; it is recorded all the same."""
    started: float
    is_control: bool = False


class _OpenAdmission:
    """The admission of a call without a gate."""

    decision = unguarded()

    async def before(self) -> None:
        return None

    async def after(self, result: ToolResult) -> None:
        pass

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        pass


def _check_arguments(tool: Tool, read: dict[str, Any] | Misfit) -> ToolResult | None:
    try:
        misfit = read if isinstance(read, Misfit) else schema_of(tool.parameters).misfit(read)
    except InvalidArgument as error:
        return failure_of(tool.name, error)
    if misfit is None:
        return None
    return ToolResult.failure("invalid-arguments", f"Tool '{tool.name}': {misfit.problem}", hint=misfit.hint)


def _format_undecided(name: str, error: Exception) -> ToolResult:
    """The refusal of a call that could not be decided: a gate that fails is closed."""
    if isinstance(error, MetierError):
        return failure_of(name, error)
    return ToolResult.failure(
        "not-decided",
        f"Nothing could be decided about the call of '{name}': {type(error).__name__}.",
        hint="The call was not made; tell the user.",
    )


def _missing_tool_denial(problem: ToolResult, decision: Decision) -> Decision | None:
    """The denial of a call of a tool that does not exist, whatever the rules allow; None for others."""
    if problem.code != _NOT_THERE or not decision.is_allowed:
        return None
    return refuse("no such tool", problem.error or "There is no such tool.", code=_NOT_THERE)


def _format_refusal(name: str, decision: Decision) -> ToolResult:
    return ToolResult.failure(
        decision.code or "tool-not-allowed",
        decision.reason or f"The tool '{name}' may not be used now.",
        hint=decision.hint or "Do it another way, or ask the user.",
    )


async def _run_before(admission: Admission) -> Decision | None:
    try:
        return await admission.before()
    except Exception as error:
        # What cannot be found out is not allowed.
        reason = f"What has to happen before the call failed: {type(error).__name__}."
        return refuse("before the call", reason, code="not-decided", hint="Tell the user.")


async def _run_after(admission: Admission, result: ToolResult) -> None:
    try:
        await admission.after(result)
    except Exception:
        log.exception("what has to happen after a call failed")


async def _call_tool(tool: Tool, values: dict[str, Any], timeout: float | None) -> ToolResult:
    import anyio

    with anyio.move_on_after(timeout):
        try:
            # A copy: what was decided about and is recorded must not change while the tool works.
            return result_of(await tool.call(_copy_arguments(values)))
        except Exception as error:
            return failure_of(tool.name, error)
    return ToolResult.failure(
        "timed-out",
        f"The tool '{tool.name}' timed out after {timeout:g} seconds.",
        hint="Ask for less at a time.",
    )


def _copy_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing which can change; most arguments are texts."""
    for value in values.values():
        if type(value) is not str:
            return copy.deepcopy(values)
    return dict(values)


def _external_result(value: object) -> ToolResult:
    """The value of a framework's own tool, as a result for records and hooks."""
    with contextlib.suppress(Exception):
        return result_of(value)
    return ToolResult(success=True)
