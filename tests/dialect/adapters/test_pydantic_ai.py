"""What is specific to pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.capabilities import AbstractCapability, NativeTool
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from tests.dialect.adapters.playing_pydantic_ai import PydanticAI, scripted
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail

from metier.dialect.pydantic_ai import Skills
from metier.guard import MemoryLog, Policy

FETCH = Call("web_fetch", {"url": "https://example.com"})
ASKING = Policy(ask="WebFetch")


def ran(agent: Agent[Any, Any], text: str, **options: Any) -> Any:
    return anyio.run(lambda: agent.run(text, **options))


def deferring(folder: Path, script: Script, outside: Outside, **options: Any) -> Agent[Any, Any]:
    return Agent(
        scripted(script, "own"),
        tools=[outside.web_fetch],
        output_type=[str, DeferredToolRequests],
        capabilities=[Skills(folder, defer=True, **({"policy": ASKING} | options))],
    )


@pytest.mark.parametrize("agrees", [True, False])
def test_a_call_that_has_to_be_asked_about_waits_and_is_made_once_somebody_agrees(
    folder: Path, outside: Outside, agrees: bool
) -> None:
    agent = deferring(folder, Script([FETCH, "Done."]), outside)

    async def main() -> None:
        first = await agent.run("Fetch it.")
        assert isinstance(first.output, DeferredToolRequests)
        [call] = first.output.approvals
        assert "web_fetch" in first.output.metadata[call.tool_call_id]["text"][0]
        assert outside.calls == []
        results = DeferredToolResults(approvals={call.tool_call_id: True if agrees else ToolDenied("No.")})
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert second.output == "Done."

    anyio.run(main)
    assert bool(outside.calls) is agrees


def test_a_script_that_has_to_be_asked_about_waits_too(folder: Path, outside: Outside, log: MemoryLog) -> None:
    run = Call("skills_run", {"script": "scripts/count.py", "args": ["a"]})
    script = Script([load("report"), run, "Done."])
    agent = deferring(folder, script, outside, policy=Policy(scripts="ask"), audit=log)

    async def main() -> None:
        first = await agent.run("Count.")
        assert isinstance(first.output, DeferredToolRequests)
        approvals: Any = {call.tool_call_id: True for call in first.output.approvals}
        results = DeferredToolResults(approvals=approvals)
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert second.output == "Done."

    anyio.run(main)
    assert "counted 1" in script.requests[-1].results[-1]
    assert [(event, code, success) for event, _, _, _, code, success in trail(log) if event == "run"] == [
        ("run", "approval-pending", False),
        ("run", "", True),
    ]


@pytest.mark.parametrize("knows_the_questions", [True, False])
def test_an_approval_holds_in_another_process_only_with_the_questions_that_it_answers(
    folder: Path, outside: Outside, knows_the_questions: bool
) -> None:
    script = Script([FETCH, "Done."])

    async def main() -> None:
        first = await deferring(folder, script, outside).run("Fetch it.")
        assert isinstance(first.output, DeferredToolRequests)
        [call] = first.output.approvals
        results = DeferredToolResults(
            approvals={call.tool_call_id: True}, metadata=first.output.metadata if knows_the_questions else {}
        )
        elsewhere = deferring(folder, script, outside)
        second = await elsewhere.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert isinstance(second.output, DeferredToolRequests) is not knows_the_questions

    anyio.run(main)
    assert bool(outside.calls) is knows_the_questions


def test_a_tool_that_the_host_runs_after_the_run_is_refused_before(folder: Path, log: MemoryLog) -> None:
    pay = ToolDefinition(name="pay", parameters_json_schema={"type": "object", "properties": {}})
    script = Script([load("report"), Call("pay"), Call("skills_unload", {"all": True}), Call("pay")])
    agent = Agent(
        scripted(script, "own"),
        toolsets=[ExternalToolset([pay])],
        output_type=[str, DeferredToolRequests],
        capabilities=[Skills(folder, audit=log)],
    )
    output = ran(agent, "Pay.").output
    assert isinstance(output, DeferredToolRequests)
    assert [call.tool_name for call in output.calls] == ["pay"]
    assert "tool-not-allowed" in script.requests[2].results[1]
    assert [decision for _, tool, _, decision, _, _ in trail(log) if tool == "pay"] == ["deny", "allow"]


def test_a_tool_of_the_provider_is_left_out_while_a_skill_forbids_it(folder: Path) -> None:
    script = Script([load("report"), Call("skills_unload", {"all": True}), "Done."])
    offered: list[int] = []
    inner = scripted(script, "own")

    def answer(messages: Any, info: AgentInfo) -> Any:
        offered.append(len(info.model_request_parameters.native_tools))
        assert inner.function is not None
        return inner.function(messages, info)

    profile = ModelProfile(supported_native_tools=frozenset({WebSearchTool}))
    agent = Agent(FunctionModel(answer, profile=profile), capabilities=[NativeTool(WebSearchTool()), Skills(folder)])
    ran(agent, "Search.")
    assert offered == [1, 0, 1]


def test_runs_without_a_conversation_have_sessions_of_their_own(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = Agent(scripted(script, "own"), tools=[outside.web_fetch], capabilities=[Skills(folder)])
    ran(agent, "Load it.")
    ran(agent, "Fetch it.")
    assert outside.calls == ["https://example.com"]


def test_history_brings_its_conversation_along(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Refused."])
    agent = Agent(scripted(script, "own"), tools=[outside.web_fetch], capabilities=[Skills(folder)])
    first = ran(agent, "Load it.")
    ran(agent, "Fetch it.", message_history=first.all_messages())
    assert outside.calls == []


def test_a_refusal_is_a_failed_result(folder: Path, outside: Outside) -> None:
    agent = PydanticAI(folder, Script([load("report"), FETCH, "Done."]), tools=[outside.web_fetch])
    done = ran(agent.agent, "Fetch it.")
    parts = [part for message in done.all_messages() if isinstance(message, ModelRequest) for part in message.parts]
    outcomes = [part.outcome for part in parts if isinstance(part, ToolReturnPart)]
    assert outcomes == ["success", "failed"]


def test_other_capabilities_see_the_calls_of_skills(folder: Path) -> None:
    seen: list[str] = []

    class Watching(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            seen.append(call.tool_name)
            return args

    agent = Agent(scripted(Script([load("letters"), "Done."]), "own"), capabilities=[Skills(folder), Watching()])
    ran(agent, "Write.")
    assert seen == ["skills_load"]


@pytest.mark.parametrize("models", [{}, lambda name: None, None], ids=["mapping", "function", "any"])
def test_a_model_that_is_not_there_leaves_the_agents_own(
    folder: Path, models: Any, write_skill: Callable[..., Path]
) -> None:
    write_skill(folder / "odd", more="model: no-such-model\n")
    script = Script([load("odd"), "Done."])
    ran(Agent(scripted(script, "own"), capabilities=[Skills(folder, models=models)]), "Think.")
    assert [request.model for request in script.requests] == ["own", "own"]


def test_a_skill_of_its_own_agent_has_the_model_that_it_asks_for(
    folder: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(folder / "deep", body="Think deep.", more="context: fork\nmodel: big\n")
    script = Script([load("deep"), "Thought.", "Done."])
    agent = PydanticAI(folder, script)
    anyio.run(agent.say, "Think.")
    assert [request.model for request in script.requests] == ["own", "big", "own"]


def test_an_answer_by_a_tool_is_no_call_that_a_skill_could_forbid(folder: Path) -> None:
    script = Script([load("report"), Call("final_result", {"response": 6})])
    agent = Agent(scripted(script, "own"), output_type=int, capabilities=[Skills(folder)])
    assert ran(agent, "Count.").output == 6
