"""The lift of a skill: its arm beside the others, by executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass, field
from metier.proof.report import CaseResult
from metier.proof.statistics import compare, mean, pass_all, pass_at
from metier.proof.trial_result import COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.proof.statistics import PairedComparison
    from metier.proof.trial import Arm
    from metier.proof.trial_result import TrialResult

_OVER: dict[Arm, str] = {"without": "no skill", "previous": "the version before"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """The results of one arm."""

    trials: int
    passed: int
    pass_rate: float
    pass_at: Mapping[int, float]
    """pass@k: the probability that one of k trials passes, by k, as the mean of the cases."""
    pass_all: Mapping[int, float]
    """pass^k: the probability that k trials all pass."""
    tokens: float | None
    seconds: float | None
    cost: float | None
    turns: float | None
    unread: int
    """Trials whose agent had the skill and did not read it."""
    counts: Mapping[str, int]
    """Paths, path errors, script reads and violations."""

    @classmethod
    def of(cls, results: Sequence[TrialResult]) -> ArmSummary:
        """The summary of trials that came to an end; at least one."""
        cases: dict[tuple[str, str], list[bool]] = {}
        for one in results:
            cases.setdefault((one.runner, one.case), []).append(one.has_outcome)
        passed = sum(one.has_outcome for one in results)
        ks = sorted({1, min(map(len, cases.values()))})
        rows = [(len(outcomes), sum(outcomes)) for outcomes in cases.values()]
        return cls(
            trials=len(results),
            passed=passed,
            pass_rate=passed / len(results),
            pass_at={k: sum(pass_at(*row, k) for row in rows) / len(rows) for k in ks},
            pass_all={k: sum(pass_all(*row, k) for row in rows) / len(rows) for k in ks},
            unread=sum(one.is_unread for one in results),
            counts={name: sum(getattr(one.transcript, name) for one in results) for name in COUNTS},
            **_means([(one, None) for one in results]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """The difference that a skill makes to another arm, pair by pair."""

    over: Arm
    comparison: PairedComparison
    unproven: int
    """Wins of trials in which the skill was not read."""
    tokens: float | None
    seconds: float | None
    cost: float | None
    turns: float | None

    def as_case(self, runner: str) -> CaseResult:
        """The lift as a line of a report: worse fails, and what is not known is skipped."""
        verdicts = {"better": "passed", "no effect": "passed", "worse": "failed"}
        return CaseResult(
            id=f"lift over {_OVER[self.over]} [{runner}]",
            verdict=verdicts.get(self.comparison.verdict, "skipped"),  # type: ignore[arg-type]
            reason=self.sentence,
            data=self.as_dict(),
        )

    @property
    def sentence(self) -> str:
        """The verdict with the numbers behind it."""
        found = self.comparison
        pairs = "1 pair" if found.pairs == 1 else f"{found.pairs} pairs"
        text = (
            f"{found.verdict}: {100 * found.lift:+.0f} points in {pairs} "
            f"({found.wins} won, {found.losses} lost, p = {found.p:.2g})."
        )
        if self.unproven:
            text += f" In {self.unproven} of those won, the skill was not read, which is no evidence for it."
        if found.verdict == "underpowered":
            text += (
                f" A difference of {100 * found.bound:.0f} points would be seen with {100 * found.power:.0f} % power."
            )
            if found.needed:
                text += f" About {found.needed} pairs would decide it."
        return text

    def as_dict(self) -> dict[str, Any]:
        """The lift as JSON values."""
        shape = asdict(self)
        return {**shape.pop("comparison"), **shape, "pass_rate": self.comparison.lift}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSummary:
    """The results of one executor."""

    arms: Mapping[Arm, ArmSummary] = field(default_factory=dict)
    lifts: tuple[Lift, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return {**asdict(self), "lifts": [lift.as_dict() for lift in self.lifts]}


def summarize_trials(results: Iterable[TrialResult], bound: float) -> RunnerSummary:
    """The summary of all trials of one executor, or of several together."""
    arms: dict[Arm, list[TrialResult]] = {}
    for one in results:
        if one.is_comparable:
            arms.setdefault(one.arm, []).append(one)
    lifts = (_lift(arm, arms.get("with", []), arms.get(arm, []), bound) for arm in _OVER)
    return RunnerSummary(
        arms={arm: ArmSummary.of(found) for arm, found in arms.items()},
        lifts=tuple(lift for lift in lifts if lift is not None),
    )


def _lift(over: Arm, first: Iterable[TrialResult], second: Iterable[TrialResult], bound: float) -> Lift | None:
    others = {one.pair: one for one in second}
    pairs = [(one, others[one.pair]) for one in first if one.pair in others]
    if not pairs:
        return None
    unproven = sum(one.is_unread and one.has_outcome and not other.has_outcome for one, other in pairs)
    outcomes = [(one.has_outcome, other.has_outcome) for one, other in pairs]
    comparison = compare(outcomes, unproven=unproven, bound=bound)
    return Lift(over=over, comparison=comparison, unproven=unproven, **_means(pairs))


def _means(pairs: Sequence[tuple[TrialResult, TrialResult | None]]) -> dict[str, float | None]:
    """The means of what trials took, or of the differences to others."""
    return {
        name: mean(_difference(name, one, other) for one, other in pairs)
        for name in ("tokens", "seconds", "cost", "turns")
    }


def _difference(name: str, one: TrialResult, other: TrialResult | None) -> float | None:
    value = getattr(one.transcript, name)
    if other is None or value is None:
        return value  # type: ignore[no-any-return]
    taken = getattr(other.transcript, name)
    return None if taken is None else value - taken
