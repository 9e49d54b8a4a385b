"""The tier of rules: tool calls that must be allowed or refused while the skill is active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.proof.report import TierResult

if TYPE_CHECKING:
    from metier.proof.subject import TestSubject


def run_rules(subject: TestSubject) -> TierResult:
    """Ask the guard about each call of the suite."""
    return TierResult.of("rules", [], reason="The suite has no case of this tier.")
