"""The tier of form: the skill as it is written, and its scripts as they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.proof.report import TierResult

if TYPE_CHECKING:
    from metier.proof.subject import TestSubject


def run_form(subject: TestSubject) -> TierResult:
    """Check what a skill is made of."""
    return TierResult.of("form", [], reason="The suite has no case of this tier.")
