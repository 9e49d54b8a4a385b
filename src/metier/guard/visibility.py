"""Which skills are not there: in quarantine, denied, turned off, or not what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier.guard.checks import BARRING, rules
from metier.guard.decision import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.guard.decision import Subject
    from metier.guard.decision_context import DecisionContext
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.verdict import Verdict
    from metier.store import GovernanceState


class Visibility:
    """Judges any number of skills by one state of policy and store."""

    def __init__(
        self,
        context_of: Callable[[Action], DecisionContext],
        effective: EffectivePolicy,
        states: tuple[GovernanceState, ...],
        *,
        by: Literal["model", "host"],
    ) -> None:
        self._context_of = context_of
        self._by = by
        self._is_enforced = effective.mode == "enforce"
        about = [rule for rule in effective.rules if not rule.points or "discover" in rule.points]
        denies = any(rule.effect == "deny" for rule in about)
        self._checks = (*BARRING, rules) if denies else BARRING
        self.looks_inside = bool(effective.pins) or any(
            state.installs or state.has_refusals or any(kind == "digest" for kind, _ in state.blocked)
            for state in states
        )
        """Whether some may be barred for their content, so that their digests must be known."""

    def __call__(self, subject: Subject) -> bool:
        """Whether a skill is barred."""
        return next(self.against(subject), None) is not None

    def against(self, subject: Subject) -> Iterator[Verdict]:
        """All that bars a skill."""
        context = self._context_of(Action(point="discover", skill=subject, by=self._by))
        for check in self._checks:
            for verdict in check(context):
                if verdict.outcome == "deny" and (self._is_enforced or verdict.is_switch):
                    yield verdict
