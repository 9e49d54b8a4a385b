"""The same suite with a script, a model on a wire and its recording: equal answers have equal verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.proof.trials import FILL, WRITTEN, behaviour_of
from tests.wire.clients import API_KEY
from tests.wire.server import Recorder, recorded_model

from metier._lazy import replace
from metier.proof.agent_runner import ModelRunner
from metier.proof.report import TierResult
from metier.proof.suite import Assertion, ModelStep, TextMatch

ASSERTIONS = (
    WRITTEN,
    Assertion(kind="skill-read"),
    Assertion(kind="called", target="skills_run"),
    Assertion(kind="answer", match=TextMatch(contains=("filled in",))),
    Assertion(kind="changed-only", paths=("form.txt",)),
    Assertion(kind="file", target="form.txt", match=TextMatch(contains=("Bob",))),
)
"""Of which the last fails with the skill."""
CASES = (
    replace(FILL, assertions=ASSERTIONS[:-1]),
    replace(FILL, id="bob", assertions=ASSERTIONS),
)


def fixtures(steps: tuple[ModelStep, ...], **match: Any) -> Iterator[dict[str, Any]]:
    """The steps of a script as the model on the wire reads them."""
    for turn, step in enumerate(steps):
        calls = [{"name": name, "arguments": dict(arguments)} for name, arguments in step.calls]
        response = {"toolCalls": calls} if calls else {"content": step.say}
        yield {"match": {"userMessage": FILL.prompt, "turnIndex": turn, **match}, "response": response}


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """A model on the wire that answers as the case says, with the skill and without it."""
    with_skill = fixtures(FILL.steps, systemMessage="Fills in forms.")
    with recorded_model([*with_skill, *fixtures(FILL.steps_without)], tmp_path_factory.mktemp("model")) as recorder:
        yield recorder


def wire_model(recorder: Recorder) -> Model:
    """OpenAI's own client, which talks to the wire."""
    return OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=f"{recorder.url}/v1", api_key=API_KEY))


def grades(result: TierResult) -> list[tuple[str, str, str, list[tuple[str, bool | None, str]]]]:
    """The case, arm, verdict and grades of each trial."""
    return [
        (
            case.id.partition(" [")[0],
            trial["arm"],
            trial["verdict"],
            [(one["kind"], one["passed"], one["why"]) for one in trial["grades"]],
        )
        for case in result.cases
        if "trials" in case.data
        for trial in case.data["trials"]
    ]


def test_the_same_suite_has_the_same_verdicts_by_script_on_the_wire_and_replayed(
    wire: Recorder, tmp_path: Path
) -> None:
    wire.begin()
    on_wire = behaviour_of(*CASES, into=tmp_path, runners=(ModelRunner(wire_model(wire)),), record=True)
    assert len(wire.requests) == 2 * (3 + 1), "both cases, three requests with the skill and one without"
    files = {
        path.relative_to(tmp_path / "forms").as_posix(): path.read_bytes()
        for path in (tmp_path / "forms").rglob("*")
        if path.is_file()
    }
    wire.begin()
    replayed = behaviour_of(*CASES, files=files, runners=("recorded",))
    scripted = behaviour_of(*CASES, runners=("scripted",))
    assert wire.requests == []
    found = grades(scripted)
    assert [(case, arm, verdict) for case, arm, verdict, _ in found] == [
        ("fill", "with", "passed"),
        ("fill", "without", "failed"),
        ("bob", "with", "failed"),
        ("bob", "without", "failed"),
    ]
    assert grades(on_wire) == found
    assert grades(replayed) == found
    lifts = [next(iter(one.data["runners"].values()))["lifts"][0] for one in (scripted, on_wire, replayed)]
    assert [(one["verdict"], one["wins"], one["losses"], one["pairs"]) for one in lifts] == [
        ("underpowered", 1, 0, 2)
    ] * 3


def test_what_a_provider_counts_is_what_a_trial_cost(wire: Recorder, tmp_path: Path) -> None:
    wire.begin()
    found = behaviour_of(CASES[0], runners=(ModelRunner(wire_model(wire)),), arms=("with",))
    (trial,) = found.cases[0].data["trials"]
    assert trial["model"] == "gpt-5"
    assert trial["input_tokens"] > 0
    assert trial["cost"] == pytest.approx((trial["input_tokens"] * 1.25 + trial["output_tokens"] * 10) / 1e6)
    assert found.cost == pytest.approx(trial["cost"])
