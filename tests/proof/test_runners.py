"""Trials through our own agent: with a script, with a model, and with recorded answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from tests.proof.trials import (
    CHECK,
    FILL,
    FORMS,
    LOAD,
    RUN,
    WRITE,
    behaviour_of,
    case_of,
    does_as_told,
    model_of,
    subject,
)

from metier._lazy import replace
from metier.proof.agent_runner import ModelRunner, ScriptedRunner
from metier.proof.budget import TrialBudget
from metier.proof.model_price import ModelPrice
from metier.proof.recordings import RecordedRunner, read_recordings
from metier.proof.suite import BehaviourCase, Environment, Mock, ModelStep, TextMatch
from metier.proof.trial import Arm, Transcript, Trial, TrialRunner
from metier.testing import ScriptedModel, Step, skill

PRICE = ModelPrice(input=1.0, output=10.0)


def transcript_of(
    runner: TrialRunner,
    case: BehaviourCase = FILL,
    *,
    arm: Arm = "with",
    files: Mapping[str, str | bytes] = FORMS,
    **options: Any,
) -> Transcript:
    """The transcript of one trial."""
    with subject(case, files=files) as found:
        trial = Trial(
            case=case,
            arm=arm,
            skill="forms",
            folder=None if arm == "without" else found.folder,
            workspace=found.workspace(case.environment.files),
            sources={"evals/mocks.py": b"def double(arguments):\n    return arguments['number'] * 2\n"},
            **options,
        )
        return anyio.run(runner.run, trial)


def played(*calls: tuple[str, dict[str, Any]], files: Mapping[str, str | bytes] = FORMS) -> Transcript:
    """The transcript of a script that makes these calls, one after the other, after it has loaded the skill."""
    steps = (*(ModelStep(calls=(call,)) for call in (LOAD, *calls)), ModelStep(say="Done."))
    return transcript_of(ScriptedRunner(), replace(FILL, steps=steps), files=files)


def test_a_script_is_played_with_the_skill_and_everything_is_traced() -> None:
    found = transcript_of(ScriptedRunner())
    assert [(one.tool, one.outcome) for one in found.calls] == [
        ("skills_load", "ok"), ("Write", "ok"), ("skills_run", "ok"),
    ]  # fmt: skip
    assert found.calls[1].arguments == WRITE[1]
    assert "accepted Ada" in found.calls[2].result
    assert found.before == {"order.txt": b"Ada\n"}
    assert found.after == {"order.txt": b"Ada\n", "form.txt": b"customer: Ada\n"}
    assert (found.answer, found.error, found.turns, found.cost) == ("It is filled in.", "", 3, 0.0)
    assert (found.skill_read, found.digest[:7]) == (True, "sha256:")
    assert found.tokens > 0


def test_without_the_skill_there_is_none_to_read() -> None:
    found = transcript_of(ScriptedRunner(), replace(FILL, steps_without=FILL.steps), arm="without")
    assert not found.skill_read
    assert found.calls[0].outcome == "failed"
    assert "form.txt" in found.after


def test_a_model_that_says_it_has_read_the_skill_has_not() -> None:
    case = replace(FILL, steps=(ModelStep(say='I called skills_load. <skill_content name="forms"> I read it.'),))
    assert not transcript_of(ScriptedRunner(), case).skill_read


COUNTS: list[tuple[str, list[tuple[str, dict[str, Any]]], tuple[int, int, int, int]]] = [
    ("nothing", [], (0, 0, 0, 0)),
    ("a file and a script", [("skills_read", {"path": "references/fields.md"}), RUN], (2, 0, 0, 0)),
    ("a wrong path, which leaves two records", [("skills_read", {"path": "fields.md"})], (1, 1, 0, 0)),
    ("a wrong path of a script, which is refused", [("skills_run", {"script": "check.py"})], (1, 1, 0, 1)),
    ("a file of the user that is not there", [("Read", {"file_path": "nothing.txt"})], (1, 1, 0, 0)),
    ("a file of the user", [("Read", {"file_path": "order.txt"})], (1, 0, 0, 0)),
    ("a script that is read", [("skills_read", {"path": "scripts/check.py"})], (1, 0, 1, 0)),
    ("what the skill forbids", [("Bash", {"command": "ls"})], (0, 0, 0, 1)),
    ("a tool that is not there", [("nothing", {})], (0, 0, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "expected"), [row[1:] for row in COUNTS], ids=[row[0] for row in COUNTS])
def test_paths_and_mistakes_are_counted_once(
    calls: list[tuple[str, dict[str, Any]]], expected: tuple[int, int, int, int]
) -> None:
    files = skill(
        "forms", "Do.", allowed_tools="Read", description="Fills in forms.",
        files={"scripts/check.py": CHECK, "references/fields.md": "customer\n"},
    )  # fmt: skip
    found = played(*calls, files=files)
    assert (found.paths, found.path_errors, found.script_reads, found.violations) == expected


def test_a_refused_call_is_traced_with_its_arguments_and_its_code() -> None:
    files = skill("forms", "Do.", description="Fills in forms.", allowed_tools="Read")
    call = played(("Bash", {"command": "echo " + "x" * 5_000}), files=files).calls[1]
    assert (call.outcome, call.code) == ("refused", "tool-not-allowed")
    assert len(call.arguments["command"]) == 5_005, "records shorten them"


def test_nothing_outside_of_the_workspace_is_written() -> None:
    found = played(("Write", {"file_path": "../outside.txt", "content": "x"}))
    assert found.calls[1].outcome != "ok"
    assert set(found.after) == {"order.txt"}


def test_mocks_stand_before_built_in_tools_and_beside_them() -> None:
    mocks = (
        Mock(tool="Bash", arguments={"command": TextMatch(contains=("weather",))}, result="sunny"),
        Mock(tool="crm_find", result="Ada Lovelace"),
        Mock(tool="double", function="evals/mocks.py:double"),
    )
    calls = (("Bash", {"command": "weather Rome"}), ("crm_find", {"name": "Ada"}), ("double", {"number": 21}), WRITE)
    steps = (ModelStep(calls=calls), ModelStep(say="Done."))
    found = transcript_of(ScriptedRunner(), replace(FILL, environment=Environment(mocks=mocks), steps=steps))
    assert [(one.outcome, one.result) for one in found.calls[:3]] == [
        ("ok", "sunny"), ("ok", "Ada Lovelace"), ("ok", "42"),
    ]  # fmt: skip
    assert "form.txt" in found.after


def test_rules_of_the_skill_hold_for_mocks() -> None:
    case = replace(
        FILL,
        environment=Environment(mocks=(Mock(tool="crm_find", result="Ada"),)),
        steps=(ModelStep(calls=(LOAD,)), ModelStep(calls=(("crm_find", {}),)), ModelStep(say="Done.")),
    )
    files = skill("forms", "Do.", description="Fills in forms.", allowed_tools="Read")
    assert transcript_of(ScriptedRunner(), case, files=files).calls[1].outcome == "refused"


def test_the_moment_of_a_case_is_told_to_the_model_and_to_scripts() -> None:
    model = ScriptedModel([LOAD, ("skills_run", {"script": "scripts/check.py"}), "Done."])
    now = "import datetime\nprint(datetime.date.today())\n"
    files = skill("forms", "Do.", description="Fills in forms.", files={"scripts/check.py": now})
    case = replace(FILL, environment=Environment(now="2026-01-31T12:00:00Z"))
    found = transcript_of(ModelRunner(model), case, files=files)
    assert "It is 2026-01-31T12:00:00Z." in model.requests[0].instructions
    assert "2026-01-31" in found.calls[1].result


def test_a_script_that_ends_too_early_is_an_error_that_says_so() -> None:
    found = transcript_of(ScriptedRunner(), replace(FILL, steps=(ModelStep(calls=(LOAD,)),)))
    assert found.error.startswith("model:")
    assert "The script has ended" in found.error


def test_a_model_that_never_ends_is_stopped_by_turns() -> None:
    model = model_of(lambda prompt, has_skill, turn: [("Glob", {"pattern": "*"})])
    found = transcript_of(ModelRunner(model, price=PRICE), replace(FILL, max_turns=4))
    assert found.error.startswith("turns:")
    assert (found.turns, len(found.calls)) == (4, 4)


def test_a_model_that_never_answers_is_stopped_by_time_and_what_it_did_is_kept() -> None:
    class Slow(ScriptedModel):
        async def request(self, *args: Any) -> Any:
            if len(self.requests) == 2:
                await anyio.sleep_forever()
            return await super().request(*args)

    found = transcript_of(ModelRunner(Slow([LOAD, WRITE, "Done."]), price=PRICE), max_seconds=0.5)
    assert found.error.startswith("timeout:")
    assert found.skill_read
    assert [one.tool for one in found.calls] == ["skills_load", "Write"]
    assert "form.txt" in found.after


SLEEPS = "import os, time\nfor _ in range(3):\n    os.fork()\ntime.sleep(60)\n"


@pytest.mark.parametrize("call", [("Bash", {"command": "sleep 60"}), RUN], ids=["a command", "a script that forks"])
def test_whatever_a_trial_has_started_ends_with_its_time(call: tuple[str, dict[str, Any]]) -> None:
    files = skill("forms", "Do.", description="Fills in forms.", files={"scripts/check.py": SLEEPS})
    case = replace(FILL, steps=(ModelStep(calls=(LOAD,)), ModelStep(calls=(call,)), ModelStep(say="Done.")))
    found = transcript_of(ScriptedRunner(), case, files=files, max_seconds=1.0)
    assert found.error.startswith("timeout:")


def test_an_agent_that_the_skill_starts_is_traced_and_counted_too() -> None:
    files = skill("forms", "Write form.txt.", description="Fills in forms.", context="fork")
    steps = [ModelStep(calls=(LOAD,)), ModelStep(calls=(WRITE,)), ModelStep(say="Written."), ModelStep(say="Done.")]
    found = transcript_of(ScriptedRunner(), replace(FILL, steps=tuple(steps)), files=files)
    assert (found.answer, found.turns, found.skill_read) == ("Done.", 4, True)
    assert [(one.tool, one.arguments) for one in found.calls] == [WRITE, LOAD]


def test_a_skill_that_asks_for_another_model_does_not_get_around_the_budget() -> None:
    files = skill("forms", "Do.", description="Fills in forms.", model="openai:gpt-5-mini")
    budget = TrialBudget(money=10.0)
    model = model_of(does_as_told, usage=RequestUsage(input_tokens=1_000, output_tokens=100))
    found = transcript_of(ModelRunner(model, price=PRICE), files=files, budget=budget)
    assert (found.turns, found.model) == (3, "fake")
    assert budget.spent == pytest.approx(3 * 0.002)


def test_a_provider_that_fails_is_an_error_of_the_model_and_costs_nothing() -> None:
    def fail(*_: Any) -> Any:
        raise ModelHTTPError(503, "fake", body="overloaded")

    budget = TrialBudget(money=1.0)
    found = transcript_of(ModelRunner(model_of(fail), price=PRICE), budget=budget)
    assert found.error.startswith("model:")
    assert budget.spent == 0.0


def test_tokens_and_cost_are_those_of_all_requests() -> None:
    model = model_of(does_as_told, usage=RequestUsage(input_tokens=1_000, output_tokens=100))
    budget = TrialBudget(money=10.0)
    found = transcript_of(ModelRunner(model, price=PRICE), budget=budget)
    assert (found.input_tokens, found.output_tokens) == (3_000, 300)
    assert found.cost == pytest.approx(3 * 0.002)
    assert budget.spent == pytest.approx(3 * 0.002)


def test_the_price_of_a_model_that_is_known_comes_from_a_table() -> None:
    class Known(FunctionModel):
        system = "openai"

    answer = model_of(does_as_told, usage=RequestUsage(input_tokens=1_000, output_tokens=100)).function
    assert answer is not None
    found = transcript_of(ModelRunner(Known(answer, model_name="gpt-5")))
    assert found.cost == pytest.approx(3 * (1.25 + 1.0) / 1_000)


def test_a_model_of_unknown_price_is_not_asked_once_where_money_is_limited() -> None:
    asked: list[str] = []

    def act(prompt: str, has_skill: bool, turn: int) -> list[str]:
        asked.append(prompt)
        return ["Done."]

    runner = ModelRunner(model_of(act, name="nobody-knows-it"))
    found = transcript_of(runner, budget=TrialBudget(money=100.0))
    assert found.error == "budget: The price is not known, and money is limited."
    assert asked == []
    assert transcript_of(runner).cost is None


def test_a_trial_ends_before_a_request_that_could_exceed_its_own_limit() -> None:
    model = model_of(
        lambda prompt, has_skill, turn: [("Glob", {"pattern": "*"})],
        usage=RequestUsage(input_tokens=50_000, output_tokens=0),
    )
    found = transcript_of(ModelRunner(model, price=PRICE), max_cost=0.3)
    assert found.error.startswith("budget:")
    assert found.cost is not None
    assert 0.1 < found.cost <= 0.3


def test_a_model_that_is_not_there_is_refused_with_what_to_do() -> None:
    reason = ModelRunner("nobody:gpt-0").refusal(FILL, "with", 0)
    assert "nobody:gpt-0" in reason


def test_a_case_that_needs_what_an_agent_has_not_is_refused() -> None:
    case = replace(FILL, environment=Environment(env={"A": "1"}))
    for runner in (ScriptedRunner(), ModelRunner("test")):
        assert "Variables" in runner.refusal(case, "with", 0)


# --- recordings -----------------------------------------------------------------------------------------------------


def record(folder: Path, *, model: Model | None = None, **settings: Any) -> Path:
    """Record the case in both arms, and return the folder of recordings."""
    runner = ModelRunner(model or model_of(does_as_told, name="fake-1"), price=PRICE)
    behaviour_of(FILL, into=folder, runners=(runner,), record=True, **settings)
    return folder / "forms" / "evals" / "recordings"


def test_what_was_paid_for_is_told_also_where_it_cannot_be_recorded() -> None:
    runner = ModelRunner(model_of(does_as_told, name="fake-1"), price=PRICE)
    found = behaviour_of(FILL, runners=(runner,), record=True)
    assert case_of(found).verdict == "passed"
    (unkept, _) = (case for case in found.cases if case.id.startswith("recording of"))
    assert (unkept.verdict, "no folder" in unkept.reason) == ("failed", True)


def replayed(folder: Path, case: BehaviourCase = FILL, **settings: Any) -> Any:
    """The tier with the skill as it lies in a folder, without any model."""
    files = {
        path.relative_to(folder / "forms").as_posix(): path.read_bytes()
        for path in (folder / "forms").rglob("*")
        if path.is_file()
    }
    return behaviour_of(case, files=files, runners=("recorded",), **settings)


def test_what_was_recorded_is_replayed_with_the_same_result(tmp_path: Path) -> None:
    place = record(tmp_path)
    assert sorted(path.name for path in place.iterdir()) == [
        "fill.with.function-fake-1.json", "fill.without.function-fake-1.json",
    ]  # fmt: skip
    found = case_of(replayed(tmp_path))
    assert (found.verdict, found.reason) == ("passed", "")
    trial = found.data["trials"][0]
    assert (trial["skill_read"], trial["cost"], trial["turns"]) == (True, 0.0, 3)
    assert [one["tool"] for one in trial["calls"]] == ["skills_load", "Write", "skills_run"]


def test_a_recording_holds_neither_paths_of_this_machine_nor_what_the_model_was_shown(tmp_path: Path) -> None:
    def act(prompt: str, has_skill: bool, turn: int) -> Any:
        return ["Look into /tmp."] if turn else [("Read", {"file_path": "order.txt"})]

    text = "".join(path.read_text() for path in record(tmp_path, model=model_of(act)).iterdir())
    assert str(tmp_path) not in text
    assert "Fill in the form" not in text
    assert "metier-test-" not in text


def test_paths_that_a_model_was_told_are_those_of_the_replay(tmp_path: Path) -> None:
    def read(request: Any) -> Any:
        root = request.text.split('root="', 1)[1].split('"', 1)[0]
        return ("Read", {"file_path": f"{root}/references/fields.md"})

    steps: list[Step] = [LOAD, read, WRITE, "It is filled in."]
    record(tmp_path, model=ScriptedModel(steps, name="absolute"), arms=("with",))
    found = case_of(replayed(tmp_path))
    assert found.verdict == "passed"
    assert [one["outcome"] for one in found.data["trials"][0]["calls"]] == ["ok"] * 3


CHANGES: list[tuple[str, Callable[[Path], BehaviourCase | None], str]] = [
    ("the skill", lambda folder: _append(folder / "SKILL.md"), "the skill itself"),
    ("the output of a script", lambda folder: _append(folder / "scripts" / "check.py", "print(1)\n"), "results"),
    (
        "its description",
        lambda folder: _replace(folder / "SKILL.md", "Fills in forms.", "Fills forms."),
        "instructions",
    ),
    ("the prompt", lambda folder: replace(FILL, prompt="Fill in the form for Bob."), "the prompt"),
    (
        "the tools",
        lambda folder: replace(FILL, environment=replace(FILL.environment, mocks=(Mock(tool="crm", result="x"),))),
        "tools",
    ),
]


def _append(path: Path, text: str = "Be quick.\n") -> None:
    path.write_text(path.read_text() + text)


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(("change", "told"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_recording_of_something_else_is_stale_and_says_what_differs(
    tmp_path: Path, change: Callable[[Path], BehaviourCase | None], told: str
) -> None:
    record(tmp_path)
    case = change(tmp_path / "forms") or FILL
    found = case_of(replayed(tmp_path, case))
    assert found.verdict == "skipped"
    assert found.reason.startswith("stale:")
    assert told in found.reason


def test_each_repetition_is_recorded_and_no_more_are_replayed(tmp_path: Path) -> None:
    place = record(tmp_path, repeats=2)
    trials = json.loads((place / "fill.with.function-fake-1.json").read_text())["trials"]
    assert len(trials) == 2
    found = case_of(replayed(tmp_path, repeats=5))
    assert [one["number"] for one in found.data["trials"] if one["arm"] == "with"] == [0, 1]


def test_a_case_that_nobody_recorded_says_so(tmp_path: Path) -> None:
    record(tmp_path)
    found = case_of(replayed(tmp_path, replace(FILL, id="other")), "other")
    assert found.verdict == "skipped"
    assert "Nobody has recorded" in found.reason


HOSTILE: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("no JSON", lambda data: b"{"),
    ("a list", lambda data: b"[]"),
    ("very deep", lambda data: b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    ("another format", lambda data: {**data, "format": 99}),
    ("an arm that is none", lambda data: {**data, "arm": "../x"}),
    ("no trials", lambda data: {**data, "trials": "all"}),
    ("a case that is no text", lambda data: {**data, "case": 7}),
    ("an answer of other parts", lambda data: _with_parts(data, [{"part_kind": "file", "content": "x"}])),
    ("an answer that is a request", lambda data: _with_parts(data, [{"part_kind": "user-prompt", "content": "x"}])),
    ("a call without a name", lambda data: _with_parts(data, [{"part_kind": "tool-call"}])),
    ("parts that are no list", lambda data: _with_parts(data, "text")),
]


def _with_parts(data: dict[str, Any], parts: object) -> dict[str, Any]:
    data["trials"][0][0]["response"]["parts"] = parts
    return data


@pytest.mark.parametrize("change", [row[1] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_recording_that_is_none_fails_with_its_path_and_no_traceback(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    file = record(tmp_path, arms=("with",)) / "fill.with.function-fake-1.json"
    changed = change(json.loads(file.read_text()))
    file.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    found = replayed(tmp_path)
    failure = case_of(found, f"evals/recordings/{file.name}")
    assert failure.verdict == "failed"
    assert failure.reason.startswith("The recording is not used:")


def test_recordings_are_not_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "forms").mkdir()
    (tmp_path / "forms" / "evals").symlink_to(outside)
    with pytest.raises(Exception, match="link"):
        record(tmp_path)
    assert not list(outside.rglob("*.json"))


def test_a_recorded_call_is_under_the_rules_like_any_other(tmp_path: Path) -> None:
    file = record(tmp_path, arms=("with",)) / "fill.with.function-fake-1.json"
    data = json.loads(file.read_text())
    call = {"part_kind": "tool-call", "tool_name": "Write", "args": {"file_path": "../../x", "content": "x"}}
    data["trials"][0][1]["response"]["parts"] = [call]
    file.write_text(json.dumps(data))
    (trial,) = case_of(replayed(tmp_path)).data["trials"]
    assert trial["calls"][1]["outcome"] != "ok"


def test_links_among_recordings_are_not_followed() -> None:
    found, notes = read_recordings({"evals/recordings/a.with.b.json": ("link", b"/etc/passwd")})
    assert found == ()
    assert "link" in notes[0].message


def test_the_name_of_a_replay_is_that_of_the_model() -> None:
    assert RecordedRunner("openai:gpt-5", ()).name == "recorded:openai:gpt-5"
