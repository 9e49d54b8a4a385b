"""What one consideration says to an action, and where that is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metier.guard.decision import Decision

if TYPE_CHECKING:
    from metier.guard.decision import Outcome
    from metier.guard.policy.file import Origin

STRICTNESS: dict[Outcome, int] = {"allow": 0, "ask": 1, "deny": 2}
INTEGRITY = "integrity check"
"""The name in place of a person's for what is out of use because it is not what was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One consideration among those that make a decision.

    >>> Verdict(check="skills.reserved", outcome="deny", reason="The name is reserved.").as_decision().rule
    'skills.reserved'
    """

    check: str
    """What was looked at: `quarantine`, `skills`, `approval`, `rule R2`."""
    outcome: Outcome
    reason: str
    code: str = ""
    hint: str = ""
    origin: Origin | None = None
    """The line of a policy file that says so."""
    is_switch: bool = False
    """Whether it holds in every mode: somebody pulled the emergency brake."""
    needs_grant: bool = False
    """Whether an approval of this content would settle it."""
    is_automatic: bool = False
    """Whether it is allowed because policy approves of such content by itself."""

    @property
    def rule(self) -> str:
        """What decided, and where that is written."""
        return self.check if self.origin is None else f"{self.check} ({self.origin})"

    def as_decision(self) -> Decision:
        """The decision, where nothing stricter is said."""
        return Decision(outcome=self.outcome, reason=self.reason, rule=self.rule, code=self.code, hint=self.hint)


def asking(verdicts: list[Verdict]) -> Decision:
    """One question about everything that has to be asked; an approval is needed for it if it is for any of it."""
    asked = [one for one in verdicts if one.outcome == "ask"]
    asked.sort(key=lambda one: not one.needs_grant)
    reasons = " ".join(dict.fromkeys(one.reason for one in asked))
    return replace(asked[0].as_decision(), reason=reasons, needs_grant=asked[0].needs_grant)


def watched(own: Decision, worst: Verdict) -> Decision:
    """A decision that a policy in audit mode leaves as it is, with what that policy would have decided and why."""
    would = "be denied" if worst.outcome == "deny" else "have to be asked about"
    said = f"Policy only watches. If it were enforced, this would {would}: {worst.reason}"
    if own.outcome == "ask":
        return replace(own, would=worst.outcome, reason=f"{own.reason} {said}")
    return replace(own, would=worst.outcome, reason=said, rule=worst.rule)


def strictest(verdicts: list[Verdict]) -> Verdict | None:
    """The verdict that decides: the strictest, of several one that holds in every mode, and of those the first."""
    return max(verdicts, key=lambda one: (STRICTNESS[one.outcome], one.is_switch), default=None)
