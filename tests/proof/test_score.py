"""The score of a skill, its parts, and what would raise it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from metier import Entry
from metier.proof.report import CaseResult, SkillReport, TierResult, Verdict
from metier.proof.score import OUT_OF, KnownBenefit, Score, lift_of, score_of
from metier.testing import library, skill

GOOD = "Fills in PDF forms from a table of values, and checks each of its fields. Use it when somebody sends a form."
ROUTING = """
routing:
  - {prompt: fill in this form, should_trigger: true}
  - {prompt: complete the pdf, should_trigger: true}
  - {prompt: enter my data into the form, should_trigger: true}
  - {prompt: print this page, should_trigger: false}
  - {prompt: merge two pdfs, should_trigger: false}
  - {prompt: write a poem, should_trigger: false}
"""


def tier(name: Any, verdicts: Iterable[Verdict], *, cases: Mapping[str, Any] | None = None, **data: Any) -> TierResult:
    """A tier with a case for each verdict, called by its number."""
    found = [CaseResult(id=str(number), verdict=one, reason="It is odd.") for number, one in enumerate(verdicts, 1)]
    found += [CaseResult(id=id_, verdict="passed", data=more) for id_, more in (cases or {}).items()]
    return TierResult.of(name, found, data=data)


SCANNED: dict[str, Any] = {"scan": {"findings": []}}
FORM = tier("form", ["passed"] * 4, cases=SCANNED)


def scored(*tiers: TierResult, benefit: KnownBenefit | None = None, **fields: Any) -> Score:
    """The score of a skill with these fields, by these results."""
    (entry,) = library(skill("pdf", **{"description": GOOD, **fields}))
    return score_of(entry, report_on(entry, tiers), benefit)


def report_on(entry: Entry, tiers: tuple[TierResult, ...]) -> SkillReport:
    return SkillReport(name=entry.name, digest=entry.package.digest(), location=entry.location, tiers=tiers)


def points(score: Score) -> dict[str, float]:
    return {part.part: part.points for part in score.parts}


def test_the_parts_have_a_hundred_points_together() -> None:
    assert sum(OUT_OF.values()) == 100
    assert [part.out_of for part in scored(FORM).parts] == list(OUT_OF.values())


def test_a_skill_without_a_suite_has_a_score_and_nothing_for_tests() -> None:
    found = scored(FORM)
    assert points(found) == {"form": 20, "found": 10, "safe": 20, "tested": 0, "helps": 0}
    assert found.score == 50
    assert next(part.reason for part in found.parts if part.part == "tested") == "It has no suite of tests."


def test_a_skill_of_which_all_is_known_and_good_has_a_hundred() -> None:
    suite = (
        ROUTING
        + """
scripts:
  - {script: scripts/fill.py}
rules:
  - {tool: Read, expect: allow}
  - {tool: Bash, arguments: {command: ls}, expect: deny}
evals:
  - {prompt: Fill it., assertions: [It is filled.]}
  - {prompt: Check it., assertions: [It is checked.]}
  - {prompt: List it., assertions: [It is listed.]}
"""
    )
    (entry,) = library(
        skill(
            "pdf",
            description=GOOD,
            allowed_tools="Read",
            files={"scripts/fill.py": "print(1)", "evals/suite.yaml": suite},
        )
    )
    tiers = (FORM, tier("routing", ["passed"] * 6), tier("scripts", ["passed"]), tier("rules", ["passed"] * 2))
    found = score_of(entry, report_on(entry, tiers), KnownBenefit(lift="better", helped=5))
    assert (found.score, found.advice) == (100, ())


def test_advice_brings_what_it_says_and_the_most_comes_first() -> None:
    found = scored(FORM)
    gains = [one.points for one in found.advice]
    assert gains == sorted(gains, reverse=True)
    assert round(sum(part.points for part in found.parts) + sum(gains)) == 100
    assert found.advice[0].text.startswith("Write prompts that should bring it up")


@pytest.mark.parametrize(
    ("description", "expected", "told"),
    [
        (GOOD, 10, ""),
        (GOOD.replace("Use it when", "It is said that"), 6, "when to use it"),
        ("Fills in forms when asked.", 10 * (0.6 * 26 / 80 + 0.4), "at least 80 characters"),
    ],
)
def test_a_description_says_what_it_does_and_when(description: str, expected: float, told: str) -> None:
    found = scored(FORM, description=description)
    assert points(found)["found"] == pytest.approx(expected, abs=0.06)
    assert any(told in one.text for one in found.advice)


def test_prompts_that_fail_and_few_prompts_are_worth_less() -> None:
    def found(*verdicts: Verdict) -> float:
        return points(scored(FORM, tier("routing", verdicts)))["found"] - 10

    all_: tuple[Verdict, ...] = ("passed",) * 6
    assert found(*all_) == 15
    assert found("passed") == 2.5
    assert found("passed", "passed", "passed", "passed", "passed", "failed") == 12.5
    assert found("skipped") == 0


@pytest.mark.parametrize(
    ("severity", "expected"), [("info", 20), ("low", 16), ("medium", 8), ("high", 0), ("critical", 0)]
)
def test_findings_of_the_scanner_cost_points_by_the_worst(severity: str, expected: float) -> None:
    findings = [{"severity": "info", "rule": "a"}, {"severity": severity, "rule": "b"}]
    assert points(scored(tier("form", [], cases={"scan": {"findings": findings}})))["safe"] == expected


def test_findings_that_somebody_answers_for_cost_nothing_and_a_scan_that_failed_costs_all() -> None:
    answered = {"severity": "high", "rule": "a", "suppressed_by": "ada"}
    failed = {"severity": "high", "rule": "SCAN_FAILED"}
    assert points(scored(tier("form", [], cases={"scan": {"findings": [answered]}})))["safe"] == 20
    assert points(scored(tier("form", [], cases={"scan": {"findings": [failed]}})))["safe"] == 0
    assert points(scored(tier("form", ["passed"])))["safe"] == 0


def test_checks_of_form_that_could_not_be_made_count_neither_way() -> None:
    found = scored(tier("form", ["passed", "failed", "skipped"], cases=SCANNED))
    assert points(found)["form"] == 10
    assert any(one.text == "Mend its form: It is odd." for one in found.advice)


def test_points_for_what_a_skill_does_not_have_go_to_the_rest_of_the_part() -> None:
    files = {"evals/suite.yaml": ROUTING}
    assert points(scored(FORM, files=files))["tested"] == 10
    with_script = files | {"scripts/a.py": "print(1)"}
    assert points(scored(FORM, files=with_script))["tested"] == pytest.approx(6.7)
    assert points(scored(FORM, files=with_script, allowed_tools="Read"))["tested"] == 5


def test_only_cases_that_pass_show_that_a_script_is_tested() -> None:
    files = {"scripts/a.py": "", "scripts/b.py": "", "evals/suite.yaml": "scripts:\n  - {script: scripts/a.py}\n"}
    passes, fails = tier("scripts", ["passed"]), tier("scripts", ["failed"])
    assert points(scored(FORM, passes, files=files))["tested"] == pytest.approx(3.3)
    assert points(scored(FORM, fails, files=files))["tested"] == 0


@pytest.mark.parametrize(
    ("lift", "expected"), [("better", 10), ("no effect", 2), ("underpowered", 2), ("worse", 0), ("", 0)]
)
def test_what_agents_do_with_it_counts_by_its_verdict(lift: str, expected: float) -> None:
    assert points(scored(FORM, benefit=KnownBenefit(lift=lift)))["helps"] == expected
    run = tier("behaviour", ["passed"], runners={"claude-code": lifts(lift)} if lift else {})
    assert points(scored(FORM, run))["helps"] == expected


def lifts(verdict: str) -> dict[str, Any]:
    """The results of one model, better than the version before and this against no skill."""
    return {"lifts": [{"over": "previous", "verdict": "better"}, {"over": "without", "verdict": verdict}]}


def test_of_several_models_the_worst_counts_and_a_script_of_the_skill_itself_never() -> None:
    good, bad = lifts("better"), lifts("worse")
    assert lift_of({"runners": {"openai:gpt-5": good, "claude-code": bad}}) == "worse"
    assert lift_of({"runners": {"scripted": good, "recorded:openai:gpt-5": good}}) == ""
    assert lift_of({"runners": {"scripted": good, "openai:gpt-5": lifts("no effect")}}) == "no effect"
    assert lift_of({}) == ""


def test_feedback_counts_in_full_only_with_several_answers() -> None:
    def helps(helped: int, not_helped: int) -> float:
        return points(scored(FORM, benefit=KnownBenefit(helped=helped, not_helped=not_helped)))["helps"]

    assert [helps(1, 0), helps(5, 0), helps(5, 5), helps(0, 9)] == [1, 5, 2.5, 0]


def test_a_skill_that_cannot_be_tested_has_no_points_and_one_advice() -> None:
    (entry,) = library("pdf")
    report = SkillReport(name="pdf", digest="", location="", tiers=(tier("form", ["failed"]),))
    found = score_of(entry, report)
    assert (found.score, [one.points for one in found.advice]) == (0, [100])
    assert "It is odd." in found.advice[0].text
