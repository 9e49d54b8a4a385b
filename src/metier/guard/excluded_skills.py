"""Skills that are barred: the predicate for those that must not be listed or used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier.guard.checks import VISIBILITY_CHECKS, rules
from metier.guard.decision import Action, refuse
from metier.guard.decision_context import DecisionContext
from metier.guard.remedies import BLOCKED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.checks import Check
    from metier.guard.decision import Actor, Decision, Subject
    from metier.guard.governance import Governance, InForce


class ExcludedSkills:
    """Judges any number of skills by one state of policy and store."""

    def __init__(
        self,
        governance: Governance,
        actor: Actor,
        in_force: InForce | None,
        *,
        by: Literal["model", "host"],
        blocked: frozenset[str] = frozenset(),
    ) -> None:
        """Without `in_force`, only the skills that the program `blocked` are barred."""
        self._governance, self._actor, self._in_force = governance, actor, in_force
        self._by, self._blocked = by, blocked
        self._checks: tuple[Check, ...] = VISIBILITY_CHECKS
        self.looks_inside = any(one.startswith("sha256:") for one in blocked)
        """Whether some may be barred for their content, so that their digests must be known."""
        if in_force is None:
            return
        effective, states, _ = in_force
        self._is_enforced = effective.mode == "enforce"
        about = (rule for rule in effective.rules if not rule.points or "discover" in rule.points)
        if any(rule.effect == "deny" for rule in about):
            self._checks = (*VISIBILITY_CHECKS, rules)
        self.looks_inside |= bool(effective.pins) or any(
            state.installs or state.has_refusals or any(kind == "digest" for kind, _ in state.blocked)
            for state in states
        )

    def __call__(self, subject: Subject) -> bool:
        """Whether a skill is barred."""
        return next(self.against(subject), None) is not None

    def against(self, subject: Subject) -> Iterator[Decision]:
        """All decisions against a skill."""
        if subject.is_among(self._blocked):
            yield refuse("policy: blocked", f"Skill {subject.name!r} is blocked.", code="skill-blocked", hint=BLOCKED)
        if self._in_force is None:
            return
        context = DecisionContext(
            action=Action(point="discover", skill=subject, by=self._by),
            actor=self._actor,
            governance=self._governance,
        )
        context.bind(self._in_force)
        for check in self._checks:
            for decision in check(context):
                if decision.outcome == "deny" and (self._is_enforced or decision.holds_always):
                    yield decision
