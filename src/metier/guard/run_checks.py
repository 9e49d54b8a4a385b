"""Checks about loading, reading and running skills, by the program's policy and the section `run` of policy files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from metier.errors import LockInvalid
from metier.guard.decision import issue, refuse
from metier.guard.remedies import BLOCKED, ISOLATE, RESTORE_LOCKED, TRUST, allow_setting, ask_somebody, change_policy
from metier.hints import WITHOUT_IT, for_people, invoke_skill, run_script
from metier.library.lock_file import locked_skill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.decision import Action, Decision, Origin, Outcome, Subject
    from metier.guard.decision_context import DecisionContext

_UNVOUCHED = ("model", "client")
"""Actors that agree to nothing by asking for it: a model, and a client's program that says it speaks for a person."""


class _Setting(NamedTuple):
    """A setting of `run` that an action falls under, with the words for it."""

    name: str
    """The field of `Policy` and of `RunSettings`."""
    denied: str
    asked: str
    """The reasons of the program's own layer."""
    by_file: str
    """The reason of a policy file, before its outcome."""
    code: str
    hint: str = ""
    """The hint where no other one fits better."""


_KINDS = {
    "run": ("scripts", "Scripts", "A script"),
    "hook": ("hooks", "Hooks", "A hook"),
    "inject": ("injection", "Commands inside instructions", "A command inside instructions"),
}


def blocked(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills that the program blocks, by name or digest."""
    subject = context.action.skill
    if subject is not None and context.action.point != "unload" and subject.is_among(context.program.blocked):
        yield refuse("policy: blocked", f"Skill {subject.name!r} is blocked.", code="skill-blocked", hint=BLOCKED)


def locked(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills whose content is not what the lock file of their project, or of the user, says; without any store."""
    subject = context.action.skill
    if subject is None or not subject.digest or subject.layer not in ("project", "personal"):
        return
    if subject.entry is None or subject.entry.place.source.root is None:
        return
    try:
        locked = locked_skill(context.location)
    except LockInvalid as error:
        if context.effective.mode == "enforce":
            reason = f"Nobody can tell whether skill {subject.name!r} is as it was installed: {error.message}"
            yield refuse("lock", reason, code=error.code, hint=for_people(str(error.hint), model=WITHOUT_IT))
        return
    if locked is not None and subject.digest not in locked.digests:
        yield refuse(
            "lock",
            f"The content of skill {subject.name!r} is not what metier.lock says.",
            code="integrity-failed",
            hint=RESTORE_LOCKED,
        )


def invocation(context: DecisionContext) -> Iterator[Decision]:
    """Deny loads by a model of skills for people, and by people of skills for models."""
    action, subject = context.action, context.action.skill
    if subject is None:
        return
    if action.by == "model" and not subject.for_models:
        yield refuse(
            f"{subject.name}: listing mode manual",
            f"Skill {subject.name!r} is for people to invoke, not for models.",
            code="not-for-models",
            hint=invoke_skill(subject.name),
        )
    if action.by in ("user", "client") and not subject.for_people:
        yield refuse(
            f"{subject.name}: user-invocable",
            f"Skill {subject.name!r} is for models to load, not for people to invoke.",
            code="not-for-people",
            hint="Describe the task, and the agent loads it when it fits.",
        )


def untrusted_commands(context: DecisionContext) -> Iterator[Decision]:
    """Deny hooks and injected commands of skills that nobody vouches for."""
    subject = context.action.skill
    if subject is not None and not subject.trusted:
        setting = _KINDS[context.action.point][0]
        yield refuse(f"policy: {setting} of untrusted skills", _no_voucher(subject), code="skill-untrusted", hint=TRUST)


def program_settings(context: DecisionContext) -> Iterator[Decision]:
    """The settings of the program's policy, narrowed by the policy files that are enforced."""
    settings = _settings(context.action)
    if not settings:
        return
    policy = context.governance.narrowed(context.program.policy)
    for setting in settings:
        outcome: Outcome = getattr(policy, setting.name)
        if outcome == "allow":
            continue
        effective = context.effective
        is_of_file = effective.mode == "enforce" and getattr(effective.run, setting.name) == outcome
        origin = effective.origin(_key(setting)) if is_of_file else None
        if origin is not None and outcome == "ask":
            yield _by_file(setting, outcome, origin)
            continue
        by_default = ISOLATE if setting.name == "unsandboxed" else allow_setting(setting.name)
        hint = ask_somebody(origin) if outcome == "ask" else change_policy(origin) if origin else by_default
        is_to_ask = outcome == "ask" and setting.code != "script-read"
        yield issue(
            outcome,
            f"policy: {setting.name} {outcome}" if origin is None else f"{_key(setting)}: {outcome}",
            setting.asked if outcome == "ask" else setting.denied,
            code="approval-needed" if is_to_ask else setting.code,
            hint=setting.hint or hint,
            origin=origin,
        )


def file_settings(context: DecisionContext) -> Iterator[Decision]:
    """The settings of policy files that are not enforced; those that are have narrowed the program's policy."""
    if context.effective.mode == "enforce":
        return
    for setting in _settings(context.action):
        outcome: Outcome | None = getattr(context.effective.run, setting.name)
        if outcome == "ask" or outcome == "deny":
            yield _by_file(setting, outcome, context.effective.origin(_key(setting)))


def _settings(action: Action) -> list[_Setting]:
    """The settings that an action falls under; none for a load or a read of a trusted skill."""
    found, subject = [], action.skill
    if action.point == "read" and action.command:
        owner = subject.name if subject is not None else "the skill"
        reason = f"{action.path} is a script of skill {owner!r}: run it instead of reading it."
        found.append(_Setting("script_reads", reason, reason, reason, "script-read", run_script(owner, action.path)))
    needs_trust = action.point == "run" or (action.point == "load" and action.by in _UNVOUCHED)
    if needs_trust and subject is not None and not subject.trusted:
        reason = _no_voucher(subject)
        found.append(_Setting("untrusted", reason, reason, reason, "skill-untrusted", TRUST))
    if action.point in _KINDS:
        name, several, one = _KINDS[action.point]
        if subject is None:
            several, one = "Scripts and commands", "A command"
        denied, asked = f"{several} are not allowed here.", f"{several} run only after somebody agreed."
        found.append(_Setting(name, denied, asked, f"{one} would be run.", f"{name}-denied"))
        if not action.isolated:
            reason = "It would run with nothing between it and this machine."
            found.append(_Setting("unsandboxed", reason, reason, reason, "isolation-missing"))
    return found


def _by_file(setting: _Setting, outcome: Outcome, origin: Origin | None) -> Decision:
    return issue(
        outcome,
        f"{_key(setting)}: {outcome}",
        f"{setting.by_file} Policy says {outcome}.",
        code="approval-needed" if outcome == "ask" else setting.code,
        hint=ask_somebody(origin) if outcome == "ask" else change_policy(origin),
        origin=origin,
    )


def _key(setting: _Setting) -> str:
    return f"run.{setting.name.replace('_', '-')}"


def _no_voucher(subject: Subject) -> str:
    return f"Skill {subject.name!r} comes from a place that nobody vouches for."


PROGRAM_CHECKS = {
    "load": (blocked, locked, invocation, program_settings),
    "read": (blocked, locked, program_settings),
    "run": (blocked, locked, program_settings),
    "hook": (blocked, locked, untrusted_commands, program_settings),
    "inject": (blocked, locked, untrusted_commands, program_settings),
}
"""The checks of the program's own layer by the point of decision; for other points `blocked` is the only one.

Calls of tools are checked by `ProgramLayer.call_rules`.
"""
