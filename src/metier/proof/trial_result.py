"""The result of one trial, as cases, lifts and tables of models are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.skill import shown

if TYPE_CHECKING:
    from metier.proof.report import Verdict
    from metier.proof.suite import Assertion
    from metier.proof.trial import Arm, Grade, Transcript

NOT_RUN = ("budget:", "stale:")
"""The errors of trials that say nothing, as they were not run to their end for reasons of the tester's own."""
MEASURES = ("input_tokens", "output_tokens", "cost", "seconds", "turns")
COUNTS = ("paths", "path_errors", "script_reads", "violations")
_MAX_ANSWER = 2_000


def _is_about_skill(assertion: Assertion) -> bool:
    return assertion.kind in ("skill-read", "refused") or assertion.target.startswith("skills_")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one trial."""

    case: str
    runner: str
    arm: Arm
    number: int
    verdict: Verdict
    reason: str = ""
    transcript: Transcript
    grades: tuple[Grade, ...] = ()

    @property
    def pair(self) -> tuple[str, str, int]:
        """The trial that it is in each arm: executor, case and repetition."""
        return self.runner, self.case, self.number

    @property
    def is_comparable(self) -> bool:
        """Whether it says something of its arm, which a provider that failed does not."""
        return self.verdict != "skipped" and not self.transcript.error.startswith("model:")

    @property
    def has_outcome(self) -> bool:
        """Whether the task was done, whatever the way to it: only an agent with the skill can read it."""
        outcomes = (one.passed for one in self.grades if not _is_about_skill(one.assertion))
        return not self.transcript.error and all(passed is not False for passed in outcomes)

    @property
    def is_unread(self) -> bool:
        """Whether the agent had the skill, and came to its end without its instructions."""
        return self.arm != "without" and not self.transcript.skill_read and not self.transcript.error

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON values, without the content of files and of tool results."""
        from metier.proof.graders import grade_rows

        trace = self.transcript
        return {
            "arm": self.arm,
            "number": self.number,
            "verdict": self.verdict,
            "reason": self.reason,
            "answer": shown(trace.answer, _MAX_ANSWER),
            "model": trace.model,
            "skill_read": trace.skill_read,
            "digest": trace.digest,
            **{name: getattr(trace, name) for name in (*MEASURES, *COUNTS)},
            "calls": [{"tool": shown(one.tool, 100), "outcome": one.outcome, "code": one.code} for one in trace.calls],
            "grades": grade_rows(self.grades),
        }
