"""Skills with an agent of their own: only their input goes in, only their output comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Library
from metier.agent import Agent, Manifest
from metier.testing import library, skill

Declare = Callable[..., Manifest]

SECRET = "sentinel-of-the-parent"
INSIDE = "sentinel-of-the-child"


def load(*names: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "skills_load", {"skills": list(names), **more}


def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def forked(name: str, body: str = "", **fields: Any) -> dict[str, str | bytes]:
    return skill(name, body, context="fork", **fields)


def offered(id: str, **fields: Any) -> Manifest:  # noqa: A002
    """An agent that skills and other agents may ask."""
    if fields.get("uses_skills"):
        fields.setdefault("catalog", "own")
    return Manifest(id=id, name=id, description=f"Does {id}.", integration_mode="tool", **fields)


@pytest.mark.covers("O-102")
def test_a_child_sees_its_input_and_nothing_of_the_conversation_around_it(stage: Any, declare: Declare) -> None:
    steps = [
        ("note", {"text": SECRET}),
        load("plain"),
        load("research", args="cats"),
        ("note", {"text": INSIDE}),
        "Cats purr.",
        "They purr.",
    ]
    manifest = declare(instructions=f"You are {SECRET}.", uses_tools=("note",))
    skills = [skill("plain", f"Plain {SECRET}."), forked("research", "Research $ARGUMENTS.")]
    played = stage(skills, steps, manifest, tools=[note])
    assert str(played.agent.run_blocking(f"What of cats? {SECRET}")) == "They purr."
    parent, child = played.requests[:3], played.requests[3:5]
    assert all(SECRET in request.text for request in parent)
    for request in child:
        assert SECRET not in request.text
        assert "Research cats." in request.instructions
    assert child[0].told == ("cats",)
    assert len(child[0].messages) == 1
    after = played.requests[5]
    assert after.told == ('<skill_output skill="research">\nCats purr.\n</skill_output>',)
    assert INSIDE not in after.text
    assert "Research cats." not in after.text


@pytest.mark.covers("O-102")
def test_without_arguments_it_is_told_to_begin(stage: Any) -> None:
    played = stage([forked("research")], [load("research"), "Found.", "Done."])
    played.agent.run_blocking("Look.")
    assert played.requests[1].told == ("Follow the instructions of your skill.",)


@pytest.mark.covers("O-102")
def test_it_has_the_tools_of_the_agent_around_it_and_whatever_restricts_that_restricts_it(
    stage: Any, declare: Declare
) -> None:
    steps = [load("strict"), load("research", mode="add"), ("note", {"text": "x"}), "No.", "Done."]
    skills = [skill("strict", allowed_tools="Read"), forked("research")]
    played = stage(skills, steps, declare(uses_tools=("note",)), tools=[note])
    played.agent.run_blocking("Look.")
    assert played.requests[2].tools == played.requests[0].tools
    refused = played.audit.one(event="call", tool="note")
    assert (refused.code, refused.parent) == ("tool-not-allowed", played.audit.find(event="load")[0].session)


@pytest.mark.covers("O-80")
def test_it_is_loaded_and_unloaded_exactly_once(stage: Any) -> None:
    played = stage([forked("research")], [load("research"), "Found.", "Done."])
    played.agent.run_blocking("Look.")
    assert played.audit.summary("load", "unload") == [("load", "research", "ok"), ("unload", "research", "ok")]


@pytest.mark.covers("O-80")
def test_it_is_loaded_and_unloaded_exactly_once_also_on_error(stage: Any, declare: Declare) -> None:
    steps = [load("research"), ("skills_search", {"query": "x"}), ("skills_search", {"query": "x"}), "Done."]
    played = stage([forked("research")], steps, declare(max_turns=2))
    assert str(played.agent.run_blocking("Look.")) == "Done."
    assert played.audit.summary("load", "unload") == [("load", "research", "ok"), ("unload", "research", "ok")]
    assert played.audit.one(event="call", tool="skills_load").code == "agent-failed"
    assert "2 turns (limits.max_turns)" in played.requests[3].told[0]


@pytest.mark.covers("O-80")
def test_it_is_loaded_and_unloaded_exactly_once_also_when_cancelled(stage: Any, declare: Declare) -> None:
    reached = anyio.Event()

    async def wait() -> None:
        reached.set()
        await anyio.sleep_forever()

    played = stage([forked("research")], [load("research"), ("wait", {})], declare(uses_tools=("wait",)), tools=[wait])

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.agent.run, "Look.")
            await reached.wait()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert played.audit.summary("load", "unload") == [("load", "research", "ok"), ("unload", "research", "ok")]


@pytest.mark.covers("O-80", "O-103")
def test_deeper_than_five_is_refused_and_the_chain_is_named(stage: Any) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    steps = [*(load(name) for name in names), "Too deep.", "5", "4", "3", "2", "Done."]
    played = stage([forked(name) for name in names], steps)
    assert str(played.agent.run_blocking("Dive.")) == "Done."
    told = played.requests[6].told[0]
    assert "Maximum sub-agent depth (5) exceeded: agent:clerk -> a -> b -> c -> d -> e -> f" in told
    assert "maximum depth" in told
    failed = played.audit.find(event="call", tool="skills_load", success=False)
    assert [record.code for record in failed] == ["activation-failed"]
    assert sorted(played.audit.summary("load")) == sorted(("load", name, "ok") for name in names[:5])
    assert len(played.audit.find(event="unload")) == 5


@pytest.mark.covers("O-103")
def test_a_cycle_is_refused_and_named(stage: Any) -> None:
    steps = [load("a"), load("b"), load("a"), "B.", "A.", "Done."]
    played = stage([forked("a"), forked("b")], steps)
    played.agent.run_blocking("Go round.")
    assert "agent:clerk -> a -> b -> a is a cycle" in played.requests[3].told[0]


# --- agent: and model: --------------------------------------------------------------------------------------------


def test_a_skill_runs_in_the_agent_it_names(stage: Any, declare: Declare) -> None:
    expert = offered("expert", instructions="You are an expert.", uses_tools=("note",), max_turns=3)
    steps = [load("research", args="cats"), ("note", {"text": "x"}), "Cats purr.", "Done."]
    played = stage([forked("research", agent="expert")], steps, declare(), expert, tools=[note])
    played.agent.run_blocking("Look.")
    assert "You are an expert." in played.requests[1].instructions
    assert "note" in played.requests[1].tools
    assert "note" not in played.requests[0].tools
    assert "You are an expert." not in played.requests[3].text


def test_what_the_skills_of_that_agent_restrict_holds(stage: Any, declare: Declare) -> None:
    expert = offered("expert", uses_skills=("strict",), uses_tools=("note",))
    steps = [load("research"), ("skills_unload", {"all": True}), ("note", {"text": "x"}), "No.", "Done."]
    skills = [forked("research", agent="expert"), skill("strict", "Only read.", allowed_tools="Read")]
    played = stage(skills, steps, declare(), expert, tools=[note])
    played.agent.run_blocking("Look.")
    assert "Only read." in played.requests[1].instructions
    assert played.audit.one(event="call", tool="note").code == "tool-not-allowed"
    assert sorted(played.audit.summary("load", "unload")) == sorted(
        (event, name, "ok") for event in ("load", "unload") for name in ("research", "strict")
    )


def test_an_unknown_agent_is_an_error_that_names_skill_and_agent(stage: Any) -> None:
    played = stage([forked("research", agent="nobody")], [load("research"), "Done."])
    played.agent.run_blocking("Look.")
    assert "Skill 'research' runs in agent 'nobody'" in played.requests[1].told[0]
    assert played.audit.one(event="call").code == "agent-not-found"
    assert played.audit.summary("load", "unload") == [("load", "research", "agent-not-found")]


def test_the_model_is_that_of_the_skill_else_of_the_agent_it_names_else_that_of_the_agent_around(
    stage: Any, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [load("a"), "A.", load("b"), "B.", load("c"), "C.", "Done."]
    skills = [forked("a"), forked("b", agent="expert"), forked("c", agent="expert", model="big")]
    played = stage(skills, steps, declare(model="small"), offered("expert", model="own"))
    known = {name: played.model.named(name) for name in ("small", "own", "big")}
    monkeypatch.setattr("metier.agent.models.infer_model", known.__getitem__)
    agent = Agent(played.agents.get("clerk"), played.agents, models=known, audit=played.audit)
    agent.run_blocking("Look.")
    assert [request.model for request in played.requests] == ["small", "small", "small", "own", "small", "big", "small"]


def test_what_it_took_is_counted_for_the_agent_that_began_it(stage: Any) -> None:
    played = stage([forked("research")], [load("research"), "Found.", "Done."])
    answer = played.agent.run_blocking("Look.")
    assert (answer.turns, answer.usage.requests) == (2, 3)


def test_it_works_as_that_agent_with_its_catalog_its_scope_and_its_name_in_every_record(
    stage: Any, declare: Declare
) -> None:
    expert = offered("expert", uses_tools=("note",), uses_skills=("mine", "expert-only"))
    skills = [
        forked("research", agent="expert"),
        skill("mine", "Mine."),
        skill("elsewhere"),
        skill("clerk-only", scope={"agents": ["clerk"]}),
        skill("expert-only", scope={"agents": ["expert"]}),
    ]
    steps = [
        load("research"),
        load("elsewhere", mode="add"),
        load("clerk-only", mode="add"),
        load("expert-only", mode="add"),
        ("note", {"text": "x"}),
        "Found.",
        "Done.",
    ]
    played = stage(skills, steps, declare(), expert, tools=[note])
    played.agent.run_blocking("Look.")
    assert "elsewhere" in played.requests[0].instructions
    assert "elsewhere" not in played.requests[1].instructions
    made = {(one.skill or one.tool, one.success) for one in played.audit.records if one.agent == "expert"}
    assert {("elsewhere", False), ("clerk-only", False), ("expert-only", True), ("note", True)} <= made
    assert {("research", True), ("mine", True)} <= made
    by_clerk = [(one.event, one.tool) for one in played.audit.records if one.agent == "clerk"]
    assert by_clerk == [("call", "skills_load"), ("model", "")]


def test_a_specialist_uses_a_skill_that_runs_in_another_agent(stage: Any, declare: Declare) -> None:
    skills = [forked("research", agent="expert"), skill("mine")]
    me = declare(uses_skills=("research",))
    played = stage(skills, [load("research"), "Found.", "Done."], me, offered("expert", uses_skills=("mine",)))
    played.agent.run_blocking("Look.")
    assert "Found." in played.requests[2].told[0]


def test_a_skill_gets_no_hold_of_an_agent_that_is_not_offered(stage: Any, declare: Declare) -> None:
    hidden = declare("hidden", uses_tools=("note",))
    played = stage([forked("research", agent="hidden")], [load("research"), "Done."], declare(), hidden, tools=[note])
    played.agent.run_blocking("Look.")
    told = played.requests[1].told[0]
    assert "Skill 'research' runs in agent 'hidden', which is not offered to others." in told
    assert "integration_mode: tool" in told
    assert played.audit.summary() == [
        ("load", "research", "activation-failed"),
        ("call", "skills_load", "activation-failed"),
    ]


def test_a_skill_that_nobody_trusts_names_no_agent(
    stage: Any, declare: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    library(forked("research", agent="expert"), into=project / ".claude" / "skills")
    found = Library.discover(project)
    assert not found.get("research").trusted
    played = stage(found, [load("research"), "Done."], declare(), offered("expert"), approve=lambda *_: True)
    played.agent.run_blocking("Look.")
    told = played.requests[1].told[0]
    assert "Skill 'research' runs in agent 'expert', and comes from a place that nobody has trusted." in told
    assert "Ask the user to look at it, and to trust the project." in told


def test_a_skill_may_name_the_agent_that_runs_and_is_not_run_inside_itself(stage: Any, declare: Declare) -> None:
    steps = [load("research"), load("research"), "No.", "Done."]
    played = stage([forked("research", agent="clerk")], steps, declare(instructions="You are a clerk."))
    played.agent.run_blocking("Look.")
    assert "You are a clerk." in played.requests[1].instructions
    assert "agent:clerk -> research -> research is a cycle" in played.requests[2].told[0]


def test_a_skill_whose_scope_leaves_the_agent_out_that_it_names_is_not_run(stage: Any, declare: Declare) -> None:
    skills = [forked("research", agent="expert", scope={"agents": ["clerk"]})]
    played = stage(skills, [load("research"), "Done."], declare(), offered("expert"))
    played.agent.run_blocking("Look.")
    assert "Skill 'research' runs in agent 'expert', for which it is not there." in played.requests[1].told[0]


def test_what_it_took_is_counted_also_where_it_came_to_no_answer(stage: Any, declare: Declare) -> None:
    steps = [load("research"), ("skills_search", {"query": "x"}), "Done."]
    played = stage([forked("research", agent="expert")], steps, declare(), offered("expert", max_turns=1))
    answer = played.agent.run_blocking("Look.")
    assert (answer.turns, answer.usage.requests) == (2, 3)
