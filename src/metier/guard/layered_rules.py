"""The check of tool calls by the tool rules of policy files: a call must be inside those of every file."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.guard.approvals.status import current_status
from metier.guard.decision import Origin, allow, amend
from metier.guard.remedies import ask_somebody, change_policy
from metier.guard.tool_rules.calls import USE_ALLOWED, CallRules
from metier.guard.tool_rules.matching import permits
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.decision import Decision
    from metier.guard.decision_context import DecisionContext
    from metier.guard.policy.effective import EffectivePolicy, ToolLayer

_WHOSE = "tools"


def decide_by_files(context: DecisionContext) -> Iterator[Decision]:
    """The tool rules of each policy file; a question may be answered by what was granted to active skills."""
    action = replace(context.action, ceilings=()) if context.action.ceilings else context.action
    for layer, calls in _call_rules(context.effective):
        decision = calls.decide(action)
        if not decision.check.startswith(_WHOSE):
            continue
        origin = _origin(layer, decision.check)
        if decision.outcome == "ask":
            granted = _granting_approvals(context)
            if granted:
                reason = f"{decision.reason} It was granted to an active skill."
                yield allow(f"approval {granted}", reason, origin=origin)
                continue
        hint = ask_somebody(origin) if decision.outcome == "ask" else change_policy(origin, USE_ALLOWED)
        yield amend(decision, hint=hint, origin=origin)


@functools.lru_cache(16)
def _call_rules(effective: EffectivePolicy) -> tuple[tuple[ToolLayer, CallRules], ...]:
    """The rules of each file, ready to be matched."""
    return tuple(
        (layer, CallRules(layer.allow, layer.ask, layer.deny, whose=_WHOSE)) for layer in effective.tool_layers
    )


def _origin(layer: ToolLayer, rule: str) -> Origin:
    """The line of the rule that decided: `tools: deny Bash(curl:*)` stands in `tools.deny`."""
    key, _, text = rule.removeprefix(f"{_WHOSE}: ").partition(" ")
    line = layer.lines.get((key, text), layer.lines.get((key, ""), layer.origin.line))
    return Origin(layer=layer.origin.layer, path=layer.origin.path, line=line, key=f"tools.{key}")


def _granting_approvals(context: DecisionContext) -> str:
    """The ids of the approvals that grant a call to each of the active skills; "" where one lacks it."""
    action, terms = context.action, context.effective.approval
    granting: list[str] = []
    for ceiling in action.ceilings:
        if not ceiling.owner:
            continue
        approvals = context.states[-1].approvals.get(ceiling.digest, ()) if ceiling.digest else ()
        if not any(one.tools for one in approvals):
            return ""
        found = current_status(approvals, terms, layer=ceiling.layer, environment=context.environment)
        rules = parse_rules(found.tools)
        permitted = bool(rules) and permits(rules, action.tool, action.arguments, workspace=action.workspace).allowed
        if not found.is_approved or not permitted:
            return ""
        granting += found.ids
    return ", ".join(granting)
