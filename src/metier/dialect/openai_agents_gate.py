"""What stands before the tools that an agent of the OpenAI Agents SDK has from elsewhere, and before its handoffs."""

from __future__ import annotations

import copy
import inspect
import shlex
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from agents import ApplyPatchTool, CustomTool, FunctionTool, Handoff, LocalShellTool, ShellTool, handoff
from agents.editor import ApplyPatchResult

from metier.dialect.providers import as_text
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agents import Agent, HandoffInputData, RunContextWrapper, Tool

    from metier.dialect.skills import Kit

AnyTool = TypeVar("AnyTool")

_refusal: ContextVar[str | None] = ContextVar("metier_refusal", default=None)
"""Why the handoff that is under way is not made."""


def gated(tool: Tool, kit: Kit) -> Tool | None:
    """A tool of the agent behind the gate; None for one that cannot be put there and must not be used now."""
    if isinstance(tool, FunctionTool):
        return _changed(tool, on_invoke_tool=_around(kit, tool.name, tool.on_invoke_tool, lambda _, given: given))
    if isinstance(tool, CustomTool):
        invoke = _around(kit, tool.name, tool.on_invoke_tool, lambda _, given: {"input": given})
        return _changed(tool, on_invoke_tool=invoke)
    if isinstance(tool, ShellTool) and tool.executor is not None:
        run = _around(kit, tool.name, tool.executor, lambda call: {"command": "\n".join(call.data.action.commands)})
        return _changed(tool, executor=run)
    if isinstance(tool, LocalShellTool):
        run = _around(kit, tool.name, tool.executor, lambda call: {"command": _joined(call.data.action.command)})
        return _changed(tool, executor=run)
    if isinstance(tool, ApplyPatchTool):
        return _changed(tool, editor=_Editor(tool.editor, kit))
    return tool if kit.may_offer(tool.name) else None


def _around(
    kit: Kit, name: str, call: Callable[..., Any], arguments: Callable[..., Any], refused: Any = as_text
) -> Callable[..., Awaitable[Any]]:
    async def decided(*given: Any) -> Any:
        async def made() -> Any:
            found = call(*given)
            return await found if inspect.isawaitable(found) else found

        result = await kit.around(name, arguments(*given), made)
        return refused(result) if isinstance(result, ToolResult) else result

    return decided


class _Editor:
    """An editor of files behind the gate."""

    def __init__(self, editor: Any, kit: Kit) -> None:
        def decided(name: str, call: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
            return _around(kit, name, call, lambda operation: {"path": operation.path}, _failed)

        self.create_file = decided("Write", editor.create_file)
        self.update_file = decided("Edit", editor.update_file)
        self.delete_file = decided("Write", editor.delete_file)


def _failed(result: ToolResult) -> ApplyPatchResult:
    return ApplyPatchResult(status="failed", output=as_text(result))


def _changed(tool: AnyTool, **changes: Any) -> AnyTool:
    changed = copy.copy(tool)
    vars(changed).update(changes)
    return changed


def _joined(command: list[str]) -> str:
    return shlex.join(command)


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
