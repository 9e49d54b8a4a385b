"""Grades of assertions by code."""

from __future__ import annotations

from typing import get_args

import anyio
import pytest

from metier.proof.graders import grade, grade_all, grade_rows, reason_of, verdict_of
from metier.proof.suite import Assertion, AssertionKind, TextMatch
from metier.proof.text_match import mismatch
from metier.proof.trial import TracedCall, Transcript

HONEST = Transcript(
    answer="The table has 12 rows.\nTotal: 40 EUR",
    stdout='{"rows": [{"total": 12, "name": null}], "ok": true}\n',
    stderr="1 warning\n",
    exit_code=0,
    calls=(
        TracedCall(tool="Bash", arguments={"command": "git status"}, outcome="ok"),
        TracedCall(tool="mcp__crm__find", arguments={"query": {"name": "Ann"}}, outcome="failed"),
        TracedCall(tool="Write", arguments={"file_path": "/etc/x"}, outcome="refused", code="tool-not-allowed"),
    ),
    skill_read=True,
    before={"in.csv": b"a,b\n", "old.txt": b"x"},
    after={"in.csv": b"a,b\n", "out/report.md": "﻿Größe: 12\n".encode(), "out/data.csv": b"1"},
    input_tokens=900,
    output_tokens=100,
    seconds=2.5,
)
REPORT = TextMatch(contains=("Größe",), excludes=("error",), regex=("^Gr.+ [0-9]+",))
HOLDS: list[Assertion] = [
    Assertion(kind="answer", match=TextMatch(contains=("12 rows", "Total"), regex=(r"^Total: \d+ EUR$",))),
    Assertion(kind="answer"),
    Assertion(kind="stdout", match=TextMatch(json={"rows.0.total": 12.0, "rows.0.name": None, "ok": True})),
    Assertion(kind="stdout", match=TextMatch(json={"": {"ok": True, "rows": [{"name": None, "total": 12}]}})),
    Assertion(kind="stderr", match=TextMatch(equals="1 warning")),
    Assertion(kind="exit"),
    Assertion(kind="file", target="./out/report.md", match=REPORT),
    Assertion(kind="no-file", target="old.txt"),
    Assertion(kind="unchanged", target="in.csv"),
    Assertion(kind="changed-only", paths=("out/*", "old.txt")),
    Assertion(kind="called", target="run_shell_command", arguments={"command": TextMatch(contains=("git",))}),
    Assertion(kind="called", target="mcp__crm__*", arguments={"query": TextMatch(contains=("Ann",))}),
    Assertion(kind="not-called", target="Bash", arguments={"command": TextMatch(contains=("rm",))}),
    Assertion(kind="not-called", target="WebFetch"),
    Assertion(kind="refused", target="Write", arguments={"file_path": TextMatch(equals="/etc/x")}),
    Assertion(kind="skill-read"),
    Assertion(kind="tokens", value=1_000),
    Assertion(kind="seconds", value=2.5),
]
FAILS: list[tuple[Assertion, str]] = [
    (Assertion(kind="answer", match=TextMatch(contains=("12 columns",))), "nearest line is 'The table has 12 rows.'"),
    (Assertion(kind="answer", match=TextMatch(excludes=("EUR",))), "It contains 'EUR'."),
    (Assertion(kind="answer", match=TextMatch(regex=("^otal",))), "Nothing in it is like '^otal'"),
    (Assertion(kind="stdout", match=TextMatch(json={"rows.1.total": 12})), "nothing at 'rows.1.total'"),
    (Assertion(kind="stdout", match=TextMatch(json={"rows.x": 12})), "nothing at 'rows.x'"),
    (Assertion(kind="stdout", match=TextMatch(json={"ok": "true"})), 'At \'ok\' is true and not "true".'),
    (Assertion(kind="answer", match=TextMatch(json={"": 1})), "no JSON"),
    (Assertion(kind="exit", value=3), "The exit code is 0 and not 3."),
    (Assertion(kind="file", target="out/report.txt"), "Did you mean 'out/report.md'"),
    (Assertion(kind="no-file", target="out"), "It is there."),
    (Assertion(kind="unchanged", target="old.txt"), "gone"),
    (Assertion(kind="unchanged", target="out/data.csv"), "not there before"),
    (Assertion(kind="changed-only", paths=("out/report.md",)), "out/data.csv is new, old.txt is gone."),
    (Assertion(kind="called", target="Write"), "called and refused: tool-not-allowed"),
    (Assertion(kind="called", target="Bash", arguments={"command": TextMatch(equals="ls")}), "of Bash, mcp__crm__find"),
    (Assertion(kind="not-called", target="Write"), "It was tried, and refused: '{\"file_path\": \"/etc/x\"}'."),
    (Assertion(kind="refused", target="Bash"), "not refused"),
    (Assertion(kind="refused", target="Edit"), "not called"),
    (Assertion(kind="tokens", value=999), "1,000 tokens"),
    (Assertion(kind="seconds", value=2), "2.5 seconds"),
    (Assertion(kind="seconds"), "no number"),
]  # fmt: skip


@pytest.mark.each("assertion", HOLDS)
def test_an_assertion_about_an_honest_trial_holds(assertion: Assertion) -> None:
    assert (grade(assertion, HONEST).passed, grade(assertion, HONEST).why) == (True, "")


@pytest.mark.each(("assertion", "why"), FAILS)
def test_an_assertion_that_does_not_hold_says_why(assertion: Assertion, why: str) -> None:
    found = grade(assertion, HONEST)
    assert found.passed is False
    assert why in found.why


def test_each_kind_of_assertion_is_graded() -> None:
    here = {one.kind for one in HOLDS} | {"judge", "text"}
    assert here == set(get_args(AssertionKind))


def test_what_no_code_can_tell_stays_open() -> None:
    found = anyio.run(grade_all, [Assertion(kind="judge", target="It is kind."), Assertion(kind="text")], HONEST)
    assert [one.passed for one in found] == [None, None]


@pytest.mark.each("assertion", [*HOLDS, Assertion(kind="judge"), Assertion(kind="text")])
def test_nothing_holds_for_a_trial_that_came_to_no_end(assertion: Assertion) -> None:
    ended = Transcript(answer=HONEST.answer, after=HONEST.after, exit_code=0, skill_read=True, error="timeout: 5 s")
    assert grade(assertion, ended).passed is False


VERDICTS: list[tuple[list[Assertion], str, str]] = [
    ([Assertion(kind="exit"), Assertion(kind="text", target="It is kind.")], "passed", "Nothing here can check"),
    ([Assertion(kind="exit"), Assertion(kind="judge", target="It is kind.")], "skipped", "judge It is kind."),
    ([Assertion(kind="text", target="It is kind.")], "skipped", "text It is kind."),
    ([Assertion(kind="judge"), Assertion(kind="exit", value=1), Assertion(kind="exit", value=2)], "failed", "not 2"),
    ([Assertion(kind="exit")], "passed", ""),
    ([], "skipped", ""),
]  # fmt: skip


@pytest.mark.each(("assertions", "verdict", "reason"), VERDICTS)
def test_a_case_passes_where_all_that_can_be_checked_was_checked(
    assertions: list[Assertion], verdict: str, reason: str
) -> None:
    grades = [grade(one, HONEST) for one in assertions]
    assert verdict_of(grades) == verdict
    assert reason in reason_of(grades)


def test_grades_are_rows_for_reports() -> None:
    rows = grade_rows([grade(Assertion(kind="no-file", target="a\x1b"), HONEST)])
    assert rows == [{"kind": "no-file", "target": "a\\x1b", "passed": True, "why": ""}]


def test_a_reason_shows_a_text_of_others_escaped_and_short() -> None:
    why = mismatch(TextMatch(equals="x\x1b[2J"), "\x1b[31m" + "y" * 10_000)
    assert why.isprintable()
    assert len(why) < 400
