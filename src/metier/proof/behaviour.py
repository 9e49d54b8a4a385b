"""The tier of behaviour: prompts for an agent, with the skill, without it and with the version before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.proof.report import TierResult

if TYPE_CHECKING:
    from metier.proof.subject import TestSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourSettings:
    """The choices of whoever tests behaviour: which models, how often, and for how much."""


def run_behaviour(subject: TestSubject, settings: BehaviourSettings) -> TierResult:
    """Run each behaviour case with every executor, and grade what it did."""
    return TierResult.of("behaviour", [], reason="The suite has no case of this tier.")
