"""What the model of a running agent is shown: catalog, active skills, tools, and context before a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from metier.agent import Manifest
from metier.dialect import SkillContext
from metier.testing import library, skill

Declare = Callable[..., Manifest]


def load(*names: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "skills_load", {"skills": list(names), **more}


@pytest.mark.covers("G-31")
def test_before_a_skill_is_loaded_there_is_only_the_catalog_and_then_both_with_nothing_twice(stage: Any) -> None:
    steps = [load("a"), load("b", mode="add"), ("skills_unload", {"all": True}), "Done."]
    played = stage(["a: Makes A.", "b: Makes B."], steps, delivery="instructions")
    played.agent.run_blocking("Go.")
    first, second, third, last = (request.instructions for request in played.requests)
    assert "<available_skills>" in first
    assert "<active_skills>" not in first.partition("<available_skills>")[2]
    assert second.index("<name>b</name>") < second.index("Do a.")
    assert "<name>a</name>" not in second
    assert "Do a." in third
    assert "Do b." in third
    assert "<available_skills>" not in third.partition("# Skills")[2].replace("`<available_skills>`", "")
    assert last == first


@pytest.mark.covers("G-31")
def test_an_agent_with_no_skills_of_its_own_is_told_of_none(stage: Any, declare: Declare) -> None:
    played = stage(["a"], ["Done."], declare(catalog="own"))
    played.agent.run_blocking("Go.")
    assert played.requests[0].instructions == ""
    assert played.requests[0].tools == ()


@pytest.mark.covers("G-31")
def test_what_was_loaded_is_not_read_again_from_one_call_to_the_next(stage: Any, tmp_path: Path) -> None:
    skills = library(skill("a", "Old text."), into=tmp_path / "skills")

    def change(request: Any) -> Any:
        path = tmp_path / "skills" / "a" / "SKILL.md"
        path.write_text(path.read_text().replace("Old", "New"))
        return "skills_search", {"query": "a"}

    played = stage(skills, [load("a"), change, "Done."], delivery="instructions")
    played.agent.run_blocking("Go.")
    assert "Old text." in played.requests[1].instructions
    assert "Old text." in played.requests[2].instructions
    assert "New text." not in played.requests[2].instructions


@pytest.mark.covers("G-31", "G-32")
def test_messages_of_the_user_are_in_no_prompt(stage: Any) -> None:
    played = stage([skill("standup", insert="user-message"), "a"], ["Done."], delivery="instructions")
    played.agent.run_blocking("Go.")
    assert "standup" not in played.requests[0].text
    assert "<name>a</name>" in played.requests[0].instructions


@pytest.mark.covers("G-34")
def test_tools_have_names_descriptions_and_schemas_that_providers_take(stage: Any, declare: Declare) -> None:
    seen: list[AgentInfo] = []

    def look(messages: Any, info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("Done.")])

    boss = declare("boss", uses_tools=("agents", "Read", "write_skill", "validate_skill"))
    played = stage(["a"], [], boss, declare("helper", integration_mode="tool"), model=FunctionModel(look))
    played.agent.run_blocking("Go.")
    tools = seen[0].function_tools
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names) == 9
    for tool in tools:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name)
        assert tool.description
        assert tool.parameters_json_schema["type"] == "object"
    rules = (seen[0].instructions or "").partition("<available_skills>")[0]
    assert set(re.findall(r"`(skills_\w+)`", rules)) <= set(names)


@pytest.mark.covers("G-34")
def test_the_tools_stay_the_same_whatever_is_loaded(stage: Any) -> None:
    played = stage([skill("a", allowed_tools="Read")], [load("a"), ("skills_unload", {"all": True}), "Done."])
    played.agent.run_blocking("Go.")
    assert len({request.tools for request in played.requests}) == 1


# --- context ------------------------------------------------------------------------------------------------------


class Says:
    """A provider that always says the same."""

    def __init__(self, text: str | None, priority: int) -> None:
        self.text = text
        self.priority = priority

    def context(self, prompt: str) -> str | None:
        return self.text


class Fails:
    priority = 1

    def context(self, prompt: str) -> str | None:
        raise RuntimeError("no context today")


def asked(stage: Any, skills: Any, *context: Any, **options: Any) -> tuple[str, str]:
    """What a model was told before the prompt, and in its instructions."""
    played = stage(skills, ["Done."], context=context, **options)
    played.agent.run_blocking("Do it.")
    return played.requests[0].told[0], played.requests[0].instructions


@pytest.mark.covers("Y-08", "Y-12")
def test_without_skills_the_prompt_is_unchanged(stage: Any) -> None:
    assert asked(stage, [], SkillContext, dialect="registry") == ("Do it.", "")


@pytest.mark.covers("Y-09", "Y-12")
def test_the_catalog_stands_before_the_prompt_and_nowhere_else(stage: Any) -> None:
    prompt, instructions = asked(stage, ["a: Makes A.", "b: Makes B."], SkillContext, dialect="registry")
    heading, *bullets, empty, usage, _, _, _, asked_for = prompt.split("\n")
    assert heading.startswith("[")
    assert heading.endswith("]")
    assert len(bullets) == 2
    assert "`a`" in bullets[0]
    assert "Makes A." in bullets[0]
    assert empty == ""
    assert "read_skill" in usage
    assert asked_for == "Do it."
    assert "Makes A." not in instructions


@pytest.mark.covers("Y-10", "Y-11")
def test_context_comes_in_the_order_of_priority_and_nothing_leaves_no_gap(stage: Any) -> None:
    providers = [Says("last", 90), SkillContext, Says(None, 10), Says(" ", 20), Says("first", 59)]
    prompt, _ = asked(stage, ["a"], *providers, dialect="registry")
    parts = prompt.split("\n\n---\n\n")
    assert [part.partition("\n")[0] for part in parts] == ["first", "[Available skills]", "last", "Do it."]


@pytest.mark.covers("Y-13")
def test_a_provider_that_fails_is_logged_and_the_turn_still_runs(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    prompt, _ = asked(stage, [], Fails(), Says("said", 2))
    assert prompt == "said\n\n---\n\nDo it."
    assert "no context today" in caplog.text


@pytest.mark.covers("Y-13")
def test_what_cannot_make_a_provider_is_logged_and_the_turn_still_runs(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(session: Any) -> Any:
        raise RuntimeError("no provider today")

    prompt, _ = asked(stage, [], broken)
    assert prompt == "Do it."
    assert "no provider today" in caplog.text


@pytest.mark.covers("Y-14")
def test_context_lists_only_what_the_agent_may_know_of(stage: Any, declare: Declare) -> None:
    steps = ["Done."]
    specialist = stage(["x", "y"], steps, declare(uses_skills=("x",)), context=[SkillContext], dialect="registry")
    specialist.agent.run_blocking("Do it.")
    assert "`x`" in specialist.requests[0].told[0]
    assert "`y`" not in specialist.requests[0].text
    boss = stage(["x", "y"], steps, declare("orchestrator"), context=[SkillContext], dialect="registry")
    boss.agent.run_blocking("Do it.")
    assert "`x`" in boss.requests[0].told[0]
    assert "`y`" in boss.requests[0].told[0]
