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
_MAX_VOTES = 50_000
"""Records that are looked through: those of agents are among them, and must not keep out what people said."""


def benefit_of(scope: TenantScope, digest: str) -> KnownBenefit:
    """The benefit of a content by the records: its last behaviour tests, and the last word of each person."""
    votes: dict[str, bool] = {}
    for record in scope.audit.search(type="feedback", digest=digest, limit=_MAX_VOTES):
        if record.get("user") and not record.get("agent"):
            votes.setdefault(record["user"], record.get("type") == "feedback.helped")
    lift = scope.recorded_decisions().tested.get(digest, {}).get("lift", "")
    return KnownBenefit(lift=lift, helped=sum(votes.values()), not_helped=len(votes) - sum(votes.values()))


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
            score = score_of(entry, skill, benefit_of(scope, skill.digest) if skill.digest else None)
            scores.append(score)
            if not skill.digest:
                continue
            has_score = all(skill.tier(tier) is not None for tier in OFFLINE_TIERS)
            _keep_rows(scope, person, entry, skill, score.score if has_score else 0)
            facts = _facts(entry, skill)
            if has_score:
                facts["score"] = str(score.score)
            if entry.package.digest() != skill.digest:
                continue  # it was changed meanwhile, and part of the score may be of what it is now
            if counts and person.kind != "agent" and not facts.items() <= known.get(skill.digest, {}).items():
                _record(scope, person, entry, skill, facts)
    return scores


def _facts(entry: Entry, skill: SkillReport) -> dict[str, str]:
    """The verdicts of the offline tiers that were run, and that of a model in the tier of behaviour."""
    facts: dict[str, str] = {one.tier: _verdict(entry, skill, one) for one in skill.tiers if one.tier in OFFLINE_TIERS}
    behaviour = skill.tier("behaviour")
    lift = lift_of(behaviour.data) if behaviour is not None else ""
    return facts | ({"lift": lift} if lift else {})


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
            runner=", ".join(tier.data.get("runners", ())),
            cases=len(tier.cases),
            passed=tier.count("passed"),
            failed=tier.count("failed"),
            report={**tier.data, "case_verdicts": {case.id: case.verdict for case in tier.cases}},
            by=person.name,
        )
        last = latest.get((run.tier, run.runner))
        # A report that was too long is not kept.
        if last is None or replace(last, at="", report=dict(last.report)) not in (run, replace(run, report={})):
            scope.test_results.add(run)
