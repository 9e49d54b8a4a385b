"""Which model an agent runs on, and what is said where there is none."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic_ai.models.function import FunctionModel

from metier import Policy
from metier.agent.models import choose_model, model_of
from metier.errors import ModelMissing
from metier.testing import ScriptedModel, skill


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METIER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_given_counts_before_what_is_declared_before_what_the_variable_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("metier.agent.models.infer_model", lambda name: ScriptedModel([], name=name))
    monkeypatch.setenv("METIER_MODEL", " variable:x ")
    assert choose_model("given:x", "declared:x").model_name == "given:x"
    assert choose_model(None, "declared:x").model_name == "declared:x"
    assert choose_model().model_name == "variable:x"


def test_without_any_the_three_ways_are_named_and_the_one_without_a_key() -> None:
    with pytest.raises(ModelMissing, match="No model is configured") as caught:
        choose_model()
    for way in ("--model ", "METIER_MODEL=", "`model: ", "--model test"):
        assert way in caught.value.hint


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", "Set OPENAI_API_KEY"),
        # Their own clients take seconds to import.
        pytest.param(
            *("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "Set ANTHROPIC_API_KEY"), marks=pytest.mark.slow
        ),
        pytest.param("google:gemini-3", "GOOGLE_API_KEY", "Set GOOGLE_API_KEY", marks=pytest.mark.slow),
        ("groq:llama", "install", "pydantic-ai-slim[groq]"),
        ("gpt-5", "Unknown model", "--model openai:gpt-5"),
        ("nobody:knows", "Unknown model", "--model test"),
        ("\x1b[31m" + "x" * 5_000, "Unknown model", "METIER_MODEL"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(name: str, says: str, hint: str) -> None:
    with pytest.raises(ModelMissing) as caught:
        model_of(name)
    assert says in caught.value.message
    assert hint in caught.value.hint
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 600


# --- the model that needs no key ----------------------------------------------------------------------------------


def test_the_test_model_finds_and_loads_the_skill_that_fits_and_says_what_it_saw(stage: Any) -> None:
    skills = ["tea: Makes tea.", skill("invoice", "Add up the lines.", description="Writes invoices.")]
    played = stage(skills, model="test")
    answer = played.agent.run_blocking("Write an invoice for Ada.")
    assert "loaded 'invoice'" in answer.text
    assert "Add up the lines." in answer.text
    assert played.audit.summary("load", "call") == [
        ("call", "skills_search", "ok"),
        ("load", "invoice", "ok"),
        ("call", "skills_load", "ok"),
    ]
    assert played.agent.run_blocking("Write an invoice for Ada.").text == answer.text


@pytest.mark.parametrize(("skills", "says"), [([], "no skills for it"), (["tea: Makes tea."], "none fits")])
def test_the_test_model_says_when_nothing_fits(stage: Any, skills: Any, says: str) -> None:
    assert says in stage(skills, model="test").agent.run_blocking("Xyzzy plugh?").text


def test_the_test_model_says_what_was_refused(stage: Any) -> None:
    hooked = skill("tea", description="Makes tea.", hooks={"pre": "./x.sh"})
    played = stage([hooked], model="test", policy=Policy(hooks="allow"))
    assert "was told: " in played.agent.run_blocking("Make tea.").text


def test_the_test_model_uses_what_it_was_given_by_name(stage: Any) -> None:
    conversation = stage([skill("tea", "Boil water.")], model="test").agent.conversation()

    async def main() -> list[str]:
        return [event.message async for event in conversation.send("/tea green")]

    assert "given 'tea'" in anyio.run(main)[-1]


def test_the_test_model_runs_a_skill_in_an_agent_of_its_own(stage: Any) -> None:
    played = stage([skill("tea", description="Makes tea.", context="fork")], model="test")
    answer = played.agent.run_blocking("Make tea.")
    assert "was given 'tea'" in answer.text
    assert played.audit.summary("load", "unload") == [("load", "tea", "ok"), ("unload", "tea", "ok")]


def test_the_test_model_streams(stage: Any) -> None:
    agent = stage(["tea"], model="test").agent

    async def main() -> list[str]:
        return [event.message async for event in agent.stream("Make tea.") if event.kind in ("text", "answer")]

    *pieces, answer = anyio.run(main)
    assert "".join(pieces) == answer
    assert len(pieces) > 3


def test_a_model_of_pydantic_ai_is_taken_as_it_is() -> None:
    model = FunctionModel(lambda messages, info: None)  # type: ignore[arg-type,return-value]
    assert choose_model(model) is model
