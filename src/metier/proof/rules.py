"""The tier of rules: tool calls that must be allowed or refused while the skill is active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.hints import for_person
from metier.proof.report import CaseResult, TierResult
from metier.skill import shown

if TYPE_CHECKING:
    from metier import Session
    from metier.guard import Decision
    from metier.proof.subject import TestSubject
    from metier.proof.suite import RuleCase

_WORDS = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def run_rules(subject: TestSubject) -> TierResult:
    """Ask the guard about each call of the suite; nothing is called."""
    with subject.session(subject.workspace()) as session:
        return TierResult.of("rules", [_decide(session, subject.name, case) for case in subject.suite.rules])


def _decide(session: Session, skill: str, case: RuleCase) -> CaseResult:
    decision = session.calls.decide(case.tool, case.arguments)
    is_expected = decision.outcome == case.expect
    data = {
        "tool": shown(case.tool),
        "expected": case.expect,
        "outcome": decision.outcome,
        "rule": shown(decision.rule, 300),
        "reason": shown(decision.reason, 500),
        "decided_by": _source_of(decision, skill),
    }
    words = f"It is {_WORDS[decision.outcome]}, and should be {_WORDS[case.expect]}"
    reason = f"{words}: {shown(decision.reason, 400)} ({data['rule']})"
    hint = shown(for_person(decision.hint), 500) or "Say in `allowed-tools` what the skill needs, and no more."
    return CaseResult(
        id=case.id,
        verdict="passed" if is_expected else "failed",
        reason="" if is_expected else reason,
        hint="" if is_expected else hint,
        data=data,
    )


def _source_of(decision: Decision, skill: str) -> str:
    """The origin of a decision: the skill's own rules, the policy of this machine, or what always holds."""
    if decision.check.startswith(f"{skill}: "):
        return "skill"
    return "policy" if decision.origin is not None else "built-in"
