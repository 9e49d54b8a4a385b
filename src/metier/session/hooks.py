"""Hooks: commands that a skill asks to have run around its use and around tool calls. Policy decides whether they are.

A command names a file of the skill, or a program, with arguments; no shell takes it apart. A hook that runs before
something and fails keeps it from happening; one that runs after something is run whatever happened. A skill whose hook
`pre`, its check, may not run is not used, unless policy says that skills may be used without theirs.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field, logger
from metier.errors import ActivationFailed, MetierError, Refused
from metier.guard import Action, Decision
from metier.guard.decision import refuse
from metier.hints import WITHOUT_IT, Hint, for_anybody, joined
from metier.run import Job, Limits, job_environment, skill_variables
from metier.session.autonomy import milliseconds
from metier.session.job_sandbox import close_with
from metier.session.runs import limits_for, script_job
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.guard import Actor, Policy
    from metier.guard.audited_action import AuditedAction
    from metier.run import Outcome
    from metier.session.active_skills import ActiveSkill
    from metier.session.context import SessionContext
    from metier.session.copies import Copies
    from metier.session.job_sandbox import JobSandbox
    from metier.skill import HookGroup

log = logger("metier.session")

HOOK_SECONDS = 30.0
_HOW_TO_CHECK = Hint(
    "Policy(hooks='allow') lets checks run; Policy(unchecked='allow') lets skills be used without.",
    person="In a policy file, `run: {{hooks: allow}}` lets checks run; `run: {{unchecked: allow}}` lets skills be used "
    "without.",
    model=WITHOUT_IT,
)
_SIMPLE = re.compile(r"[\w\-*| ]*")
_VARIABLE = re.compile(r"\$(?:\{([A-Z_]+)\}|([A-Z_]+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One hook that is to run: of which skill, for which event, and what it is told on its standard input."""

    active: ActiveSkill
    command: str
    event: str
    actor: Actor
    told: Mapping[str, Any] = field(default_factory=dict)
    timeout: str | None = None
    """The time that it may take, as the skill writes it."""


class HookRunner:
    """Runs the hooks of the skills of one session."""

    def __init__(self, context: SessionContext, copies: Copies, sandbox: JobSandbox) -> None:
        self._context = context
        self._copies = copies
        self._sandbox = sandbox
        self._done: set[tuple[str, str, str]] = set()
        self._doing_once = threading.Lock()

    def before_load(self, active: ActiveSkill, actor: Actor) -> None:
        """Run `pre`; raises `ActivationFailed` when it fails."""
        hooks = active.skill.hooks
        if hooks is None or not hooks.pre:
            return
        try:
            failure = self._run(HookRun(active=active, command=hooks.pre, event="pre", actor=actor))
        except Refused as error:
            decision = error.context["decision"]
            if error.code == "approval-pending" or not isinstance(decision, Decision):
                raise
            require_checked(active.name, hooks.pre, decision, self._context.guard.policy)
            log.warning("loading %s without its check: %s", active.name, decision.reason)
            return
        if failure is not None:
            raise ActivationFailed(
                f"Skill {active.name!r} cannot be activated: its pre hook failed. {failure}",
                hint=Hint("Look at the hook: a skill whose preparation failed is not loaded.", model=WITHOUT_IT),
                name=active.name,
            )

    def after_unload(self, active: ActiveSkill, actor: Actor) -> None:
        """Run `post`, which never fails whatever it does."""
        hooks = active.skill.hooks
        if hooks is None or not hooks.post:
            return
        failure = self._run_if_allowed(HookRun(active=active, command=hooks.post, event="post", actor=actor))
        if failure is not None:
            log.warning("the post hook of %s failed: %s", active.name, failure)

    def before_call(
        self, actives: tuple[ActiveSkill, ...], tool: str, arguments: Mapping[str, Any], actor: Actor
    ) -> str | None:
        """Run the hooks before a tool call; the reason why the call must not happen, if one fails."""
        told = {"tool_name": tool, "tool_input": dict(arguments)}
        for active, failure in self._run_for_call(actives, "PreToolUse", actor, told):
            return f"A hook of skill {active.name!r} is against it. {failure}"
        return None

    def after_call(
        self,
        actives: tuple[ActiveSkill, ...],
        tool: str,
        arguments: Mapping[str, Any],
        result: Any,
        actor: Actor,
    ) -> None:
        """Run the hooks after a tool call, whatever became of it."""
        told = {"tool_name": tool, "tool_input": dict(arguments), "tool_response": result}
        for active, failure in self._run_for_call(actives, "PostToolUse", actor, told):
            log.warning("a hook of %s after %s failed: %s", active.name, tool, failure)

    def _run_for_call(
        self, actives: tuple[ActiveSkill, ...], event: str, actor: Actor, told: Mapping[str, Any]
    ) -> Iterator[tuple[ActiveSkill, str]]:
        """Run the hooks around a tool call one after the other; yields each that fails, with the reason."""
        for active in actives:
            groups = (group for group in tool_hooks(active, event) if _matches(group.matcher, told["tool_name"]))
            for hook in (hook for group in groups for hook in group.hooks):
                run = HookRun(
                    active=active, command=hook.command, event=event, actor=actor, told=told, timeout=hook.timeout
                )
                failure = self._run_once(run) if hook.once else self._run_if_allowed(run)
                if failure is not None:
                    yield active, failure

    def _run_once(self, run: HookRun) -> str | None:
        key = (run.active.digest, run.event, run.command)
        # One at a time, and done only when it went well: a second call must not slip past a hook that is against it.
        with self._doing_once:
            if key in self._done:
                return None
            failure = self._run_if_allowed(run)
            if failure is None:
                self._done.add(key)
            return failure

    def _run_if_allowed(self, run: HookRun) -> str | None:
        """`_run`; one that policy does not let run is left out."""
        try:
            return self._run(run)
        except Refused as error:
            if error.code == "approval-pending":
                raise
            return None

    def _run(self, run: HookRun) -> str | None:
        """Run one hook; None when it went well, else why not. Raises `Refused` for one that policy does not let run."""
        action = Action(
            point="hook",
            skill=run.active.subject,
            tool=run.event,
            command=run.command,
            by="host",
            isolated=self._sandbox.isolates(run.active),
        )
        audited = self._context.guard.enter(action, run.actor)
        if not audited.decision.is_allowed:
            audited.close()
            raise audited.decision.as_error()
        try:
            outcome = self._carry_out(run, audited, isolated=action.isolated)
        except MetierError as error:
            audited.close(success=False, code=error.code)
            return for_anybody(error, error.hint)
        except BaseException:
            audited.close(success=False, code="failed")
            raise
        close_with(audited, outcome)
        if outcome.is_success:
            return None
        said = shown((outcome.stderr or outcome.stdout).strip(), 400)
        how = "timed out" if outcome.timed_out else f"ended with exit code {outcome.exit_code}"
        return f"`{shown(run.command)}` {how}{': ' + said if said else ''}."

    def _carry_out(self, run: HookRun, audited: AuditedAction, *, isolated: bool) -> Outcome:
        context, active = self._context, run.active
        workspace = context.workspace
        limits = limits_for(_seconds(run.timeout), Limits())
        stdin = _as_json({"hook_event_name": run.event, "session_id": context.id, **run.told})
        with self._copies.of(active) as root:
            values = skill_variables(workspace=workspace, skill_dir=root, session_id=context.id)
            words = _words(run.command, values)
            path = active.listing.named_by(words[0].removeprefix(f"{root}/"))
            if path is not None:
                job = script_job(
                    root,
                    path,
                    tuple(words[1:]),
                    workspace=workspace,
                    folder=workspace,
                    session_id=context.id,
                    limits=limits,
                    stdin=stdin,
                )
            else:
                env = job_environment(workspace=workspace, skill_dir=root, session_id=context.id)
                job = Job(argv=tuple(words), folder=workspace, env=env, limits=limits, stdin=stdin)
            sandboxed = self._sandbox.for_skill(job, active, isolated=isolated)
            sandboxed.announce(audited)
            return sandboxed.run_blocking()


def require_checked(name: str, command: str, decision: Decision, policy: Policy) -> None:
    """Raise `Refused` for a skill whose check does not run, unless policy lets skills be used without theirs."""
    if policy.unchecked == "allow":
        return
    reason = f"Skill {name!r} is not used without its check `{shown(command)}`, which does not run here."
    hint = joined(decision.hint, _HOW_TO_CHECK)
    raise refuse(decision.rule, f"{reason} {decision.reason}", code=decision.code, hint=hint).as_error()


def tool_hooks(active: ActiveSkill, event: str) -> tuple[HookGroup, ...]:
    """The hooks of a skill around tool calls. An old `pre` or `post` is one around loading, and not among them."""
    hooks = active.skill.hooks
    if hooks is None:
        return ()
    old = {"PreToolUse": hooks.pre, "PostToolUse": hooks.post}.get(event)
    groups = hooks.events.get(event, ())
    if old and len(groups) == 1 and groups[0].matcher is None and [hook.command for hook in groups[0].hooks] == [old]:
        return ()
    return groups


def _matches(matcher: str | None, tool: str) -> bool:
    """Whether hooks are meant for a tool: `Write`, `Write|Edit`, `mcp__*`, or nothing for all.

    Others write regular expressions. Simple ones mean the same here; what is not understood is taken to match, since a
    hook that is against a call must not be passed by.
    """
    if matcher is None or matcher in ("", "*"):
        return True
    matcher = matcher.strip().removeprefix("^").removesuffix("$").strip("()").replace(".*", "*")
    if not _SIMPLE.fullmatch(matcher):
        return True
    from fnmatch import fnmatchcase

    parts = [part.strip() for part in matcher.split("|")]
    return any(
        canonical_tool(part) == canonical_tool(tool) or fnmatchcase(tool.lower(), part.lower()) for part in parts
    )


def _seconds(written: str | None) -> float:
    """The seconds that a hook may take; a number without a unit is seconds."""
    if not written:
        return HOOK_SECONDS
    return (milliseconds(written) or milliseconds(f"{written}s") or HOOK_SECONDS * 1000) / 1000


def _as_json(facts: Mapping[str, Any]) -> bytes:
    """The standard input of a hook; a result that JSON cannot hold becomes text."""
    try:
        return json.dumps(facts, default=str).encode()
    except (TypeError, ValueError, RecursionError):
        return json.dumps({key: shown(f"{value!r:.2000}", 2_000) for key, value in facts.items()}).encode()


def _words(command: str, values: Mapping[str, str]) -> list[str]:
    """The words of a command with our variables in them; no value can become more than the word it stands in."""
    try:
        words = shlex.split(command)
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>()`")
        lexer.whitespace_split = True
        is_for_shell = any(not word.strip(";|&<>()`") for word in lexer if word)
    except ValueError:
        words, is_for_shell = [], False
    if not words:
        raise ActivationFailed(f"The hook {shown(command)!r} is no command.", hint="Name a file of the skill.")
    if is_for_shell or "$(" in command or "`" in command:
        # Run as words, it would do something else than it says, and report success.
        raise ActivationFailed(
            f"The hook {shown(command)!r} is written for a shell, and no shell runs it.",
            hint="Put it into a script of the skill, and name that.",
        )
    return [_VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), word) for word in words]
