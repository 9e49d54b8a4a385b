"""A tool call on its way through a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.guard import Decision
from metier.session.events import Event
from metier.session.hooks import tool_hooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard import Passage
    from metier.session.active import ActiveSkill
    from metier.session.use import Use
    from metier.tools.tool import ToolResult


class CallAdmission:
    """The decision about one call, the hooks around it, and its record."""

    def __init__(
        self,
        session: Use,
        passage: Passage,
        active: tuple[ActiveSkill, ...],
        tool: str,
        arguments: Mapping[str, Any],
        decided_under: tuple[int, int],
        *,
        is_control: bool = False,
    ) -> None:
        self._session = session
        self._passage = passage
        self._active = active
        self._tool = tool
        self._arguments = arguments
        self._decided_under = decided_under
        self._is_control = is_control
        self.decision = passage.decision

    async def before(self) -> Decision | None:
        """Run the hooks before the call; a decision against it when one of them fails."""
        against = await self._hooks()
        if against is None and not self._is_control and self._decided_under != self._session.rules_version:
            # While somebody was asked or a hook ran, a skill may have been loaded that does not allow it.
            now = self._session.decide_call(self._tool, self._arguments)
            return None if now.is_allowed else now
        return against

    async def _hooks(self) -> Decision | None:
        if not any(tool_hooks(one, "PreToolUse") for one in self._active):
            return None
        import anyio.to_thread

        session = self._session
        reason = await anyio.to_thread.run_sync(
            session.hook_runner.before_call, self._active, self._tool, self._arguments, session.actor
        )
        if reason is None:
            return None
        session.emit(Event(kind="refused", tool=self._tool, code="hook-refused", message=reason))
        return Decision(
            outcome="deny", reason=reason, rule="hook PreToolUse", code="hook-refused", hint="Do it another way."
        )

    async def after(self, result: ToolResult) -> None:
        """Run the hooks after the call, whatever became of it."""
        if not any(tool_hooks(one, "PostToolUse") for one in self._active):
            return
        import anyio
        import anyio.to_thread

        told = {"success": result.success, "result": result.result, "error": result.error}
        session = self._session
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(
                session.hook_runner.after_call, self._active, self._tool, self._arguments, told, session.actor
            )

    def record(self, result: ToolResult) -> None:
        """Write the one record of the call."""
        exit_code, runner = result.data.get("exit_code"), result.data.get("runner")
        self._passage.close(
            success=result.success,
            code=result.code or "",
            exit_code=exit_code if isinstance(exit_code, int) else None,
            runner=runner if isinstance(runner, str) else "",
        )
