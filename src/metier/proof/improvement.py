"""The improvement that a proposal brings: the offline tests of a skill before and after it, on the same machine.

Both contents are tested by the suite that the skill has before: an author may not weaken it, and cases that the change
takes away or rewrites are named. What the change adds to the suite is run beside that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass, replace
from metier.guard.approvals.roles import has_role
from metier.guard.audit.governance_events import actor_of, record_event
from metier.hub.review_base import review_base_of
from metier.hub.skill_files import package_of
from metier.library import Place
from metier.proof.comparison import compare_reports, verdicts_of
from metier.proof.result_records import OFFLINE_TIERS
from metier.proof.runner import TestSettings, test_skills
from metier.proof.score import score_of
from metier.proof.suite_reader import read_suite
from metier.source.memory import MemorySource
from metier.store import TierRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier import Library
    from metier.proof.comparison import CaseKey
    from metier.proof.report import Report
    from metier.proof.suite import Suite
    from metier.skill.package import Files
    from metier.store import Person, Proposal, TenantScope

_COMPARISON = "comparison"
"""The tier of the row that has an improvement."""
_CASES = ("routing", "scripts", "rules", "behaviour")
_MAX_NAMED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The results of the tests of a skill before and after a change, as names of cases: `rules 3`."""

    worse: tuple[str, ...] = ()
    """Passed before, and not after it."""
    better: tuple[str, ...] = ()
    new_failures: tuple[str, ...] = ()
    """Checks of form that fail and were not made before."""
    same: int = 0
    dropped: tuple[str, ...] = ()
    """Cases that the change takes out of the suite, or rewrites."""
    added: Mapping[str, str]
    """The verdicts of the cases that it adds or rewrites."""
    ranks: Mapping[str, tuple[int | None, int | None]]
    """The rank before and after for each prompt where it differs."""
    score_before: int | None = None
    """None for a new skill."""
    score_after: int


def compare(library: Library, name: str, base: Files | None, candidate: Files) -> Improvement:
    """Test a skill before and after a change, among the skills of a library; `base` is None for a new skill."""
    suite = read_suite(package_of(candidate))
    own, score_after = _run(library, name, candidate, suite)
    if base is None:
        return Improvement(added=_names(verdicts_of(own)), ranks={}, score_after=score_after)
    earlier = read_suite(package_of(base))
    kept_out = tuple(dict.fromkeys([*earlier.files, *suite.files]))
    before, score_before = _run(library, name, base, earlier)
    after, _ = _run(library, name, candidate, replace(earlier, files=kept_out)) if earlier != suite else (own, 0)
    known, verdicts = verdicts_of(after), _names(verdicts_of(own))
    found = compare_reports(verdicts_of(before), known)
    # The check of a script that is gone is no loss; any other that is not made any more might fail.
    worse = [key for key in found.worse if key in known or not _is_of_gone_script(key, candidate)]
    now = _ranks(after)
    ranks = {key: (rank, now.get(key)) for key, rank in _ranks(before).items() if now.get(key) != rank}
    return Improvement(
        worse=tuple(map(_name, worse)),
        better=tuple(map(_name, found.better)),
        new_failures=tuple(map(_name, found.new_failures)),
        same=found.same,
        dropped=_only_in(earlier, suite),
        added={name: verdicts.get(name, "skipped") for name in _only_in(suite, earlier)},
        ranks=ranks,
        score_before=score_before,
        score_after=score_after,
    )


def _is_of_gone_script(key: CaseKey, candidate: Files) -> bool:
    kind, _, script = key.case.partition(" ")
    return key.tier == "form" and kind == "help" and script not in candidate


def _run(library: Library, name: str, files: Files, suite: Suite) -> tuple[Report, int]:
    """The report on a content in place of the one that the library has, and its score."""
    from metier import Library

    # No other layer hides this one.
    source = MemorySource({name: package_of(files)}, name="proposed")
    among = Library([Place(layer="enterprise", source=source), *library.places], cache=False)
    entry = among.get(f"{name}@proposed")
    report = test_skills(among, [entry], TestSettings(tiers=OFFLINE_TIERS, suite=suite))
    return report, score_of(entry, report.skills[0]).score


def _only_in(suite: Suite, other: Suite) -> tuple[str, ...]:
    """The cases of a suite that another one does not have like that, whatever they are called there."""
    found = []
    for tier in _CASES:
        known = [replace(case, id="") for case in getattr(other, tier)]
        found += [f"{tier} {case.id}" for case in getattr(suite, tier) if replace(case, id="") not in known]
    return tuple(found)


def _ranks(report: Report) -> dict[str, int | None]:
    tiers = (skill.tier("routing") for skill in report.skills)
    return {case.id: case.data.get("rank") for tier in tiers if tier is not None for case in tier.cases}


def _name(key: CaseKey) -> str:
    return f"{key.tier} {key.case}"


def _names(verdicts: Mapping[CaseKey, str]) -> dict[str, str]:
    return {_name(key): verdict for key, verdict in verdicts.items()}


def improvement_of(
    scope: TenantScope, person: Person, proposal: Proposal, library: Library, *, counts: bool = True
) -> Improvement:
    """The improvement that a proposal brings, found out once for these two contents and kept.

    Policy looks at the record of it alone, which is written for people with the role author. One that an agent found
    out, or that does not `count` because nobody knows who gave the command, is found out anew for the first of them.
    """
    base = review_base_of(
        scope, proposal.skill, proposal.location, proposal.base_digest, proposal.proposed_digest
    ).digest
    change = f"{base} {proposal.proposed_digest}"
    recorded = scope.recorded_decisions().compared.get(change)
    kept = _stored_improvement(scope, base, proposal.proposed_digest)
    may_record = counts and person.kind != "agent" and has_role(person, "author")
    if kept is not None and (list(kept.worse[:_MAX_NAMED]) == recorded or not (base and may_record)):
        return kept
    files = scope.revisions.files(proposal.proposed_digest)
    name = proposal.skill.partition("@")[0]
    found = compare(library, name, scope.revisions.files(base) if base else None, files)
    with scope.transaction():
        run = TierRun(
            digest=proposal.proposed_digest,
            skill=proposal.skill,
            tier=_COMPARISON,
            verdict="failed" if found.worse else "passed",
            score=found.score_after,
            suite=base,
            report=asdict(found),
            by=person.name,
        )
        scope.test_results.add(run)
        if base and may_record:
            record_event(
                scope,
                "proposal.compared",
                actor_of(person, scope),
                proposal.skill,
                digest=base,
                new_digest=proposal.proposed_digest,
                proposal=proposal.id,
                path=proposal.location,
                reason=f"{len(found.worse)} tests are worse, {len(found.better)} better, {found.same} the same.",
                notes=found.worse[:_MAX_NAMED],
            )
    return found


def _stored_improvement(scope: TenantScope, base: str, proposed: str) -> Improvement | None:
    """The improvement that was found out before, as it was kept."""
    runs = [run for run in scope.test_results.all(proposed) if run.tier == _COMPARISON and run.suite == base]
    try:
        report: dict[str, Any] = dict(runs[-1].report)
        for name in ("worse", "better", "new_failures", "dropped"):
            report[name] = tuple(report[name])
        return Improvement(**report)
    except (IndexError, KeyError, TypeError):
        return None
