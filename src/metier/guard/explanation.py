"""Explanations of decisions: the check that decided, and all others that have a say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass, replace
from metier.guard.decision import STRICTNESS, Action
from metier.hints import for_person
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from metier.guard.decision import Actor, Decision, Outcome
    from metier.guard.guard import Guard

_NOTHING_AGAINST = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The decision about an action, with its reasons."""

    outcome: Outcome
    would: Outcome | None = None
    """The outcome that a policy in audit mode would enforce."""
    reason: str
    rule: str
    """The check that decided, with file and line where a policy file did."""
    hint: str = ""
    mode: str = "enforce"
    policy: str = ""
    """The digest of all policy files together."""
    considered: tuple[Decision, ...] = ()
    """The decisions of all checks that have a say, in their order."""

    def before(self, later: Explanation) -> Explanation:
        """The explanation of something that this has to come before: the stricter of both decides, and both count."""
        own = [one for one in self.considered if one not in later.considered]
        decides = self if STRICTNESS[self.would or self.outcome] > STRICTNESS[later.would or later.outcome] else later
        return replace(decides, considered=(*own, *later.considered))

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON has it."""
        return {
            "decision": self.outcome,
            "would": self.would,
            "reason": self.reason,
            "rule": self.rule,
            "hint": for_person(self.hint),
            "mode": self.mode,
            "policy": self.policy,
            "considered": [
                {
                    "check": one.check,
                    "decision": one.outcome,
                    "reason": one.reason,
                    "code": one.code,
                    "origin": asdict(one.origin) if one.origin is not None else None,
                }
                for one in self.considered
            ],
        }


def explain(guard: Guard, action: Action, actor: Actor) -> Explanation:
    """The explanation of a guard's decision about an action; asks nobody and records nothing.

    >>> from metier.guard import Action, Actor, Guard, MemoryLog
    >>> from metier.guard.governance import Governance
    >>> from metier.guard.policy.files import Policies
    >>> files = Policies(texts=[("enterprise", "version: 1\\ntools:\\n  deny: [WebFetch]")])
    >>> guard = Guard(governance=Governance(files, store=None), audit=MemoryLog())
    >>> explain(guard, Action(point="call", tool="WebFetch"), Actor()).rule
    'tools: deny WebFetch (<enterprise policy 1>:3 (enterprise))'
    """
    decision = guard.decide(action, actor)
    considered = guard.consider(guard.context(action, actor))
    if all(one.rule != decision.rule for one in considered) and decision.rule != _NOTHING_AGAINST:
        # Neither a file nor an approval: the program's own policy, or what the skill says of itself.
        considered = [decision, *considered]
    effective = guard.governance.effective
    would = decision.would if effective.mode == "audit" else None
    blamed = next((one for one in considered if one.outcome == would), decision)
    return Explanation(
        outcome=decision.outcome,
        would=would,
        reason=blamed.reason,
        rule=blamed.rule,
        hint=blamed.hint,
        mode=effective.mode,
        policy=effective.digest,
        considered=tuple(considered),
    )


def run_of_call(action: Action) -> Action | None:
    """The run that a call of our own Bash comes to, about which policy is asked too; None for other tools."""
    if action.point != "call" or canonical_tool(action.tool) != "bash":
        return None
    return Action(point="run", command=str(action.arguments.get("command", "")), by=action.by)
