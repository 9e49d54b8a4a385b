"""A tool call on its way through a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.decision import refuse
from metier.session.events import Event
from metier.session.hooks import tool_hooks

if TYPE_CHECKING:
    from metier.guard import Action, AuditedAction, Decision
    from metier.session.active_skills import ActiveSkill
    from metier.session.use import Use
    from metier.tools.tool import ToolResult


class CallAdmission:
    """The decision about one call, the hooks around it, and its record."""

    def __init__(
        self,
        session: Use,
        audited: AuditedAction,
        action: Action,
        active: tuple[ActiveSkill, ...],
        decided_under: tuple[int, int],
    ) -> None:
        self._session = session
        self._audited = audited
        self._action = action
        self._active = () if action.is_control else active
        self._decided_under = decided_under
        self.decision = audited.decision

    async def before(self) -> Decision | None:
        """Run the hooks before the call; a decision against it when one of them fails."""
        against = await self._hooks()
        if against is None and self._decided_under != self._session.rules_version:
            # While somebody was asked or a hook ran, a skill may have been loaded that does not allow it.
            return await self._second_look()
        return against

    async def _second_look(self) -> Decision | None:
        session, action, agreed_to = self._session, self._action, self._audited.agreed_to
        session.require_open()
        active = await session.current()
        again = session.call_of(action.tool, action.arguments, active, is_control=action.is_control)
        now = session.guard.decide(again, session.actor)
        # A yes counts for the question that was put, for the same reason and by the same rule, and for no other.
        return None if now.is_allowed or now == agreed_to else now

    async def _hooks(self) -> Decision | None:
        if not any(tool_hooks(one, "PreToolUse") for one in self._active):
            return None
        session, action = self._session, self._action
        reason = await session.guard.in_thread(
            session.hook_runner.before_call, self._active, action.tool, action.arguments, session.actor
        )
        if reason is None:
            return None
        session.emit(Event(kind="refused", tool=action.tool, code="hook-refused", message=reason))
        return refuse("hook PreToolUse", reason, code="hook-refused", hint="Do it another way.")

    async def after(self, result: ToolResult) -> None:
        """Run the hooks after the call, whatever became of it."""
        if not any(tool_hooks(one, "PostToolUse") for one in self._active):
            return
        import anyio

        told = {"success": result.success, "result": result.result, "error": result.error}
        session, action = self._session, self._action
        with anyio.CancelScope(shield=True):
            await session.guard.in_thread(
                session.hook_runner.after_call, self._active, action.tool, action.arguments, told, session.actor
            )

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        """Write the one record of the call; `against` is what kept one from being made that had been admitted."""
        if against is not None:
            self._audited.revoke(against)
        exit_code, runner, contacts = (result.data.get(name) for name in ("exit_code", "runner", "contacts"))
        self._audited.close(
            success=result.success,
            code=result.code or "",
            exit_code=exit_code if isinstance(exit_code, int) else None,
            runner=runner if isinstance(runner, str) else "",
            contacts=[one for one in contacts if isinstance(one, str)] if isinstance(contacts, list) else (),
        )
