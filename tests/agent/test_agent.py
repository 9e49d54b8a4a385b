"""Agents at work: tasks run to their end, under their own rules, with the tools and skills that they declare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart

from metier import Guard, Policy
from metier.agent import Agent, Manifest
from metier.errors import AgentFailed, AgentInvalid, InvalidArgument, ModelMissing, SkillNotFound
from metier.testing import AuditProbe, ScriptedModel, skill

Declare = Callable[..., Manifest]


def load(*names: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "skills_load", {"skills": list(names), **more}


def test_a_task_runs_to_its_answer(stage: Any) -> None:
    played = stage(["greet: Says hello."], [load("greet"), "Hello, Ada."])
    answer = played.agent.run_blocking("Greet Ada.")
    assert (str(answer), answer.agent, answer.turns) == ("Hello, Ada.", "clerk", 2)
    assert answer.usage.requests == 2


def test_everything_is_unloaded_at_the_end(stage: Any) -> None:
    played = stage(["greet"], [load("greet"), "Hello."])
    answer = played.agent.run_blocking("Greet.")
    assert played.audit.summary("load", "unload") == [("load", "greet", "ok"), ("unload", "greet", "ok")]
    assert {record.session for record in played.audit.records} == {answer.session}
    assert played.audit.one(event="load").task
    assert played.audit.one(event="load").agent == "clerk"


@pytest.mark.parametrize("step", [RuntimeError("the model broke"), ModelHTTPError(500, "scripted")])
def test_everything_is_unloaded_when_the_model_fails(stage: Any, step: Exception) -> None:
    played = stage(["greet"], [load("greet"), step])
    with pytest.raises((RuntimeError, AgentFailed)):
        played.agent.run_blocking("Greet.")
    assert played.audit.summary("load", "unload") == [("load", "greet", "ok"), ("unload", "greet", "ok")]


def test_everything_is_unloaded_when_the_task_is_cancelled(stage: Any) -> None:
    reached = anyio.Event()

    async def wait() -> None:
        reached.set()
        await anyio.sleep_forever()

    played = stage(["greet"], [load("greet"), ("wait", {}), "Never."], _uses("wait"), tools=[wait])

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.agent.run, "Greet.")
            await reached.wait()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert played.audit.summary()[-2:] == [("call", "wait", "cancelled"), ("unload", "greet", "ok")]


def test_more_turns_than_the_limit_are_no_answer_and_the_limit_is_named(stage: Any, declare: Declare) -> None:
    played = stage(["greet"], [load("greet")] * 5, declare(max_turns=3))
    with pytest.raises(AgentFailed, match=r"'clerk' came to no answer in 3 turns \(limits.max_turns\)") as caught:
        played.agent.run_blocking("Greet.")
    assert "limits.max_turns" in caught.value.hint
    assert len(played.requests) == 3
    assert played.audit.summary("unload") == [("unload", "greet", "ok")]


@pytest.mark.each(("status", "hint"), [(401, "key"), (404, "name of the model"), (500, "Try again")])
def test_what_a_provider_says_is_an_error_with_a_hint_and_no_secret(stage: Any, status: int, hint: str) -> None:
    failure = ModelHTTPError(status, "scripted", {"error": "token=abcdefgh is bad"})
    with pytest.raises(AgentFailed) as caught:
        stage([], [failure]).agent.run_blocking("Hello?")
    assert hint in caught.value.hint
    assert "abcdefgh" not in caught.value.message


def test_a_conversation_can_be_handed_on(stage: Any) -> None:
    played = stage([], ["I am Bo.", "You asked who I am."])
    first = played.agent.run_blocking("Who are you?")
    played.agent.run_blocking("What did I ask?", history=first.history)
    assert "I am Bo." in played.requests[1].text
    assert [type(message).__name__ for message in first.history] == ["ModelRequest", "ModelResponse"]


@pytest.mark.each("task", ["", "  \n", None, 3])
def test_nothing_is_no_task(stage: Any, task: Any) -> None:
    with pytest.raises(InvalidArgument):
        stage().agent.run_blocking(task)


def test_inside_an_event_loop_there_is_another_way(stage: Any) -> None:
    async def main() -> None:
        stage().agent.run_blocking("Hello?")

    with pytest.raises(InvalidArgument, match="event loop"):
        anyio.run(main)


def test_without_a_model_nothing_begins(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_MODEL", raising=False)
    played = stage(["greet"], model=None)
    with pytest.raises(ModelMissing):
        played.agent.run_blocking("Greet.")
    assert played.audit.records == []


# --- what it is told and what it sees -----------------------------------------------------------------------------


def test_it_is_told_its_prompt_then_its_skills_then_its_instructions(stage: Any, declare: Declare) -> None:
    manifest = declare(prompt="You serve {{ user }}.", instructions="Be brief.", uses_skills=("tone",))
    played = stage([skill("tone", "Be kind.")], ["Yes."], manifest, user="ada")
    played.agent.run_blocking("Hello?")
    told = played.requests[0].instructions
    assert told.index("You serve ada.") < told.index("Be kind.") < told.index("Be brief.") < told.index("# Skills")
    assert told.count("Be kind.") == 1


@pytest.mark.covers("Y-14")
def test_a_specialist_sees_only_the_skills_it_uses(stage: Any, declare: Declare) -> None:
    steps = [load("theirs"), ("skills_search", {"query": "Does"}), "Done."]
    played = stage(["mine", "theirs"], steps, declare(uses_skills=("mine",)))
    played.agent.run_blocking("Do it.")
    assert "<name>mine</name>" in played.requests[0].instructions
    assert "theirs" not in played.requests[0].instructions
    assert "Skill 'theirs' was not found" in played.requests[1].told[0]
    assert "theirs" not in played.requests[2].told[0]


@pytest.mark.covers("Y-14")
def test_the_orchestrator_sees_all_skills(stage: Any, declare: Declare) -> None:
    played = stage(["mine", "other"], ["Done."], declare("orchestrator", uses_skills=("mine",), catalog="all"))
    played.agent.run_blocking("Do it.")
    assert "<name>mine</name>" in played.requests[0].instructions
    assert "<name>other</name>" in played.requests[0].instructions


@pytest.mark.covers("Y-14")
def test_a_skill_for_other_agents_is_as_good_as_absent(stage: Any) -> None:
    played = stage([skill("theirs", scope={"agents": ["other"]}), "ours"], [load("theirs"), "Done."])
    played.agent.run_blocking("Do it.")
    assert "theirs" not in played.requests[0].instructions
    assert "not found" in played.requests[1].told[0]


def test_what_its_own_skills_restrict_holds_whatever_it_unloads(stage: Any, declare: Declare) -> None:
    calls = [("skills_unload", {"all": True}), ("note", {"text": "x"}), "Done."]
    manifest = declare(uses_skills=("strict",), uses_tools=("note",))
    played = stage([skill("strict", allowed_tools="Read")], calls, manifest, tools=[note])
    played.agent.run_blocking("Note it.")
    assert played.audit.find(event="call", tool="note")[0].code == "tool-not-allowed"


def test_an_agent_that_uses_an_unknown_skill_is_an_error_that_names_both(stage: Any, declare: Declare) -> None:
    with pytest.raises(SkillNotFound, match=r"'clerk'.*'nope'"):
        stage(["greet"], [], declare(uses_skills=("nope",))).agent.run_blocking("Hi.")


# --- tools --------------------------------------------------------------------------------------------------------


def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def _uses(*tools: str) -> Manifest:
    return Manifest(id="clerk", name="Clerk", uses_tools=tools)


def test_it_has_the_tools_it_names_and_no_others(stage: Any, tmp_path: Path) -> None:
    def other() -> str:
        return "other"

    played = stage([], [("note", {"text": "milk"}), "Done."], _uses("note", "Read"), tools=[note, other])
    played.agent.run_blocking("Note milk.")
    assert played.requests[0].tools == ("note", "Read")
    assert played.requests[1].told == ("noted milk",)
    assert played.audit.summary() == [("call", "note", "ok")]


def test_built_in_tools_work_in_the_workspace(stage: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("buy milk")
    played = stage([], [("Read", {"file_path": "notes.md"}), "Done."], _uses("Read"), workspace=tmp_path)
    played.agent.run_blocking("Read my notes.")
    assert "buy milk" in played.requests[1].told[0]


def test_tools_that_write_skills_are_there_for_whoever_names_them(stage: Any, tmp_path: Path) -> None:
    draft = {"name": "tea", "description": "Makes tea. Use it for tea.", "body": "Boil water."}
    played = stage([], [("write_skill", draft), "Done."], _uses("write_skill"), workspace=tmp_path)
    played.agent.run_blocking("Write a skill for tea.")
    assert len(list(tmp_path.rglob("SKILL.md"))) == 1


def test_a_tool_that_nobody_has_is_an_error_that_names_agent_and_tool(stage: Any) -> None:
    with pytest.raises(AgentInvalid, match=r"'clerk' uses tool 'fly'"):
        stage([], [], _uses("fly"))


def test_a_call_of_a_tool_that_is_not_there_is_recorded_and_the_model_may_go_on(stage: Any) -> None:
    played = stage(["greet"], [("fly", {"to": "mars"})] * 3 + ["I cannot fly."])
    assert str(played.agent.run_blocking("Fly.")) == "I cannot fly."
    assert played.audit.summary() == [("call", "fly", "tool-not-found")] * 3
    assert {(record.type, record.decision) for record in played.audit.find(tool="fly")} == {("tool.denied", "deny")}
    assert "skills_load" in played.requests[1].told[0]


def test_a_model_that_says_nothing_is_asked_again_and_then_it_is_no_answer(stage: Any) -> None:
    assert str(stage([], ["", "Hello."]).agent.run_blocking("Hi.")) == "Hello."
    with pytest.raises(AgentFailed):
        stage([], [""] * 5).agent.run_blocking("Hi.")


@pytest.mark.parametrize("name", ["note", "Read"])
def test_two_tools_of_one_name_are_an_error(stage: Any, name: str) -> None:
    from metier import FunctionTool

    with pytest.raises(InvalidArgument, match="two tools"):
        stage([], [], _uses("note"), tools=[note, FunctionTool(note, name=name)])


@pytest.mark.covers("O-108")
def test_a_skill_restricts_the_very_next_call_also_in_the_same_answer(stage: Any) -> None:
    steps = [
        [load("strict"), ("note", {"text": "a"})],
        ("skills_unload", {"all": True}),
        ("note", {"text": "b"}),
        "Ok.",
    ]
    played = stage([skill("strict", allowed_tools="Read")], steps, _uses("note"), tools=[note])
    played.agent.run_blocking("Note it.")
    assert played.audit.summary("call") == [
        ("call", "skills_load", "ok"),
        ("call", "note", "tool-not-allowed"),
        ("call", "skills_unload", "ok"),
        ("call", "note", "ok"),
    ]


@pytest.mark.parametrize(("answer", "code"), [(True, "ok"), (False, "approval-denied")])
def test_the_host_is_asked_where_policy_says_so(stage: Any, answer: bool, code: str) -> None:
    asked = []

    async def approve(action: Any, decision: Any) -> bool:
        asked.append((action.tool, dict(action.arguments)))
        return answer

    steps = [("note", {"text": "x"}), "Done."]
    played = stage([], steps, _uses("note"), tools=[note], policy=Policy(ask="note"), approve=approve)
    played.agent.run_blocking("Note it.")
    assert asked == [("note", {"text": "x"})]
    assert played.audit.summary("call") == [("call", "note", code)]


def test_a_guard_can_be_shared(stage: Any) -> None:
    audit = AuditProbe()
    guard = Guard(Policy(blocked=["greet"]), audit=audit)
    played = stage(["greet", "leave"], [load("greet"), "Done."], guard=guard)
    played.agent.run_blocking("Greet.")
    assert audit.summary("load") == [("load", "greet", "skill-blocked")]
    with pytest.raises(InvalidArgument, match="guard"):
        stage([], [], guard=guard, policy=Policy())


# --- models -------------------------------------------------------------------------------------------------------


def test_a_skill_switches_the_model_while_it_is_active(stage: Any) -> None:
    steps = [load("deep"), ("skills_unload", {"all": True}), "Done."]
    played = stage([skill("deep", model="big")], steps)
    models = {"big": played.model.named("big")}
    agent = Agent(played.agents.get("clerk"), played.agents, model=played.model, models=models, audit=played.audit)
    agent.run_blocking("Think.")
    assert [request.model for request in played.requests] == ["scripted", "big", "scripted"]


def test_a_model_that_is_not_here_is_told_once_and_the_agent_goes_on(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    played = stage([skill("deep", model="nobody:knows")], [load("deep"), load("deep"), "Done."])
    assert str(played.agent.run_blocking("Think.")) == "Done."
    assert [request.model for request in played.requests] == ["scripted"] * 3
    assert len([record for record in caplog.records if "nobody:knows" in record.getMessage()]) == 1


@pytest.mark.each("error", [OSError(5, "reset"), KeyError("choices"), RuntimeError(), ZeroDivisionError("x")])
def test_whatever_a_model_raises_is_no_answer(stage: Any, error: Exception) -> None:
    played = stage([], [error])
    with pytest.raises(AgentFailed, match=f"Agent 'clerk' came to no answer: {type(error).__name__}") as caught:
        played.agent.run_blocking("Hi.")
    assert caught.value.hint


def test_a_skill_whose_model_fails_leaves_the_agent_its_own(stage: Any) -> None:
    played = stage([skill("deep", model="big")], [load("deep"), "Own.", "Own again."])
    broken = ScriptedModel([OSError("the provider is gone")] * 2, name="big")
    agent = Agent(
        played.agents.get("clerk"), played.agents, model=played.model, models={"big": broken}, audit=played.audit
    )
    conversation = agent.conversation()

    async def say(text: str) -> list[Any]:
        return [event async for event in conversation.send(text)]

    told = anyio.run(say, "Think.")
    assert told[-1].message == "Own."
    warning = next(event for event in told if event.code == "model-failed")
    assert (warning.kind, warning.skill) == ("refused", "deep")
    assert "'big' of skill 'deep' failed" in warning.message
    assert anyio.run(say, "More.")[-1].message == "Own again."
    assert broken.left == 0, "it is tried again in every turn"
    asked = [part for message in conversation.history for part in message.parts if part.part_kind == "user-prompt"]
    assert len(asked) == 2
    first, second = ([message.parts for message in request.messages] for request in played.requests[1:])
    assert second[: len(first)] == first


def test_a_history_that_ends_in_an_open_call_can_be_gone_on_with(stage: Any) -> None:
    open_call = ModelResponse(parts=[ToolCallPart("note", {"text": "x"}, "q")])
    asked = ModelRequest(parts=[UserPromptPart("Note it.")])
    played = stage([], ["Fine."])
    assert str(played.agent.run_blocking("Hi.", history=[asked, open_call])) == "Fine."
    assert "interrupted" in played.requests[0].text
