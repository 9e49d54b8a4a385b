"""The checks of recorded test results: those that a skill must have to be used, and those of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.decision import refuse
from metier.guard.remedies import COMPARE, run_tests
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard.decision import Decision
    from metier.guard.decision_context import DecisionContext

_FEW = 5
_SATISFYING = ("passed", "none")
"""Verdicts that satisfy a policy: `none` is that of a tier in which the skill has nothing to test, such as scripts."""


def required_tests(context: DecisionContext) -> Iterator[Decision]:
    """Deny skills without the score, or the passed tests, that policy requires of exactly this content."""
    effective, subject = context.effective, context.subject
    least, tiers = effective.skills_require_score, effective.skills_require_tests
    if subject is None or not (least or tiers):
        return
    facts = _test_facts(context, subject.digest)
    lacking = [f"{tier} ({facts.get(tier, 'not run')})" for tier in tiers if facts.get(tier) not in _SATISFYING]
    if lacking:
        yield refuse(
            check="skills.require-tests",
            reason=f"Policy wants tests that skill {subject.name!r} has not passed as it is now: {', '.join(lacking)}.",
            code="tests-missing",
            hint=run_tests("test", subject.ref),
            origin=effective.origin("skills.require-tests"),
        )
    score = facts.get("score", "")
    if least and not (score.isdecimal() and int(score) >= least):
        now = f"has a score of {score}" if score else "has no score as it is now"
        yield refuse(
            check="skills.require-score",
            reason=f"Skill {subject.name!r} {now}, and policy wants at least {least}.",
            code="score-too-low",
            hint=run_tests("score", subject.ref),
            origin=effective.origin("skills.require-score"),
        )


def _test_facts(context: DecisionContext, digest: str) -> Mapping[str, str]:
    """The recorded results of a content, those of the tenant before those of the whole installation."""
    found = (state.tested[digest] for state in reversed(context.vouching_states) if digest in state.tested)
    return next(found, {})


def compared_tests(context: DecisionContext) -> Iterator[Decision]:
    """Deny changes by which a test fails that passed before, and those whose tests nobody has compared."""
    action, effective, subject = context.action, context.effective, context.subject
    if not effective.proposals_no_test_worse or subject is None or action.replaces in ("", subject.digest):
        return
    change = f"{action.replaces} {subject.digest}"
    found = (state.compared[change] for state in reversed(context.vouching_states) if change in state.compared)
    worse = next(found, None)
    if worse is not None and not worse:
        return
    if worse is None:
        code, reason = (
            "tests-not-compared",
            f"The tests of skill {subject.name!r} were not run before and after this change.",
        )
    else:
        more = f" and {len(worse) - _FEW:,} more" if len(worse) > _FEW else ""
        code, reason = (
            "tests-worse",
            f"Tests that skill {subject.name!r} passed fail after this change: {_names(worse)}{more}.",
        )
    yield refuse(
        check="proposals.no-test-worse",
        reason=reason,
        code=code,
        hint=COMPARE,
        origin=effective.origin("proposals.no-test-worse"),
    )


def _names(worse: Sequence[str]) -> str:
    return ", ".join(shown(one, 100) for one in worse[:_FEW])
