"""The tier of behaviour: arms, repetitions, pairs, verdicts and budgets."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after, sleep
from anyio.lowlevel import checkpoint
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.usage import RequestUsage
from tests.proof.trials import (
    FILL,
    FORMS,
    LOAD,
    READ,
    WRITTEN,
    Act,
    behaviour_of,
    case_of,
    does_as_told,
    lift_of,
    model_of,
    subject,
)

from metier._lazy import replace
from metier.errors import InvalidArgument
from metier.proof.agent_runner import ModelRunner
from metier.proof.behaviour import BehaviourSettings, run_behaviour
from metier.proof.budget import TrialBudget
from metier.proof.model_price import ModelPrice
from metier.proof.suite import Assertion, BehaviourCase, CalibrationCase, ModelStep, Suite
from metier.proof.trial import Arm, Transcript, Trial
from metier.testing import skill

CASES = tuple(replace(FILL, id=f"fill-{number}", prompt=f"Fill in form {number}.") for number in range(8))
PRICE = ModelPrice(input=1.0, output=10.0)


class FakeRunner:
    """An executor whose trials are made up, and that keeps their terms."""

    name = "fake"

    def __init__(self, play: Any, *, refused: str = "", until: int = 0) -> None:
        self._play = play
        self._until = until
        """So many trials must have run at once before one ends."""
        self._refused = refused
        self.trials: list[Trial] = []
        self.at_once = 0
        self.most_at_once = 0

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        return self._refused

    async def run(self, trial: Trial) -> Transcript:
        self.trials.append(trial)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        with fail_after(60):
            await checkpoint()
            while self.most_at_once < self._until:
                await sleep(0.001)
        self.at_once -= 1
        found: Transcript = self._play(trial)
        return found


def done(**values: Any) -> Transcript:
    """The transcript of a trial that did what was asked."""
    return Transcript(after={"form.txt": b"Ada"}, **{"skill_read": True, **values})


def undone(**values: Any) -> Transcript:
    """The transcript of a trial that did nothing."""
    return Transcript(**values)


def helps(trial: Trial) -> Transcript:
    """The skill does it, and nothing else does."""
    return done() if trial.arm == "with" else undone()


# --- cases ----------------------------------------------------------------------------------------------------------


def test_by_default_cases_with_steps_are_played_and_others_say_how_they_are_run() -> None:
    found = behaviour_of(FILL, replace(FILL, id="open", steps=(), steps_without=()))
    assert found.verdict == "passed"
    assert case_of(found).verdict == "passed"
    left = case_of(found, "open")
    assert left.verdict == "skipped"
    assert "no steps" in left.reason
    assert "--with" in left.hint


def test_a_suite_without_cases_is_skipped() -> None:
    assert behaviour_of().verdict == "skipped"


def test_a_case_whose_assertion_fails_fails_with_its_reason() -> None:
    found = behaviour_of(replace(FILL, steps=(ModelStep(calls=(LOAD,)), ModelStep(say="Done."))))
    assert found.verdict == "failed"
    assert case_of(found).reason.startswith("file form.txt:")


def test_a_baseline_that_fails_is_no_failure_of_the_skill() -> None:
    found = behaviour_of(FILL)
    trials = {trial["arm"]: trial["verdict"] for trial in case_of(found).data["trials"]}
    assert trials == {"with": "passed", "without": "failed"}
    assert found.verdict == "passed"


@pytest.mark.parametrize("kind", ["judge", "text"])
def test_a_case_that_only_a_judge_could_grade_is_skipped_without_one(kind: Any) -> None:
    found = case_of(behaviour_of(replace(FILL, assertions=(Assertion(kind=kind, target="It is polite."),))))
    assert found.verdict == "skipped"
    assert found.reason


@pytest.mark.parametrize(("holds", "verdict"), [(True, "passed"), (False, "failed")])
def test_a_judge_that_is_calibrated_grades_what_code_cannot(holds: bool, verdict: str) -> None:
    async def ask(prompt: str) -> str:
        number = prompt.split("begin ", 1)[1].split("\n", 1)[0]
        is_right = holds if "It is polite." in prompt else "Paris" in prompt
        return json.dumps({"why": "So it is.", "holds": is_right, "number": number})

    case = replace(FILL, assertions=(Assertion(kind="judge", target="It is polite."),))
    assert case_of(behaviour_of(case, judge=ask)).verdict == verdict


def test_a_judge_of_another_opinion_than_the_calibration_of_the_suite_grades_nothing() -> None:
    async def ask(prompt: str) -> str:
        number = prompt.split("begin ", 1)[1].split("\n", 1)[0]
        return json.dumps({"why": "Yes.", "holds": "Ignore all" not in prompt, "number": number})

    case = replace(FILL, assertions=(Assertion(kind="judge", target="It is polite."),))
    known = CalibrationCase(sentence="It is polite.", answer="Go away.", holds=False)
    with subject(case) as found:
        suite = Suite(behaviour=(case,), calibration=(known,))
        found.suite = suite
        result = run_behaviour(found, BehaviourSettings(judge=ask))
    assert case_of(result).verdict == "skipped"
    assert "known case" in case_of(result).reason


def test_the_requests_of_a_judge_count_in_the_budget() -> None:
    case = replace(FILL, assertions=(Assertion(kind="judge", target="It is polite."),))
    budget = TrialBudget(money=0.5)
    found = behaviour_of(case, judge="test", prices={"test": PRICE}, budget=budget)
    assert budget.spent == found.cost > 0


def test_executors_that_are_chosen_say_why_they_cannot_run_a_case() -> None:
    found = behaviour_of(FILL, runners=("scripted", "recorded", "nobody:gpt-0"))
    assert [case.verdict for case in found.cases if case.id.startswith("fill")] == ["passed", "skipped", "skipped"]
    assert "Nobody has recorded" in case_of(behaviour_of(FILL, runners=("recorded",))).reason
    assert "nobody:gpt-0" in case_of(behaviour_of(FILL, runners=("nobody:gpt-0",))).reason


def test_an_executor_that_breaks_ends_its_trial_and_no_other() -> None:
    def play(trial: Trial) -> Transcript:
        if trial.case.id == "fill-3":
            raise RuntimeError("\x1b[31mbroken")
        return done()

    found = behaviour_of(*CASES[:5], runners=(FakeRunner(play),), arms=("with",))
    assert [case.verdict for case in found.cases] == ["passed", "passed", "passed", "failed", "passed"]
    assert "RuntimeError" in found.cases[3].reason
    assert "\x1b" not in found.cases[3].reason


def test_a_share_of_trials_may_fail_where_somebody_says_so() -> None:
    def play(trial: Trial) -> Transcript:
        return undone() if trial.number == 0 else done()

    def verdict(**settings: Any) -> tuple[str, str]:
        found = case_of(behaviour_of(FILL, runners=(FakeRunner(play),), repeats=5, arms=("with",), **settings))
        return found.verdict, found.reason

    assert verdict()[0] == "failed"
    assert verdict()[1].startswith("1 of 5 trials failed: file form.txt")
    assert verdict(min_pass_rate=0.8)[0] == "passed"
    assert verdict(min_pass_rate=0.81)[0] == "failed"


@pytest.mark.parametrize(
    "settings",
    [{"repeats": 0}, {"concurrency": 0}, {"min_pass_rate": 1.5}, {"bound": 0.0}, {"arms": ("without",)}],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        BehaviourSettings(**settings)


# --- trials ---------------------------------------------------------------------------------------------------------


def test_each_trial_has_a_workspace_of_its_own_with_the_files_of_the_case() -> None:
    def play(trial: Trial) -> Transcript:
        assert [path.name for path in trial.workspace.iterdir()] == ["order.txt"]
        (trial.workspace / "left.txt").write_text("x")
        return done()

    runner = FakeRunner(play)
    found = behaviour_of(FILL, runners=(runner,), repeats=3)
    assert case_of(found).verdict == "passed", case_of(found).reason
    assert len({trial.workspace for trial in runner.trials}) == 6


def test_arms_alternate_and_the_arm_without_has_no_skill() -> None:
    runner = FakeRunner(helps)
    behaviour_of(*CASES[:2], runners=(runner,), repeats=2, concurrency=1)
    order = [(trial.number, trial.case.id, trial.arm) for trial in runner.trials]
    assert order == [
        (number, f"fill-{case}", arm) for number in (0, 1) for case in (0, 1) for arm in ("with", "without")
    ]
    assert {(trial.arm, trial.folder is None) for trial in runner.trials} == {("with", False), ("without", True)}


def test_the_copy_of_the_skill_has_no_tests() -> None:
    def play(trial: Trial) -> Transcript:
        assert trial.folder is not None
        assert sorted(path.name for path in trial.folder.iterdir()) == ["SKILL.md", "references", "scripts"]
        return done()

    files = {**FORMS, "evals/secret.md": "the answer"}
    assert case_of(behaviour_of(FILL, files=files, runners=(FakeRunner(play),), arms=("with",))).verdict == "passed"


@pytest.mark.parametrize("concurrency", [1, 3])
def test_so_many_trials_run_at_once(concurrency: int) -> None:
    runner = FakeRunner(helps, until=concurrency)
    behaviour_of(*CASES, runners=(runner,), concurrency=concurrency)
    assert runner.most_at_once == concurrency


def test_results_do_not_depend_on_how_many_run_at_once() -> None:
    source = random.Random(2)
    outcomes = {
        (case.id, arm, n): source.random() < 0.5 for case in CASES for arm in ("with", "without") for n in (0, 1)
    }

    def play(trial: Trial) -> Transcript:
        return done() if outcomes[trial.case.id, trial.arm, trial.number] else undone()

    def result(concurrency: int) -> Any:
        found = behaviour_of(*CASES, runners=(FakeRunner(play),), repeats=2, concurrency=concurrency)
        return [(case.id, case.verdict, case.reason) for case in found.cases], found.data

    assert result(1) == result(8)


# --- the version before ---------------------------------------------------------------------------------------------


def test_the_version_before_is_an_arm_of_its_own_without_its_tests(tmp_path: Path) -> None:
    before = tmp_path / "before"
    for path, content in skill("forms", "Do nothing.", description="Fills in forms.").items():
        before.mkdir(exist_ok=True)
        (before / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    (before / "evals").mkdir()
    (before / "evals" / "evals.json").write_text("[]")
    seen: list[str] = []

    def play(trial: Trial) -> Transcript:
        if trial.arm == "previous":
            assert trial.folder is not None
            assert trial.folder.name == "forms"
            assert [path.name for path in trial.folder.iterdir()] == ["SKILL.md"]
            seen.append((trial.folder / "SKILL.md").read_text())
        return done()

    found = behaviour_of(FILL, runners=(FakeRunner(play),), previous={"forms": before})
    assert "Do nothing." in seen[0]
    assert lift_of(found, "the version before").data["pairs"] == 1
    assert "previous" not in behaviour_of(FILL, previous={"other": before}).data["runners"]["scripted"]["arms"]


# --- lift -----------------------------------------------------------------------------------------------------------


def test_a_skill_that_does_what_nothing_else_does_is_better() -> None:
    lift = lift_of(behaviour_of(*CASES, runners=(FakeRunner(helps),)))
    assert lift.verdict == "passed"
    assert lift.reason == "better: +100 points in 8 pairs (8 won, 0 lost, p = 0.0078)."


def test_a_skill_that_makes_it_worse_fails_though_its_own_threshold_is_met() -> None:
    def play(trial: Trial) -> Transcript:
        return done() if trial.arm == "without" else undone(skill_read=True)

    found = behaviour_of(*CASES, runners=(FakeRunner(play),), min_pass_rate=0.0)
    assert [case.verdict for case in found.cases[:-1]] == ["passed"] * 8
    assert lift_of(found).verdict == "failed"
    assert found.verdict == "failed"


def test_too_few_trials_are_underpowered_and_say_how_many_would_do() -> None:
    lift = lift_of(behaviour_of(*CASES[:4], runners=(FakeRunner(helps),)))
    assert lift.verdict == "skipped"
    assert lift.reason.startswith("underpowered: +100 points in 4 pairs (4 won, 0 lost, p = 0.12).")
    assert f"About {lift.data['needed']} pairs would decide it." in lift.reason
    assert f"with {100 * lift.data['power']:.0f} % power" in lift.reason


def test_equal_arms_have_no_effect_once_there_are_enough_trials() -> None:
    def lift(repeats: int) -> Any:
        return lift_of(behaviour_of(*CASES, runners=(FakeRunner(lambda trial: done()),), repeats=repeats)).data[
            "verdict"
        ]

    assert [lift(repeats) for repeats in (1, 5)] == ["underpowered", "no effect"]


def test_wins_without_reading_the_skill_are_said_and_prove_nothing() -> None:
    def play(trial: Trial) -> Transcript:
        return done(skill_read=trial.case.id > "fill-5") if trial.arm == "with" else undone()

    cases = [replace(case, assertions=(WRITTEN,)) for case in CASES]
    found = behaviour_of(*cases, runners=(FakeRunner(play),))
    assert lift_of(found).data["verdict"] == "underpowered"
    assert "In 6 of those won, the skill was not read" in lift_of(found).reason
    assert case_of(found, "fill-0").verdict == "passed"
    assert case_of(found, "fill-0").reason == "The skill was not read in 1 of 1 trials."
    assert found.data["runners"]["fake"]["arms"]["with"]["unread"] == 6


def test_that_the_skill_was_read_is_no_win_over_an_arm_that_has_none() -> None:
    cases = [replace(case, assertions=(WRITTEN, READ, Assertion(kind="called", target="skills_run"))) for case in CASES]
    found = behaviour_of(*cases, runners=(FakeRunner(lambda trial: done(skill_read=trial.arm == "with")),))
    assert (lift_of(found).data["wins"], lift_of(found).data["pairs"]) == (0, 8)


def test_trials_that_a_provider_ended_are_in_no_pair_and_still_fail() -> None:
    def play(trial: Trial) -> Transcript:
        return undone(error="model: 503") if (trial.case.id, trial.arm) == ("fill-0", "with") else helps(trial)

    found = behaviour_of(*CASES, runners=(FakeRunner(play),))
    assert case_of(found, "fill-0").verdict == "failed"
    assert lift_of(found).data["pairs"] == 7


def test_a_trial_that_ran_out_of_time_or_turns_counts_as_one_that_failed() -> None:
    def play(trial: Trial) -> Transcript:
        return done() if trial.arm == "with" else undone(error="timeout: It came to no end in 300 seconds.")

    assert lift_of(behaviour_of(*CASES, runners=(FakeRunner(play),))).data["verdict"] == "better"


def test_what_a_skill_costs_is_the_mean_of_the_differences_of_pairs() -> None:
    def play(trial: Trial) -> Transcript:
        is_with = trial.arm == "with"
        used = {"input_tokens": 300, "output_tokens": 20, "cost": 0.03, "seconds": 4.0, "turns": 3}
        base = {"input_tokens": 100, "output_tokens": 20, "cost": 0.01, "seconds": 5.0, "turns": 1}
        return done(**(used if is_with else base))

    found = behaviour_of(*CASES, runners=(FakeRunner(play),))
    lift = lift_of(found).data
    assert (lift["tokens"], lift["seconds"], lift["turns"]) == (200, -1.0, 2)
    assert lift["cost"] == pytest.approx(0.02)
    assert found.data["runners"]["fake"]["arms"]["with"]["tokens"] == 320


def test_a_cost_that_is_not_known_in_one_trial_is_not_known_at_all() -> None:
    def play(trial: Trial) -> Transcript:
        return done(cost=None if trial.case.id == "fill-0" else 0.1)

    assert lift_of(behaviour_of(*CASES, runners=(FakeRunner(play),))).data["cost"] is None


def test_pass_at_k_and_pass_all_k_are_means_over_the_cases() -> None:
    passing = {"fill-0": 4, "fill-1": 1}

    def play(trial: Trial) -> Transcript:
        return done() if trial.number < passing[trial.case.id] else undone()

    found = behaviour_of(*CASES[:2], runners=(FakeRunner(play),), repeats=4, arms=("with",))
    arm = found.data["runners"]["fake"]["arms"]["with"]
    assert arm["pass_at"] == {1: 0.625, 4: 1.0}
    assert arm["pass_all"] == {1: 0.625, 4: 0.5}


def test_every_executor_has_a_lift_of_its_own() -> None:
    other = FakeRunner(lambda trial: done())
    other.name = "other"
    found = behaviour_of(*CASES, runners=(FakeRunner(helps), other))
    lifts = {case.id: case.data["verdict"] for case in found.cases if case.id.startswith("lift")}
    assert lifts == {"lift over no skill [fake]": "better", "lift over no skill [other]": "underpowered"}


def test_the_verdict_of_a_tier_is_that_of_all_executors_together() -> None:
    other = FakeRunner(helps)
    other.name = "other"
    found = behaviour_of(*CASES[:4], runners=(FakeRunner(helps), other))
    assert {case.data["verdict"] for case in found.cases if case.id.startswith("lift")} == {"underpowered"}
    assert (found.data["verdict"], found.data["lift"]["pairs"]) == ("better", 8)


def test_a_script_is_no_evidence_that_a_skill_helps() -> None:
    found = behaviour_of(*CASES)
    assert not [case for case in found.cases if case.id.startswith("lift")]
    assert "verdict" not in found.data
    assert found.data["runners"]["scripted"]["lifts"][0]["wins"] == 8


def test_the_data_of_a_tier_are_json_values() -> None:
    found = behaviour_of(FILL)
    for data in (found.data, *(case.data for case in found.cases)):
        assert set(json.loads(json.dumps(data))) == set(data) != set()


# --- budgets --------------------------------------------------------------------------------------------------------


def spending(seed: int) -> Any:
    """A model whose requests cost something else each time, and that works for some turns."""
    source = random.Random(seed)
    usage = RequestUsage(input_tokens=0, output_tokens=0)

    def act(prompt: str, has_skill: bool, turn: int) -> Sequence[Act]:
        usage.input_tokens, usage.output_tokens = source.randrange(100, 4_000), source.randrange(1, 8_192)
        return ["Done."] if turn == 3 else [("Glob", {"pattern": "*"})]

    return model_of(act, usage=usage)


@pytest.mark.parametrize(
    ("seed", "concurrency"),
    [(1, 8), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(1, 1), (2, 1), (2, 8), (3, 1), (3, 8)])],
)
def test_money_is_never_exceeded_and_trials_that_were_not_run_say_so(seed: int, concurrency: int) -> None:
    budget = TrialBudget(money=1.0)
    runner = ModelRunner(spending(seed), price=PRICE)
    found = behaviour_of(*CASES, runners=(runner,), repeats=2, concurrency=concurrency, budget=budget)
    assert found.cost == budget.spent
    assert 0.8 < budget.spent <= 1.0
    reasons = [case.reason for case in found.cases if case.verdict == "skipped"]
    assert reasons
    assert any(reason.startswith("budget: The next call may cost") for reason in reasons)


def test_one_budget_is_for_all_skills_of_a_command() -> None:
    settings = BehaviourSettings(
        runners=(ModelRunner(spending(5), price=PRICE),), budget=TrialBudget(money=0.5), arms=("with",)
    )
    costs = []
    for _ in range(3):
        with subject(*CASES) as found:
            costs.append(run_behaviour(found, settings).cost)
    assert 0.3 < sum(costs) <= 0.5
    assert costs[2] == 0


def test_after_its_time_no_trial_begins() -> None:
    moments = iter([0.0, *(1.0,) * 6, *(1e9,) * 1_000])
    runner = FakeRunner(helps)
    budget = TrialBudget(seconds=100, clock=lambda: next(moments))
    found = behaviour_of(*CASES, runners=(runner,), concurrency=1, budget=budget)
    assert 0 < len(runner.trials) < 8
    assert found.cases[-2].reason == "budget: The time is over."
    assert runner.trials[0].max_seconds == 99.0


def test_a_trial_that_the_time_of_all_cut_short_is_no_failure() -> None:
    moments = iter([0.0, *(1.0,) * 2, *(1e9,) * 1_000])
    budget = TrialBudget(seconds=100, clock=lambda: next(moments))
    runner = FakeRunner(lambda trial: undone(error="timeout: It came to no end in 99 seconds."))
    found = case_of(behaviour_of(FILL, runners=(runner,), concurrency=1, budget=budget))
    assert (found.verdict, found.reason[:16]) == ("skipped", "budget: timeout:")


def test_a_failing_provider_is_not_asked_for_money() -> None:
    def fail(*_: Any) -> Any:
        raise ModelHTTPError(401, "fake", body="no key")

    budget = TrialBudget(money=0.2)
    found = behaviour_of(*CASES, runners=(ModelRunner(model_of(fail), price=PRICE),), budget=budget)
    assert budget.spent == 0.0
    assert {case.verdict for case in found.cases} == {"failed"}


def test_a_model_is_compared_with_itself_without_the_skill() -> None:
    found = behaviour_of(*CASES, runners=(ModelRunner(model_of(does_as_told), price=PRICE),))
    assert lift_of(found).data["verdict"] == "better"
    assert found.verdict == "passed"
