"""Tool calls of a session: each is decided under what every active skill and the policy allow, and recorded."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.errors import MetierError
from metier.guard import Action
from metier.guard.audited_action import failure_code
from metier.guard.decision import refuse
from metier.session.context import MAX_ID
from metier.session.events import Event
from metier.session.hooks import tool_hooks
from metier.session.resource_grants import skill_folders
from metier.session.token_usage import TokenUsage
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.guard import Decision
    from metier.guard.audited_action import AuditedAction
    from metier.guard.decision import Ceiling
    from metier.guard.files.file_access import FileAccess
    from metier.session.active_skills import ActiveSkill, ActiveSkills
    from metier.session.context import SessionContext
    from metier.session.hooks import HookRunner
    from metier.tools.tool import ToolResult

_NAMING = ("skills", "skill", "skill_name", "skill_id")
"""The arguments by which tools that control skills name them."""


class Calls:
    """Decides about the tool calls of one session: it is the gate of its executor."""

    def __init__(self, context: SessionContext, loaded: ActiveSkills, hooks: HookRunner) -> None:
        self._context = context
        self._loaded = loaded
        self._hooks = hooks
        self.usage = TokenUsage(context)
        """The tokens of the conversation."""
        loaded.on_end.append(lambda one: self.usage.end(one.name))

    def admit(self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False) -> CallAdmission:
        """Decide about a tool call: inside what every active skill and the policy allow, or refused."""
        # Before the look at what is active: for what is loaded from now on, there is another look before the call.
        context, loaded_under = self._context, self._loaded.version
        version, in_force = context.guard.look(context.actor)
        if self._loaded.is_current(version):
            active, seen = self._loaded.held, in_force
        else:
            active, seen = self._loaded.live(), None
        action = self.action(tool, arguments, active, is_control=is_control)
        labels = tuple([one.label for one in active])
        audited = self._refusal_when_closed(action, labels)
        if audited is None:
            audited = context.guard.enter(action, context.actor, labels, in_force=seen)
        self._emit_refusal(action, audited.decision)
        return CallAdmission(self, audited, action, active, (loaded_under, version))

    async def admit_async(
        self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
    ) -> CallAdmission:
        """`admit` without blocking the event loop while a person is asked; without `asks`, nobody is."""
        context, loaded_under = self._context, self._loaded.version
        try:
            version, in_force = context.guard.look(context.actor)
            if self._loaded.is_current(version):
                active, seen = self._loaded.held, in_force
            else:
                active, seen = await self._loaded.live_async(), None
        except BaseException as error:
            self._record_undecided(tool, arguments, error)
            raise
        action = self.action(tool, arguments, active, is_control=is_control)
        labels = tuple([one.label for one in active])
        audited = self._refusal_when_closed(action, labels)
        if audited is None:
            audited = await context.guard.enter_async(action, context.actor, labels, asks=asks, in_force=seen)
        if asks or audited.decision.outcome == "deny":
            self._emit_refusal(action, audited.decision)
        return CallAdmission(self, audited, action, active, (loaded_under, version))

    def may_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a tool call would be allowed now, without asking anybody; nothing is recorded."""
        return self.decide(tool, arguments).is_allowed

    def decide(self, tool: str, arguments: Mapping[str, Any], *more: Ceiling) -> Decision:
        """Return the decision about a tool call as of now; nobody is asked and nothing is recorded."""
        action = self.action(tool, arguments, self._loaded.open, *more)
        return self._context.guard.decide(action, self._context.actor)

    def action(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        active: Sequence[ActiveSkill],
        *more: Ceiling,
        is_control: bool = False,
    ) -> Action:
        """Return a tool call as the guard decides about it, under the ceilings of active skills and those above."""
        context = self._context
        return Action(
            point="call",
            tool=tool,
            arguments=arguments,
            ceilings=() if is_control else (*self._loaded.above, *[one.ceiling for one in active], *more),
            workspace=context.workspace,
            skill_folders=functools.partial(skill_folders, context.index, active),
            skill_names=functools.partial(self._names_in, arguments) if is_control else None,
            is_control=is_control,
        )

    @property
    def rules_version(self) -> tuple[int, int]:
        """A value that changes with everything that decisions about tool calls depend on."""
        return (self._loaded.version, self._context.guard.version_for(self._context.actor))

    def file_access(self) -> FileAccess:
        """Return the files that are closed to tools in the workspace now."""
        context = self._context
        return context.guard.files.access(context.workspace, skill_folders(context.index, self._loaded.live()))

    @property
    def allowed_tools(self) -> frozenset[str] | None:
        """The tools that every active skill with a list that is enforced names; None when none has one."""
        ceilings = (*self._loaded.above, *(one.ceiling for one in self._loaded.open))
        allowed = [one.allowed for one in ceilings if one.allowed is not None and not one.advisory]
        lists = [frozenset(rule.tool for rule in rules) for rules in allowed]
        return frozenset.intersection(*lists) if lists else None

    @property
    def requested_model(self) -> str | None:
        """The model that an active skill asks for, of several the one loaded last; None for the agent's own.

        One that nobody vouches for is not asked: another model is another company that reads the conversation.
        """
        asked = (one.skill.model for one in reversed(self._loaded.open) if one.entry.trusted)
        return next((model for model in asked if model and model.lower() != "inherit"), None)

    def answered_by(self, model: str, tokens: int = 0, *, output: int = 0) -> None:
        """Name the model that gave the answer which is carried out next, and the tokens that took, in and out.

        `output` are those of them that the answer has. Adapters call it after each answer: records and telemetry tell
        of it.
        """
        name = shown(model, MAX_ID)
        with self._loaded.lock:
            if self._context.actor.model != name:
                self._context.actor = replace(self._context.actor, model=name)
        self.usage.add(self._loaded.held, name, tokens, output)

    def _names_in(self, arguments: Mapping[str, Any]) -> list[str]:
        """The names of the skills that a call is about: by another case, a folder, or with their source."""
        found: list[str] = []
        for value in (arguments.get(key) for key in _NAMING):
            names = value if isinstance(value, list | tuple) else (value,)
            for name in dict.fromkeys(name for name in names if isinstance(name, str)):
                with contextlib.suppress(MetierError):
                    found.append(self._context.index.get(name).name)
        return found

    def _refusal_when_closed(self, action: Action, labels: tuple[str, ...]) -> AuditedAction | None:
        # Also what comes too late was asked for.
        context = self._context
        if not context.is_closed:
            return None
        reason, hint = "The session was closed.", "Begin another one."
        return context.guard.refuse(
            action, context.actor, "closed session", reason, code="session-not-found", hint=hint, active=labels
        )

    def _emit_refusal(self, action: Action, decision: Decision) -> None:
        if not decision.is_allowed and self._context.listeners.registered:
            context, code, reason = self._context, decision.code, decision.reason
            event = Event(kind="refused", tool=action.tool, code=code, message=reason, session=context.id)
            context.listeners.tell(event)

    def _record_undecided(self, tool: str, arguments: Mapping[str, Any], error: BaseException) -> None:
        """Record a call about which nothing was decided, as it is unknown what is active."""
        is_unforeseen = isinstance(error, Exception) and not isinstance(error, MetierError)
        reason = f"What is active could not be found out: {type(error).__name__}."
        code = "not-decided" if is_unforeseen else failure_code(error)
        context, action = self._context, self.action(tool, arguments, ())
        context.guard.refuse(action, context.actor, "undecided", reason, code=code).close()


class CallAdmission:
    """The decision about one call, the hooks around it, and its record."""

    def __init__(
        self,
        calls: Calls,
        audited: AuditedAction,
        action: Action,
        active: tuple[ActiveSkill, ...],
        decided_under: tuple[int, int],
    ) -> None:
        self._calls = calls
        self._context = calls._context
        self._audited = audited
        self._action = action
        self._active = active
        self._hooked = () if action.is_control else tuple([one for one in active if one.skill.hooks is not None])
        self._decided_under = decided_under
        self.decision = audited.decision

    async def before(self) -> Decision | None:
        """Run the hooks before the call; a decision against it when one of them fails, or when it is not allowed now.

        While somebody was asked or a hook ran, a skill may have been loaded that does not allow it.
        """
        context, action = self._context, self._action
        if self._hooked and any(tool_hooks(one, "PreToolUse") for one in self._hooked):
            before = self._calls._hooks.before_call
            reason = await context.guard.in_thread(before, self._hooked, action.tool, action.arguments, context.actor)
            if reason is not None:
                context.emit(Event(kind="refused", tool=action.tool, code="hook-refused", message=reason))
                return refuse("hook PreToolUse", reason, code="hook-refused", hint="Do it another way.")
        return None if self._decided_under == self._calls.rules_version else await self._second_look()

    async def _second_look(self) -> Decision | None:
        """Decide again, under what is active now; None while it stays allowed."""
        context, action = self._context, self._action
        context.require_open()
        active = await self._calls._loaded.live_async()
        again = self._calls.action(action.tool, action.arguments, active, is_control=action.is_control)
        now = context.guard.decide(again, context.actor)
        # A yes counts for the question that was put, for the same reason and by the same rule, and for no other.
        return None if now.is_allowed or now == self._audited.agreed_to else now

    async def after(self, result: ToolResult) -> None:
        """Run the hooks after the call, whatever became of it, and wait until its record is on the disk."""
        await self._run_hooks_after(result)
        await self._context.guard.finish_records()

    async def _run_hooks_after(self, result: ToolResult) -> None:
        context, action = self._context, self._action
        if not self._hooked or not any(tool_hooks(one, "PostToolUse") for one in self._hooked):
            return
        import anyio

        response = {"success": result.success, "result": result.result, "error": result.error}
        after = self._calls._hooks.after_call
        with anyio.CancelScope(shield=True):
            await context.guard.in_thread(after, self._hooked, action.tool, action.arguments, response, context.actor)

    def record(self, result: ToolResult, against: Decision | None = None) -> None:
        """Write the one record of the call; `against` is what kept one from being made that had been admitted."""
        if against is not None:
            self._audited.revoke(against)
        given = (result.data.get(name) for name in ("exit_code", "runner", "contacts", "found"))
        exit_code, runner, contacts, found = given
        self._audited.close(
            success=result.success,
            code=result.code or "",
            exit_code=exit_code if isinstance(exit_code, int) else None,
            runner=runner if isinstance(runner, str) else "",
            contacts=[one for one in contacts if isinstance(one, str)] if isinstance(contacts, list) else (),
            found=found if type(found) is int else None,
            **self._calls.usage.take(self._active),
        )
