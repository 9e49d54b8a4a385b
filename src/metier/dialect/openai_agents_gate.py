"""The gate before the tools that an agent of the OpenAI Agents SDK has from elsewhere, and before its handoffs."""

from __future__ import annotations

import copy
import functools
import inspect
import shlex
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agents import (
    ApplyPatchTool,
    Computer,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    LocalShellTool,
    ShellTool,
    handoff,
    resolve_computer,
)
from agents.editor import ApplyPatchResult

from metier.dialect.providers import as_text
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from agents import Agent, HandoffInputData, LocalShellCommandRequest, RunContextWrapper, ShellCommandRequest, Tool
    from agents.editor import ApplyPatchOperation

    from metier.dialect.openai_agents_answers import AnswerChanges
    from metier.dialect.skills import Kit

    _Calls: TypeAlias = list[tuple[str, Any]]
    """Calls that are decided about: tools and arguments."""

AnyTool = TypeVar("AnyTool")

MAX_COMMANDS = 20
"""Commands of one call that are decided about one by one; with more, only rules about all commands allow it."""

_BLANK = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
"""A picture of nothing."""

_TOO_EARLY = ToolResult.failure(
    "not-decided", "Skills were to be loaded first, and that never began.", hint="Call it again."
)

_refusal: ContextVar[str | None] = ContextVar("metier_refusal", default=None)
"""The reason against the handoff that is under way."""


async def gated(tool: Tool, kit: Kit, changes: AnswerChanges, run: RunContextWrapper[Any]) -> Tool | None:
    """A tool of the agent behind the gate; None for one that cannot be put there and must not be used now.

    What is no function waits for the `changes` of the same answer.
    """
    if isinstance(tool, FunctionTool):
        invoke = _around(_Gate(kit), _raising(tool.on_invoke_tool), lambda _, given: [(tool.name, given)])
        return _changed(tool, on_invoke_tool=invoke)
    gate = _Gate(kit, changes)
    if isinstance(tool, CustomTool):
        invoke = _around(gate, tool.on_invoke_tool, lambda _, given: [(tool.name, {"input": given})])
        return _changed(tool, on_invoke_tool=invoke)
    if isinstance(tool, ShellTool) and tool.executor is not None:
        return _changed(tool, executor=_around(gate, tool.executor, lambda call: _commands(tool.name, call)))
    if isinstance(tool, LocalShellTool):
        return _changed(tool, executor=_around(gate, tool.executor, lambda call: [(tool.name, _command(call))]))
    if isinstance(tool, ApplyPatchTool):
        return _changed(tool, editor=_Editor(tool.editor, gate))
    if isinstance(tool, ComputerTool):
        if kit.session.calls.decide(tool.name, {}).outcome == "deny":
            # No single refusal can be told to the model, whose answer is a picture.
            return None
        # Where a factory makes one for every run, the SDK keeps it with the tool that it was given.
        computer = await resolve_computer(tool=tool, run_context=run)
        return _changed(tool, computer=_Computer(computer, gate, tool.name))
    names = [tool.name]
    if isinstance(tool, HostedMCPTool):
        names.append(f"mcp__{tool.tool_config['server_label']}")
    return tool if all(map(kit.may_offer, names)) else None


class _Gate(NamedTuple):
    """The gate of calls of the agent's other tools."""

    kit: Kit
    changes: AnswerChanges | None = None
    """The calls that have to end before."""

    async def around(self, calls: _Calls, made: Callable[[], Awaitable[Any]]) -> Any:
        """Do something that is several calls to those who decide, all of which must be allowed."""
        if self.changes is not None and not await self.changes.are_over():
            for name, arguments in calls:
                await self.kit.attempted(name, arguments, _TOO_EARLY)
            return _TOO_EARLY
        for name, arguments in reversed(calls):
            made = functools.partial(self.kit.around, name, arguments, made)
        return await made()


def _around(
    gate: _Gate, make: Callable[..., Any], calls: Callable[..., _Calls], refused: Any = as_text
) -> Callable[..., Awaitable[Any]]:
    """An action of an agent behind the gate; `calls` describes it to those who decide."""

    async def decided(*given: Any, **more: Any) -> Any:
        async def made() -> Any:
            found = make(*given, **more)
            return await found if inspect.isawaitable(found) else found

        try:
            result = await gate.around(calls(*given, **more), made)
        except _Failed as failed:
            return failed.told
        return refused(result) if isinstance(result, ToolResult) else result

    return decided


class _Failed(Exception):
    """A function failed, so that its record says so; the model is told what the SDK makes of that."""

    def __init__(self, error: Exception, told: Any) -> None:
        super().__init__(str(error))
        self.told = told


def _raising(invoke: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same, but a failure that the SDK turns into a text for the model is raised as well."""
    tell = getattr(invoke, "_on_handled_error", None)
    if tell is None:
        return invoke

    async def invoked(*given: Any) -> Any:
        errors: list[Exception] = []

        def noted(tool: Any, error: Exception, *more: Any) -> None:
            errors.append(error)
            tell(tool, error, *more)

        told = await _changed(invoke, _on_handled_error=noted)(*given)
        if errors:
            raise _Failed(errors[0], told) from errors[0]
        return told

    return invoked


def _commands(tool: str, call: ShellCommandRequest) -> _Calls:
    """Each of several commands: together they would be read otherwise than they are run, one after the other."""
    commands = call.data.action.commands
    if 0 < len(commands) <= MAX_COMMANDS:
        return [(tool, {"command": command}) for command in commands]
    return [(tool, {"commands": commands})]


def _command(call: LocalShellCommandRequest) -> dict[str, Any]:
    """The command, and all else that the model says about how it is run."""
    action = call.data.action
    more = {"env": action.env, "user": action.user, "working_directory": action.working_directory}
    return {"command": shlex.join(action.command), **{name: given for name, given in more.items() if given}}


class _Editor:
    """An editor of files behind the gate."""

    def __init__(self, editor: Any, gate: _Gate) -> None:
        def decided(name: str, make: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
            return _around(gate, make, lambda operation: _changes(name, operation), _failed)

        self.create_file = decided("Write", editor.create_file)
        self.update_file = decided("Edit", editor.update_file)
        self.delete_file = decided("Write", editor.delete_file)


def _changes(tool: str, operation: ApplyPatchOperation) -> _Calls:
    """The effects of an operation on its file, and on the one that it moves it to."""
    path, diff, move_to = operation.path, operation.diff, operation.move_to
    calls: _Calls = [(tool, {"path": path} if diff is None else {"path": path, "diff": diff})]
    # A call of its own, as rules about one file say nothing of another.
    return calls if move_to is None else [*calls, ("Write", {"path": move_to})]


def _failed(result: ToolResult) -> ApplyPatchResult:
    return ApplyPatchResult(status="failed", output=as_text(result))


class _Computer:
    """A computer behind the gate: what is refused is not done, and a screen that must not be seen is blank."""

    def __init__(self, computer: Any, gate: _Gate, tool: str) -> None:
        self._plain = computer
        for action in Computer.__abstractmethods__:
            vars(self)[action] = self._decided(action, gate, tool)

    def _decided(self, action: str, gate: _Gate, tool: str) -> Callable[..., Awaitable[Any]]:
        def calls(*given: Any, **more: Any) -> _Calls:
            return [(tool, {"action": action, "arguments": given, **more})]

        make = getattr(self._plain, action)
        # Its signature counts: the SDK looks there for what a computer can do.
        return functools.wraps(make)(_around(gate, make, calls, lambda _: _BLANK if action == "screenshot" else None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


Computer.register(_Computer)


def _changed(tool: AnyTool, **changes: Any) -> AnyTool:
    changed = copy.copy(tool)
    vars(changed).update(changes)
    return changed


class _Gated(Handoff[Any, Any]):
    """A handoff behind the gate. Where it is refused the agent hands off to itself, and is told why."""

    plain: Handoff[Any, Any]
    giver: Agent[Any]

    def get_transfer_message(self, agent: Any) -> str:
        return _refusal.get() or self.plain.get_transfer_message(agent)


def gated_handoff(
    to: Agent[Any] | Handoff[Any, Any], giver: Agent[Any], kit_of: Callable[[RunContextWrapper[Any]], Awaitable[Kit]]
) -> Handoff[Any, Any]:
    """A handoff of an agent, decided about like a call of the tool that it is to the model."""
    if isinstance(to, _Gated):
        if to.giver is giver:
            return to
        to = to.plain
    plain: Handoff[Any, Any] = to if isinstance(to, Handoff) else handoff(to)

    async def invoke(run: RunContextWrapper[Any], arguments: str) -> Any:
        kit = await kit_of(run)
        found = await kit.around(plain.tool_name, arguments, lambda: plain.on_invoke_handoff(run, arguments))
        _refusal.set(as_text(found) if isinstance(found, ToolResult) else None)
        return giver if isinstance(found, ToolResult) else found

    async def filtered(data: HandoffInputData) -> HandoffInputData:
        # Who goes on by itself has to go on with all that it knew.
        found: Any = data if _refusal.get() or plain.input_filter is None else plain.input_filter(data)
        kept: HandoffInputData = await found if inspect.isawaitable(found) else found
        return kept

    input_filter = None if plain.input_filter is None else filtered
    made = _changed(plain, plain=plain, giver=giver, on_invoke_handoff=invoke, input_filter=input_filter)
    made.__class__ = _Gated
    return made
