"""Results of tests in the store: rows with the details, and the record in the audit log that vouches for them.

A row counts for nothing by itself. Policy looks at the records alone, and those are written only for people with the
role author: what an agent finds out is kept and shown, and satisfies no policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, record_event
from metier.proof.report import TIERS
from metier.proof.score import KnownBenefit, lift_of, score_of
from metier.store import TierRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier import Entry
    from metier.proof.report import Report, SkillReport, TierResult
    from metier.proof.score import Score
    from metier.store import Person, TenantScope

OFFLINE_TIERS = TIERS[:-1]
"""The tiers that need no model, which a score needs the results of."""


def benefit_of(scope: TenantScope | None, entry: Entry, digest: str) -> KnownBenefit:
    """The facts about a content that are on record: its last behaviour tests, and the feedback of those who used it."""
    if scope is None or not digest:
        return KnownBenefit()
    runs = [run for run in scope.test_results.latest(digest) if run.tier == "behaviour"]
    last = max(runs, key=lambda run: run.at, default=None)
    helped, not_helped = scope.feedback.totals(entry.reference)
    return KnownBenefit(lift=lift_of(last.report) if last is not None else "", helped=helped, not_helped=not_helped)


def record_results(
    scope: TenantScope, person: Person, report: Report, entries: Iterable[Entry], *, counts: bool = True
) -> list[Score]:
    """Keep the results of tests of skills by their own suites, in the order of `entries`; return their scores.

    Raises `NotPermitted` for people without the role author. Results of agents, and those that do not `count` because
    nobody knows who gave the command, have no record, and so satisfy no policy.
    """
    scores = []
    with recording_refusals(scope, person, "skill"):
        if person.kind != "agent":
            require_role(person, "author", "record results of tests")
        known = scope.recorded_decisions().tested
        for entry, skill in zip(entries, report.skills, strict=True):
            score = score_of(entry, skill, benefit_of(scope, entry, skill.digest))
            scores.append(score)
            if not skill.digest:
                continue
            has_score = all(skill.tier(tier) is not None for tier in OFFLINE_TIERS)
            _keep_rows(scope, person, entry, skill, score.score if has_score else 0)
            facts: dict[str, str] = {tier.tier: _verdict(entry, skill, tier) for tier in skill.tiers}
            if has_score:
                facts["score"] = str(score.score)
            if counts and person.kind != "agent" and not facts.items() <= known.get(skill.digest, {}).items():
                _record(scope, person, entry, skill, facts)
    return scores


def _verdict(entry: Entry, skill: SkillReport, tier: TierResult) -> str:
    """The verdict of a tier for policy: `none` where there is nothing to test; no tier passes by a broken suite."""
    if tier.tier == "scripts" and not tier.cases and not entry.package.listing().scripts():
        return "none"
    is_broken = tier.tier != "form" and any(note.is_error for note in skill.notes)
    return "failed" if is_broken else tier.verdict


def _record(scope: TenantScope, person: Person, entry: Entry, skill: SkillReport, facts: Mapping[str, str]) -> None:
    record_event(
        scope,
        "skill.tested",
        actor_of(person, scope),
        entry.reference,
        digest=skill.digest,
        path=skill.location,
        reason=", ".join(f"{name} {value}" for name, value in facts.items()),
        success=skill.verdict != "failed",
        notes=tuple(f"{name} {value}" for name, value in facts.items()),
    )


def _keep_rows(scope: TenantScope, person: Person, entry: Entry, skill: SkillReport, score: int) -> None:
    latest = {(run.tier, run.runner): run for run in scope.test_results.latest(skill.digest)}
    for tier in skill.tiers:
        run = TierRun(
            digest=skill.digest,
            skill=entry.reference,
            tier=tier.tier,
            verdict=tier.verdict,
            score=score,
            cases=len(tier.cases),
            passed=tier.count("passed"),
            failed=tier.count("failed"),
            report={**tier.data, "case_verdicts": {case.id: case.verdict for case in tier.cases}},
            by=person.name,
        )
        last = latest.get((run.tier, run.runner))
        if last is None or replace(last, at="", report=dict(last.report)) != run:
            scope.test_results.add(run)
