"""The tier of scripts: runs with given input, and what must come of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.errors import MetierError
from metier.proof.graders import grade, grade_rows, reason_of, verdict_of
from metier.proof.report import CaseResult, TierResult
from metier.proof.suite import Assertion
from metier.proof.trial import Grade, Transcript
from metier.proof.workspace_files import read_workspace
from metier.skill import shown
from metier.skill.untrusted_text import shown_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.proof.budget import TrialBudget
    from metier.proof.subject import TestSubject
    from metier.proof.suite import ScriptCase
    from metier.run import Outcome

_BY_DEFAULT = (Assertion(kind="exit", value=0),)
_ABOUT_AGENTS = ("answer", "called", "not-called", "refused", "skill-read", "tokens", "judge")
_MAX_REPORTED = 2_000
"""Characters of each output that a report has."""


def run_scripts(subject: TestSubject, budget: TrialBudget | None = None) -> TierResult:
    """Run each script case in the sandbox, and grade it; none begins when the time is over."""
    return TierResult.of("scripts", [_run_case(subject, case, budget) for case in subject.suite.scripts])


def _run_case(subject: TestSubject, case: ScriptCase, budget: TrialBudget | None) -> CaseResult:
    begin = time.monotonic()
    if budget is not None:
        if budget.seconds_left <= 0:
            return CaseResult(id=case.id, verdict="skipped", reason="budget: The time is over.")
        if budget.seconds_left < case.timeout:
            case = replace(case, timeout=budget.seconds_left)
    try:
        transcript = run_script(subject, case)
    except MetierError as error:
        found = CaseResult.of_error(case.id, error, time.monotonic() - begin)
        # A script of a kind that nothing runs is no fault of this machine.
        return replace(found, verdict="failed") if error.code == "script-unsupported" else found
    grades = [_grade(assertion, transcript) for assertion in case.assertions or _BY_DEFAULT]
    return CaseResult(
        id=case.id,
        verdict=verdict_of(grades),
        reason=reason_of(grades),
        hint=_last_words(transcript, grades),
        seconds=transcript.seconds,
        data={**_traces(transcript), "grades": grade_rows(grades)},
    )


def _grade(assertion: Assertion, transcript: Transcript) -> Grade:
    if assertion.kind not in _ABOUT_AGENTS:
        return grade(assertion, transcript)
    return Grade(assertion=assertion, passed=None, why="It is about an agent, and this is a script.")


def run_script(subject: TestSubject, case: ScriptCase) -> Transcript:
    """Run one script case in a workspace of its own; raises `MetierError` where it is refused or cannot be run."""
    environment = case.environment
    workspace = subject.workspace(environment.files)
    before = read_workspace(workspace)
    with subject.session(workspace, environment=environment) as session:
        outcome = session.run_blocking(
            case.script,
            case.args,
            env=environment.env,
            seconds=case.timeout,
            stdin=case.stdin.encode(errors="surrogateescape"),
        )
    after = read_workspace(workspace)
    return Transcript(
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        exit_code=outcome.exit_code,
        before=before.files,
        after=after.files,
        left_out=after.left_out,
        seconds=outcome.duration_ms / 1000,
        error=_format_end(outcome, case),
        notes=outcome.notes,
    )


def _format_end(outcome: Outcome, case: ScriptCase) -> str:
    """The reason why a run came to no end of which everything is known; empty for one that did."""
    if outcome.timed_out:
        return f"timeout: the script took more than {case.timeout:g} seconds."
    if outcome.killed_by is not None:
        return f"{outcome.killed_by}: the script was ended."
    if outcome.is_truncated:
        return "output: the script wrote more than is kept, so that nobody can tell what it said."
    return ""


def _last_words(transcript: Transcript, grades: Sequence[Grade]) -> str:
    """The last line of a script that failed, in which it mostly says why."""
    lines = transcript.stderr.strip().splitlines()
    is_failed = any(one.passed is False for one in grades)
    return f"It wrote last: {shown(lines[-1], 300)}" if lines and is_failed else ""


def _traces(transcript: Transcript) -> dict[str, Any]:
    return {
        "exit_code": transcript.exit_code,
        "stdout": shown_text(transcript.stdout[:_MAX_REPORTED]),
        "stderr": shown_text(transcript.stderr[:_MAX_REPORTED]),
        "left_out": [shown(path) for path in transcript.left_out[:20]],
        "notes": [shown(note, 500) for note in transcript.notes],
    }
