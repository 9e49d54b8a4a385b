"""The tier of routing: prompts that should bring a skill up, and those that should not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.proof.report import TierResult

if TYPE_CHECKING:
    from metier import Library
    from metier.proof.subject import TestSubject


def run_routing(library: Library, subject: TestSubject) -> TierResult:
    """Search the library with each prompt of the suite."""
    return TierResult.of("routing", [], reason="The suite has no case of this tier.")
