"""A model as judge."""

from __future__ import annotations

import importlib
import json
import re
import sys

import anyio
import pytest

from metier.errors import MetierError
from metier.proof.agent_runner import judge_of
from metier.proof.budget import TrialBudget
from metier.proof.graders import grade_all
from metier.proof.judge import MAX_SHOWN, Judge
from metier.proof.suite import Assertion, BehaviourCase, CalibrationCase
from metier.proof.suite_reader import read_suite
from metier.proof.trial import Transcript
from metier.skill import MemoryPackage

KIND = Assertion(kind="judge", target="The answer is in French.", paths=("notes.md",))
CASE = BehaviourCase(id="1", prompt="Répondez.", expected_output="A greeting.")
TEXT = Transcript(answer="Bonjour.", after={"notes.md": b"Salut."})


class HonestJudge:
    """A model that knows what is asked in these tests, and keeps what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        holds = "| The capital of France is Paris." in prompt or "| Bonjour." in prompt
        nonce = re.findall(r"^begin (.*)$", prompt, re.MULTILINE)[0]
        return "```json\n" + json.dumps({"why": "I read it.", "holds": holds, "number": nonce}) + "\n```"


def test_a_judge_grades_by_the_task_the_aim_the_answer_and_the_files_that_are_listed() -> None:
    model = HonestJudge()
    good, bad = (anyio.run(Judge(model).grade, KIND, one, CASE) for one in (TEXT, Transcript(answer="Hello.")))
    assert (good.passed, good.why) == (True, "The judge says: I read it.")
    assert bad.passed is False
    for line in ("| Répondez.", "| A greeting.", "| Bonjour.", "| Salut.", '"The answer is in French."'):
        assert line in model.prompts[2]
    assert "| (there is no such file)" in model.prompts[-1]


def test_a_suite_lists_the_files_that_a_judge_is_shown() -> None:
    suite = {
        "evals": [{"prompt": "Hi.", "assertions": [{"judge": {"sentence": "It is kind.", "files": ["notes.md"]}}]}]
    }
    package = MemoryPackage({"SKILL.md": "", "evals/suite.json": json.dumps(suite)})
    (assertion,) = read_suite(package).behaviour[0].assertions
    assert assertion == Assertion(kind="judge", target="It is kind.", paths=("notes.md",))


def test_each_question_has_a_number_of_its_own() -> None:
    model = HonestJudge()
    judge = Judge(model)
    anyio.run(judge.grade, KIND, TEXT)
    numbers = {re.findall(r"^begin (.*)$", prompt, re.MULTILINE)[0] for prompt in model.prompts}
    assert len(numbers) == len(model.prompts) == 3


def test_a_judge_is_calibrated_once_by_the_cases_of_the_suite_too() -> None:
    model = HonestJudge()
    judge = Judge(model, [CalibrationCase(sentence="It is French.", answer="Bonjour.", holds=True)])
    grades = anyio.run(grade_all, [KIND, KIND], TEXT, judge, CASE)
    assert [one.passed for one in grades] == [True, True]
    assert len(model.prompts) == 3 + 2


def test_a_judge_that_grades_a_case_of_the_suite_wrongly_grades_nothing() -> None:
    judge = Judge(HonestJudge(), [CalibrationCase(sentence="It is French.", answer="Salut.", holds=True)])
    found = anyio.run(judge.grade, KIND, TEXT)
    assert found.passed is None
    assert "'It is French.' of the answer 'Salut.' is true, and it gave false." in found.why


def test_a_judge_that_cannot_be_reached_leaves_sentences_open() -> None:
    async def fails(prompt: str) -> str:
        raise MetierError("Nothing is left of the budget.")

    found = anyio.run(Judge(fails).grade, KIND, TEXT)
    assert (found.passed, found.why) == (
        None, "The judge cannot be used: the model failed: Nothing is left of the budget."
    )  # fmt: skip


def test_a_judge_that_fails_later_leaves_that_sentence_open() -> None:
    model = HonestJudge()

    async def fails_later(prompt: str) -> str:
        if "| Bonjour." in prompt:
            raise ValueError("over\x1b")
        return await model(prompt)

    assert anyio.run(Judge(fails_later).grade, KIND, TEXT).why == "the model failed: ValueError: over\\x1b"


@pytest.mark.each("answer", ["x" * MAX_SHOWN, "\U000e0041" * (MAX_SHOWN // 8)])
def test_a_trial_with_more_text_than_a_judge_reads_fails(answer: str) -> None:
    found = anyio.run(Judge(HonestJudge()).grade, KIND, Transcript(answer=answer, after=TEXT.after))
    assert (found.passed, "characters for a judge to read" in found.why) == (False, True)


def test_a_trial_that_came_to_no_end_is_shown_to_no_judge() -> None:
    model = HonestJudge()
    (found,) = anyio.run(grade_all, [KIND], Transcript(answer="Bonjour.", error="timeout: 5 s"), Judge(model), CASE)
    assert (found.passed, model.prompts) == (False, [])


def test_a_model_by_its_name_judges() -> None:
    found = anyio.run(Judge(judge_of("test", TrialBudget())).grade, KIND, TEXT)
    assert found.passed is None
    assert "graded a known case wrongly" in found.why


def test_without_the_part_for_agents_a_model_as_judge_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "metier.proof.agent_runner")
    monkeypatch.setitem(sys.modules, "pydantic_ai.messages", None)
    with pytest.raises(MetierError, match="pydantic-ai") as caught:
        importlib.import_module("metier.proof.agent_runner")
    assert "metier[agent]" in str(caught.value.hint)
