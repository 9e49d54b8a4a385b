"""What is specific to the OpenAI Agents SDK."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    CustomTool,
    HandoffInputData,
    LocalShellTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ShellTool,
    ToolSearchTool,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.editor import ApplyPatchOperation
from tests.dialect.adapters.playing_openai_agents import scripted
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail

from metier.dialect.openai_agents import Skills
from metier.guard import MemoryLog, Policy

FETCH = Call("web_fetch", {"url": "https://example.com"})


def agent_of(skills: Skills, script: Script, *tools: Any, conversation: Any = None, **options: Any) -> Agent[Any]:
    agent: Agent[Any] = Agent(name="assistant", model=scripted(script, "own"), tools=list(tools), **options)
    return skills.equip(agent, conversation=conversation)


def ran(agent: Agent[Any], text: str = "Begin.", **options: Any) -> Any:
    return anyio.run(lambda: Runner.run(agent, text, **options))


def test_a_run_of_no_conversation_has_a_session_of_its_own_that_ends_with_it(
    folder: Path, outside: Outside, log: MemoryLog
) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(Skills(folder, audit=log), script, function_tool(outside.web_fetch))
    ran(agent)
    gc.collect()
    ran(agent)
    assert outside.calls == ["https://example.com"]
    assert ("unload", "", "report", "allow", "", True) in trail(log)


def test_the_host_can_say_what_conversation_a_run_belongs_to(folder: Path, outside: Outside) -> None:
    def conversation(run: RunContextWrapper[Any]) -> str:
        return str(run.context["thread"])

    script = Script([load("report"), "Loaded.", FETCH, "Refused.", FETCH, "Fetched."])
    agent = agent_of(Skills(folder), script, function_tool(outside.web_fetch), conversation=conversation)
    for thread in ("a", "a", "b"):
        ran(agent, context={"thread": thread})
    assert outside.calls == ["https://example.com"]


def test_an_equipped_agent_is_a_copy_and_its_clones_have_skills_too(folder: Path) -> None:
    script = Script(["Done.", "Done."])
    plain = Agent(name="assistant", model=scripted(script, "own"))
    equipped = Skills(folder).equip(plain)
    assert isinstance(equipped, Agent)
    ran(plain)
    ran(equipped.clone(instructions="Be kind."))
    assert script.requests[0].tools == {}
    assert "skills_load" in script.requests[1].tools
    assert script.requests[1].system.startswith("Be kind.\n\n")


def test_an_agent_that_works_for_another_has_its_own_session(folder: Path) -> None:
    skills = Skills(folder)
    script = Script([load("letters"), Call("helper", {"input": "x"}), "Helped.", "Done."])
    helper = skills.equip(Agent(name="helper", model=scripted(script, "own")), conversation="one")
    ran(agent_of(skills, script, helper.as_tool("helper", "Helps."), conversation="one"))
    mine, helpers, mine_again = (request.system for request in script.requests[1:])
    assert 'name="letters"' in mine
    assert 'name="letters"' not in helpers
    assert 'name="letters"' in mine_again


def test_after_a_handoff_the_other_agent_has_its_own_session(folder: Path, outside: Outside) -> None:
    skills = Skills(folder)
    script = Script([load("letters"), Call("transfer_to_other", {}), FETCH, "Fetched."])
    other = skills.equip(Agent(name="other", model=scripted(script, "own"), tools=[function_tool(outside.web_fetch)]))
    ran(agent_of(skills, script, handoffs=[other], conversation="one"))
    assert outside.calls == ["https://example.com"]
    assert 'name="letters"' not in script.requests[2].system


def lost(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=(), pre_handoff_items=(), new_items=())


async def lost_later(data: HandoffInputData) -> HandoffInputData:
    return lost(data)


@pytest.mark.parametrize("made", [lambda to: to, handoff, lambda to: handoff(to, input_filter=lost)])
def test_who_is_under_rules_cannot_hand_off_to_somebody_who_is_not(
    folder: Path, outside: Outside, log: MemoryLog, made: Callable[[Agent[Any]], Any]
) -> None:
    script = Script([load("report"), Call("transfer_to_other", {}), FETCH, "Nothing."])
    other: Agent[Any] = Agent(name="other", model=scripted(script, "own"), tools=[function_tool(outside.web_fetch)])
    agent = agent_of(Skills(folder, audit=log), script, function_tool(outside.web_fetch), conversation="one")
    # As the SDK teaches it for agents that hand off to each other.
    agent.handoffs.append(made(other))
    done = ran(agent)
    assert (done.last_agent.name, outside.calls) == ("assistant", [])
    assert [(tool, code) for _, tool, _, effect, code, _ in trail(log) if effect == "deny"] == [
        ("transfer_to_other", "tool-not-allowed"),
        ("web_fetch", "tool-not-allowed"),
    ]
    # It is told why, and knows still what it was asked.
    assert "cannot use tool 'transfer_to_other'" in script.requests[2].results[-1]
    assert script.requests[2].messages[0] == ("user", "Begin.")


@pytest.mark.parametrize("input_filter", [lost, lost_later])
def test_a_handoff_that_is_allowed_is_as_it_was(folder: Path, log: MemoryLog, input_filter: Any) -> None:
    script = Script([Call("give_up", {}), "Mine."])
    other: Agent[Any] = Agent(name="other", model=scripted(script, "own"))
    given = handoff(other, tool_name_override="give_up", input_filter=input_filter)
    plain: Agent[Any] = Agent(name="assistant", model=scripted(script, "own"), handoffs=[given])
    equipped = Skills(folder, audit=log).equip(plain)
    done = ran(equipped.clone(name="another"))
    assert (done.last_agent, plain.handoffs, script.requests[1].messages) == (other, [given], ())
    assert ("call", "give_up", "", "allow", "", True) in trail(log)


def test_a_tool_that_needs_approval_still_does(folder: Path, outside: Outside) -> None:
    script = Script([FETCH, "Done."])
    agent = agent_of(Skills(folder), script, function_tool(outside.web_fetch, needs_approval=True))

    async def main() -> str:
        first = await Runner.run(agent, "Fetch it.")
        [asked] = first.interruptions
        state = first.to_state()
        state.approve(asked)
        assert outside.calls == []
        return str((await Runner.run(agent, state)).final_output)

    assert anyio.run(main) == "Done."
    assert outside.calls == ["https://example.com"]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_call_that_was_approved_in_a_stored_run_is_still_decided_about(
    folder: Path, outside: Outside, log: MemoryLog, is_allowed: bool
) -> None:
    script = Script([FETCH, "Done."])
    skills = Skills(folder, audit=log)
    agent = agent_of(skills, script, function_tool(outside.web_fetch, needs_approval=True), conversation="one")

    async def main() -> str:
        first = await Runner.run(agent, "Fetch it.")
        state = await RunState.from_json(agent, json.loads(first.to_state().to_string()))
        state.approve(state.get_interruptions()[0])
        if not is_allowed:
            skills.seam.kit("one|assistant").session.load("report")
        return str((await Runner.run(agent, state)).final_output)

    assert anyio.run(main) == "Done."
    assert bool(outside.calls) is is_allowed
    assert [one.decision for one in log.records if one.tool == "web_fetch"] == ["allow" if is_allowed else "deny"]


def test_the_model_of_a_run_config_is_kept(folder: Path) -> None:
    script = Script([load("think"), "Done."])
    agent = agent_of(Skills(folder, models={"big": scripted(script, "big")}), script)
    ran(agent, run_config=RunConfig(model=scripted(script, "fixed")))
    assert [request.model for request in script.requests] == ["fixed", "fixed"]


def gated(folder: Path, log: MemoryLog, policy: Policy, *tools: Any) -> list[Any]:
    """What an agent with skills shows of its tools."""
    agent = Skills(folder, audit=log, policy=policy).equip(Agent(name="assistant", tools=list(tools)))
    found = anyio.run(agent.get_all_tools, RunContextWrapper(None))
    return [tool for tool in found if not tool.name.startswith("skills_")]


class Shell:
    """Executors and an editor that note what they were asked for."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __call__(self, request: Any) -> str:
        self.done.append("ran")
        return "ran"

    async def create_file(self, operation: Any) -> str:
        self.done.append(operation.path)
        return "made"

    update_file = delete_file = create_file


def asked(**action: Any) -> Any:
    """A request as the SDK makes one."""
    found = type("Request", (), {})()
    found.data = type("Data", (), {"action": type("Action", (), action)()})()
    return found


def test_commands_for_a_shell_are_decided_about(folder: Path, log: MemoryLog) -> None:
    shell = Shell()
    policy = Policy(deny="Bash(rm:*)")
    new, old = gated(folder, log, policy, ShellTool(executor=shell), LocalShellTool(executor=shell))

    async def main() -> list[str]:
        return [
            await new.executor(asked(commands=["ls", "rm -rf x"])),
            await new.executor(asked(commands=["ls"])),
            await old.executor(asked(command=["rm", "-rf", "x"])),
            await old.executor(asked(command=["ls"])),
        ]

    results = anyio.run(main)
    assert [result.startswith("Error [") for result in results] == [True, False, True, False]
    assert shell.done == ["ran", "ran"]
    assert [one.decision for one in log.records] == ["deny", "allow", "deny", "allow"]


def test_patches_are_decided_about(folder: Path, log: MemoryLog) -> None:
    editor = Shell()
    [patch] = gated(folder, log, Policy(deny="Write"), ApplyPatchTool(editor=editor))

    async def main() -> None:
        create = await patch.editor.create_file(ApplyPatchOperation("create_file", "a.txt", "x"))
        assert (create.status, create.output[:7]) == ("failed", "Error [")
        await patch.editor.update_file(ApplyPatchOperation("update_file", "b.txt", "x"))

    anyio.run(main)
    assert editor.done == ["b.txt"]


def test_a_tool_with_free_text_is_decided_about(folder: Path, log: MemoryLog) -> None:
    done: list[str] = []

    async def invoke(context: Any, text: str) -> str:
        done.append(text)
        return "ok"

    free = CustomTool(name="sql", description="Runs SQL.", on_invoke_tool=invoke)
    [refused] = gated(folder, log, Policy(deny="sql"), free)
    [allowed] = gated(folder, log, Policy(), free)
    assert anyio.run(refused.on_invoke_tool, None, "drop").startswith("Error [")
    assert anyio.run(allowed.on_invoke_tool, None, "select") == "ok"
    assert done == ["select"]


def test_a_tool_of_the_provider_is_left_out_where_it_is_forbidden(folder: Path, log: MemoryLog) -> None:
    assert gated(folder, log, Policy(deny="WebSearch"), WebSearchTool()) == []
    assert len(gated(folder, log, Policy(), WebSearchTool())) == 1


def test_the_providers_search_for_tools_is_never_left_out(folder: Path, log: MemoryLog, outside: Outside) -> None:
    later = function_tool(outside.web_fetch, defer_loading=True)
    found = gated(folder, log, Policy(allow="Read"), later, ToolSearchTool())
    assert [tool.name for tool in found] == ["web_fetch", "tool_search"]


def test_a_skill_of_its_own_agent_has_the_model_that_it_asks_for(
    folder: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(folder / "deep", body="Think deep.", more="context: fork\nmodel: big\n")
    script = Script([load("deep"), "Thought.", "Done."])
    ran(agent_of(Skills(folder, models={"big": scripted(script, "big")}), script))
    assert [request.model for request in script.requests] == ["own", "big", "own"]


def test_a_group_of_traces_is_no_conversation(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(Skills(folder), script, function_tool(outside.web_fetch))
    for _ in range(2):
        ran(agent, run_config=RunConfig(group_id="nightly"))
    assert outside.calls == ["https://example.com"]
