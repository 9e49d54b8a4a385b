"""Policy requires tests and scores of exactly the content that is used, as far as records of people vouch for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library, Policy, Session
from metier.errors import NotPermitted, Refused
from metier.guard import Action, Actor, Guard
from metier.guard.audit.governance_events import actor_of, record_event
from metier.hints import for_model
from metier.proof.report import CaseResult, Report, SkillReport, TierResult, Verdict
from metier.proof.result_records import OFFLINE_TIERS, benefit_of, record_results
from metier.proof.score import KnownBenefit
from metier.proof.suite import Note
from metier.session.active_skills import subject_of
from metier.store import Person, Store, TenantScope, TierRun

Begin = Callable[..., Session]
Put = Callable[..., Path]
Write = Callable[[str], Path]
Made = Callable[..., Library]

AUTHOR = Person(name="eve", roles=frozenset({"author"}))
ROBOT = Person(name="robot", kind="agent", roles=frozenset({"admin"}))
TESTS = "version: 1\nskills: {require-tests: [form, rules]}\n"
SCORE = "version: 1\nskills: {require-score: 60}\n"


def code_of(begin: Begin, name: str = "pdf") -> str:
    """The code with which loading a skill is refused; empty where it is loaded."""
    try:
        begin().load(name)
    except Refused as error:
        return error.code
    return ""


def report_on(library: Library, *notes: Note, **verdicts: Verdict) -> Report:
    """A report on `pdf` with one case for each tier; a tier without a verdict was not run."""
    entry = library.get("pdf")
    tiers = tuple(
        TierResult.of(tier, [CaseResult(id="1", verdict=verdicts[tier])]) for tier in OFFLINE_TIERS if tier in verdicts
    )
    skill = SkillReport(name="pdf", digest=library.digest(entry), location=entry.location, tiers=tiers, notes=notes)
    return Report(skills=(skill,))


def record(scope: TenantScope, library: Library, person: Person = AUTHOR, *notes: Note, **verdicts: Verdict) -> int:
    (score,) = record_results(scope, person, report_on(library, *notes, **verdicts), [library.get("pdf")])
    return score.score


def test_a_skill_is_used_once_it_has_passed_the_tests_and_no_longer_when_it_changed(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    folder = put("personal", "pdf")
    enterprise(TESTS)
    assert code_of(begin) == "tests-missing"
    record(scope, library(), form="passed", rules="failed")
    assert code_of(begin) == "tests-missing"
    record(scope, library(), rules="passed")
    assert code_of(begin) == ""
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Does more.\n---\nDo more.\n")
    assert code_of(begin) == "tests-missing"


def test_the_refusal_names_what_is_missing_and_the_command_for_people_alone(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    path = enterprise(TESTS)
    record(scope, library(), form="failed")
    with pytest.raises(Refused) as caught:
        begin().load("pdf")
    assert "form (failed), rules (not run)" in caught.value.message
    assert "`metier test pdf@personal`" in str(caught.value.hint)
    assert "metier test" not in for_model(caught.value.hint, {})
    assert str(path) in str(caught.value.context)


def test_every_use_is_refused_and_looking_is_not(put: Put, library: Made, enterprise: Write) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    found = library()
    subject = subject_of(found.get("pdf"), found.digest("pdf"))
    guard = Guard(Policy(hooks="allow", injection="allow"))
    for point in ("load", "read", "run", "hook", "inject"):
        assert guard.decide(Action(point=point, skill=subject, by="user")).code == "tests-missing", point
    assert guard.decide(Action(point="discover", skill=subject)).is_allowed


def test_scripts_that_a_skill_does_not_have_need_no_tests(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise("version: 1\nskills: {require-tests: [scripts]}\n")
    entry = library().get("pdf")
    nothing = SkillReport(
        name="pdf", digest=entry.package.digest(), location=entry.location, tiers=(TierResult.of("scripts", []),)
    )
    record_results(scope, AUTHOR, Report(skills=(nothing,)), [entry])
    assert code_of(begin) == ""
    put("personal", "pdf", **{"scripts/x.py": "print(1)\n"})
    entry = library().get("pdf")
    untested = SkillReport(
        name="pdf", digest=entry.package.digest(), location=entry.location, tiers=(TierResult.of("scripts", []),)
    )
    record_results(scope, AUTHOR, Report(skills=(untested,)), [entry])
    assert code_of(begin) == "tests-missing"


def test_a_suite_with_an_error_passes_nothing_but_the_form(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    wrong = Note(message="It cannot be read.", is_error=True)
    record(scope, library(), AUTHOR, wrong, form="passed", rules="passed")
    assert scope.state().tested[library().digest("pdf")]["rules"] == "failed"
    assert code_of(begin) == "tests-missing"


def test_a_score_must_be_high_enough(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(SCORE)
    assert code_of(begin) == "score-too-low"
    score = record(scope, library(), form="passed", routing="passed", scripts="passed", rules="passed")
    assert code_of(begin) == "score-too-low"
    enterprise(SCORE.replace("60", str(score)))
    assert code_of(begin) == ""


def test_a_part_of_the_tests_gives_no_score(put: Put, library: Made, scope: TenantScope) -> None:
    put("personal", "pdf")
    record(scope, library(), form="passed")
    assert "score" not in scope.state().tested[library().digest("pdf")]


def test_results_of_an_agent_are_kept_and_satisfy_no_policy(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    record(scope, library(), ROBOT, form="passed", rules="passed")
    assert [(run.tier, run.by) for run in scope.test_results.latest(library().digest("pdf"))] == [
        ("form", "robot"), ("rules", "robot"),
    ]  # fmt: skip
    notes = ("form passed", "rules passed")
    record_event(scope, "skill.tested", actor_of(ROBOT, scope), digest=library().digest("pdf"), notes=notes)
    assert code_of(begin) == "tests-missing"


def test_the_benefit_of_a_content_is_what_people_said_of_it_last_and_what_models_did(
    put: Put, library: Made, scope: TenantScope
) -> None:
    put("personal", "pdf")
    entry, digest = library().get("pdf"), library().digest("pdf")
    lifts = {"lifts": [{"over": "without", "verdict": "no effect"}]}
    tier = TierResult.of("behaviour", [CaseResult(id="1", verdict="passed")], data={"runners": {"claude-code": lifts}})
    report = SkillReport(name="pdf", digest=digest, location=entry.location, tiers=(tier,))
    scope.test_results.add(TierRun(digest=digest, skill="pdf", tier="behaviour", verdict="passed", report=tier.data))
    assert benefit_of(scope, digest) == KnownBenefit()
    record_results(scope, AUTHOR, Report(skills=(report,)), [entry])
    for user, agent, word in (
        ("ada", None, "helped"), ("ada", None, "not-helped"), ("sam", None, "helped"), ("sam", "robot", "not-helped"),
    ):  # fmt: skip
        record_event(scope, f"feedback.{word}", Actor(user=user, agent=agent), "pdf@personal", digest=digest)
    assert benefit_of(scope, digest) == KnownBenefit(lift="no effect", helped=1, not_helped=1)
    assert benefit_of(scope, "sha256:other") == KnownBenefit()


def test_who_is_no_author_records_nothing(put: Put, library: Made, scope: TenantScope) -> None:
    put("personal", "pdf")
    viewer = Person(name="vic", roles=frozenset({"viewer"}))
    with pytest.raises(NotPermitted):
        record(scope, library(), viewer, form="passed")
    assert scope.test_results.latest(library().digest("pdf")) == []
    assert [one["type"] for one in scope.audit.tail(1)] == ["skill.refused"]


def test_a_row_without_its_record_satisfies_no_policy(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    digest = library().digest("pdf")
    for tier in ("form", "rules"):
        scope.test_results.add(TierRun(digest=digest, skill="pdf@personal", tier=tier, verdict="passed", score=100))
    assert code_of(begin) == "tests-missing"


def test_a_record_that_was_changed_in_the_database_satisfies_no_policy(
    put: Put, begin: Begin, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    record(scope, library(), form="failed", rules="failed")
    path = scope.store.url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as database:
        database.execute("DROP TRIGGER audit_log_no_update")
        database.execute("UPDATE audit_log SET data_json = replace(data_json, 'failed', 'passed')")
    with Store.open() as store:
        assert store.of().recorded_decisions().tested == {}
    assert code_of(begin) == "tests-missing"


def test_results_for_the_whole_installation_count_for_its_tenants_and_not_the_other_way(
    put: Put, library: Made, enterprise: Write, scope: TenantScope
) -> None:
    put("personal", "pdf")
    enterprise(TESTS)
    found = library()
    action = Action(point="load", skill=subject_of(found.get("pdf"), found.digest("pdf")), by="user")

    def codes() -> list[str]:
        return [Guard().decide(action, Actor(tenant=tenant)).code for tenant in (None, "acme", "other")]

    record(scope.store.of("acme"), found, form="passed", rules="passed")
    assert codes() == ["tests-missing", "", "tests-missing"]
    record(scope, found, form="passed", rules="passed")
    assert codes() == ["", "", ""]


def test_the_same_result_is_recorded_once(put: Put, library: Made, scope: TenantScope) -> None:
    put("personal", "pdf")
    for _ in range(3):
        record(scope, library(), form="passed", rules="passed")
    assert len(scope.audit.search(type="skill.tested")) == 1
    assert len(scope.test_results.all(library().digest("pdf"))) == 2


def test_policy_that_only_watches_refuses_nothing(put: Put, begin: Begin, enterprise: Write) -> None:
    put("personal", "pdf")
    enterprise(f"{TESTS}mode: audit\n")
    assert code_of(begin) == ""
