"""The results of tests: of a case, a tier, a skill, and of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import asdict, dataclass, field
from metier.hints import for_person
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.errors import MetierError
    from metier.proof.suite import Note

Tier: TypeAlias = Literal["form", "routing", "scripts", "rules", "behaviour"]
TIERS: tuple[Tier, ...] = ("form", "routing", "scripts", "rules", "behaviour")
Verdict: TypeAlias = Literal["passed", "failed", "skipped"]
MARKS: Mapping[Verdict, str] = {"passed": "✓", "failed": "✗", "skipped": "○"}
_OF_MACHINE = ("isolation-missing", "script-unsupported", "part-missing")
"""The codes of errors of a machine that lacks something, which say nothing about a skill."""


def _joint_verdict(parts: Iterable[CaseResult | TierResult | SkillReport]) -> Verdict:
    """Failed if one failed; skipped if none was run."""
    verdicts = {part.verdict for part in parts}
    return "failed" if "failed" in verdicts else "passed" if "passed" in verdicts else "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of one case."""

    id: str
    verdict: Verdict
    reason: str = ""
    """Why it failed or was skipped, in one sentence."""
    hint: str = ""
    """What to do about it."""
    seconds: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)
    """What this kind of case has to say besides, as JSON values: ranks, grades, trials."""

    @classmethod
    def of_error(cls, id_: str, error: MetierError, seconds: float = 0.0) -> CaseResult:
        """The result of a case that could not be run: skipped where this machine lacks something, else failed."""
        return cls(
            id=id_,
            verdict="skipped" if error.code in _OF_MACHINE else "failed",
            reason=shown(error.message, 500),
            hint=shown(for_person(error.hint), 500),
            seconds=seconds,
            data={"code": error.code},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierResult:
    """The result of one tier: failed if a case failed, skipped if none was run."""

    tier: Tier
    verdict: Verdict
    cases: tuple[CaseResult, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    cost: float = 0.0
    """In US dollars."""
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tier: Tier, cases: Iterable[CaseResult], *, reason: str = "", **more: Any) -> TierResult:
        """The result that follows from those of its cases; `reason` says why there are none.

        >>> TierResult.of("rules", [CaseResult(id="1", verdict="passed")]).verdict
        'passed'
        """
        cases = tuple(cases)
        verdict = _joint_verdict(cases)
        if not reason and verdict == "skipped":
            reason = cases[0].reason if cases else "The suite has no case of this tier."
        return cls(tier=tier, verdict=verdict, cases=cases, reason=reason, **more)

    def count(self, verdict: Verdict) -> int:
        """The number of cases with that verdict."""
        return sum(case.verdict == verdict for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillReport:
    """The results of one skill."""

    name: str
    digest: str
    location: str
    tiers: tuple[TierResult, ...]
    notes: tuple[Note, ...] = ()
    """Parts of its suite that were not used, and problems with it."""

    @property
    def verdict(self) -> Verdict:
        """Failed if a tier failed or the suite is not what its author wants; skipped if none was run."""
        return "failed" if any(note.is_error for note in self.notes) else _joint_verdict(self.tiers)

    def tier(self, tier: Tier) -> TierResult | None:
        """The result of a tier; None where it was not asked for."""
        return next((one for one in self.tiers if one.tier == tier), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of all skills that were tested."""

    skills: tuple[SkillReport, ...]
    started_at: str = ""
    seconds: float = 0.0
    cost: float = 0.0
    version: str = ""
    """The version of Métier."""

    @property
    def verdict(self) -> Verdict:
        """Failed if a skill failed; skipped if none was tested."""
        return _joint_verdict(self.skills)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers that a skill has a result of."""
        return tuple(dict.fromkeys(tier.tier for skill in self.skills for tier in skill.tiers))

    @property
    def summary(self) -> str:
        """The number of skills, and of those with failures."""
        failed = sum(skill.verdict == "failed" for skill in self.skills)
        skills = f"{len(self.skills):,} skill{'' if len(self.skills) == 1 else 's'}"
        return f"{skills}, {f'{failed:,} with' if failed else 'no'} failures"

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        shape = asdict(self)
        for row, skill in zip(shape["skills"], self.skills, strict=True):
            row["verdict"] = skill.verdict
        return {"verdict": self.verdict, **shape}
