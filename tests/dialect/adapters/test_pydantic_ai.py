"""What is specific to pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, TextOutput, ToolDenied
from pydantic_ai.capabilities import AbstractCapability, NativeTool, PrepareTools
from pydantic_ai.exceptions import ToolFailed, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, NativeToolCallPart, TextPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from tests.dialect.adapters.playing_pydantic_ai import PydanticAI, scripted
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail
from tests.tables import thinned

from metier import Library
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


def approved(first: Any, **metadata: Any) -> DeferredToolResults:
    approvals: Any = {call.tool_call_id: True for call in first.output.approvals}
    told: Any = metadata or first.output.metadata
    return DeferredToolResults(approvals=approvals, metadata={call: told.get(call, told) for call in approvals})


def test_an_approval_is_for_what_this_process_asked_and_another_asks_again(folder: Path, outside: Outside) -> None:
    script = Script([FETCH, "Done."])

    async def main() -> None:
        first: Any = await deferring(folder, script, outside).run("Fetch it.")
        elsewhere = deferring(folder, script, outside)
        second: Any = await elsewhere.run(
            message_history=first.all_messages(), deferred_tool_results=approved(first), conversation_id="one"
        )
        assert isinstance(second.output, DeferredToolRequests)
        assert outside.calls == []
        third = await elsewhere.run(
            message_history=first.all_messages(), deferred_tool_results=approved(second), conversation_id="one"
        )
        assert third.output == "Done."

    anyio.run(main)
    assert outside.calls == ["https://example.com"]


def test_an_approval_counts_once_however_often_it_is_sent(folder: Path, outside: Outside) -> None:
    agent = deferring(folder, Script([FETCH, "Done."]), outside)

    async def main() -> None:
        first: Any = await agent.run("Fetch it.", conversation_id="one")
        given: Any = {"message_history": first.all_messages(), "conversation_id": "one"}
        for _ in range(4):
            again = await agent.run(deferred_tool_results=approved(first), **given)
        assert isinstance(again.output, DeferredToolRequests)

    anyio.run(main)
    assert outside.calls == ["https://example.com"]


@thinned("told", [{"questions": 5}, {"questions": ["x"]}, {"text": None}], one_in=3)
def test_what_else_comes_back_with_an_approval_changes_nothing(
    folder: Path, outside: Outside, told: dict[str, Any]
) -> None:
    agent = deferring(folder, Script([FETCH, "Done."]), outside)

    async def main() -> None:
        first: Any = await agent.run("Fetch it.")
        results = approved(first, **told)
        assert (await agent.run(message_history=first.all_messages(), deferred_tool_results=results)).output == "Done."

    anyio.run(main)
    assert outside.calls == ["https://example.com"]


def test_what_has_to_be_asked_inside_a_forked_skill_is_refused_there(
    folder: Path, outside: Outside, log: MemoryLog
) -> None:
    script = Script([load("research", args="x"), FETCH, "Refused.", "Done."])
    assert ran(deferring(folder, script, outside, audit=log), "Begin.").output == "Done."
    assert outside.calls == []
    assert "Error [approval-needed]" in script.requests[2].results[-1]


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


def test_what_the_provider_did_itself_is_recorded(folder: Path, log: MemoryLog) -> None:
    def answer(messages: Any, info: AgentInfo) -> ModelResponse:
        search = NativeToolCallPart("web_search", {"query": "skills"}, "1", provider_name="it")
        return ModelResponse(parts=[search, TextPart("Found.")])

    ran(Agent(FunctionModel(answer), capabilities=[Skills(folder, audit=log)]), "Search.")
    assert ("call", "web_search", "", "allow", "", True) in trail(log)


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


@thinned("models", [{}, lambda name: None, None], ids=["mapping", "function", "any"], one_in=3)
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


def test_a_function_that_takes_the_output_passes_the_gate(folder: Path, log: MemoryLog) -> None:
    sent: list[str] = []

    def send_mail(to: str) -> str:
        """Send it."""
        sent.append(to)
        return f"sent to {to}"

    mail = Call("final_result_send_mail", {"to": "a@example.com"})
    script = Script([load("report"), mail, Call("skills_unload", {"all": True}), mail])
    agent = Agent(
        scripted(script, "own"), output_type=[send_mail, int], capabilities=[Skills(folder, audit=log)], retries=3
    )
    assert ran(agent, "Send it.").output == "sent to a@example.com"
    assert sent == ["a@example.com"]
    assert "Error [tool-not-allowed]" in script.requests[2].results[-1]
    calls = [(decision, success) for _, tool, _, decision, _, success in trail(log) if tool == "send_mail"]
    assert calls == [("deny", False), ("allow", True)]


def test_a_function_that_takes_text_is_refused_by_policy(folder: Path, log: MemoryLog) -> None:
    said: list[str] = []

    def publish(text: str) -> str:
        said.append(text)
        return text

    agent = Agent(
        scripted(Script(["One.", "Two."]), "own"),
        output_type=TextOutput(publish),
        capabilities=[Skills(folder, policy=Policy(deny="publish"), audit=log)],
    )
    with pytest.raises(UnexpectedModelBehavior):
        ran(agent, "Say it.")
    assert said == []
    assert [(tool, decision) for _, tool, _, decision, _, _ in trail(log)] == [("publish", "deny")] * 2


def test_what_the_host_forbids_and_hides_holds_in_a_forked_skill_too(folder: Path, outside: Outside) -> None:
    class Veto(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            if call.tool_name == "web_fetch":
                raise ToolFailed("the host forbids it")
            return await handler(args)

    class Bringing(AbstractCapability[Any]):
        def get_toolset(self) -> Any:
            return FunctionToolset([brought, hidden])

    def brought() -> str:
        """Brought by a capability."""
        return "brought"

    def hidden() -> str:
        """Never shown."""
        return "hidden"

    def shown(ctx: Any, tools: list[ToolDefinition]) -> list[ToolDefinition]:
        return [tool for tool in tools if tool.name != "hidden"]

    script = Script([load("research", args="x"), FETCH, Call("brought"), "Found.", "Done."])
    agent = Agent(
        scripted(script, "own"),
        tools=[outside.web_fetch],
        capabilities=[Veto(), Skills(folder), Bringing(), PrepareTools(shown)],
    )
    assert ran(agent, "Begin.").output == "Done."
    assert outside.calls == []
    assert script.requests[3].results == ["the host forbids it", "brought"]
    assert "hidden" not in script.requests[1].tools
    assert script.requests[1].tools == script.requests[0].tools


def test_calls_that_cannot_be_made_leave_a_record(folder: Path, outside: Outside, log: MemoryLog) -> None:
    script = Script(
        [
            Call("web_fetch", {"url": 5}),
            Call("web_fetch", "{bad"),
            Call("nosuch", {}),
            Call("skills_load", "{bad"),
            "Done.",
        ]
    )
    agent = Agent(
        scripted(script, "own"), tools=[outside.web_fetch], capabilities=[Skills(folder, audit=log)], retries=5
    )
    ran(agent, "Begin.")
    assert [(tool, code) for _, tool, _, _, code, _ in trail(log)] == [
        ("web_fetch", "invalid-arguments"),
        ("web_fetch", "invalid-arguments"),
        ("nosuch", "tool-not-found"),
        ("skills_load", "invalid-arguments"),
    ]
    assert script.requests[-1].results[-1].startswith("Error [invalid-arguments]")


def test_who_validates_is_not_called_for_a_call_that_is_refused(folder: Path, log: MemoryLog) -> None:
    looked: list[str] = []
    deleted: list[str] = []
    delete = Call("delete", {"what": "x"})
    unload = Call("skills_unload", {"all": True})
    script = Script([load("report"), delete, (unload, delete), (unload, Call("delete", {"what": 5})), "Done."])
    agent = Agent(scripted(script, "own"), capabilities=[Skills(folder, audit=log)])

    def look(ctx: Any, what: str) -> None:
        looked.append(f"{what} after {len(script.requests)}")

    @agent.tool_plain(name="delete", args_validator=look)
    def deletes(what: str) -> str:
        """Delete it."""
        deleted.append(what)
        return "deleted"

    ran(agent, "Begin.")
    assert looked == ["x after 3"], "not before it was allowed, which is once the skill is unloaded"
    assert deleted == ["x"]
    codes = [(decision, code) for _, tool, _, decision, code, _ in trail(log) if tool == "delete"]
    assert codes == [("deny", "tool-not-allowed"), ("allow", ""), ("allow", "invalid-arguments")]


def test_a_tool_that_has_the_name_of_one_of_ours_does_not_skip_the_gate(
    tmp_path: Path, log: MemoryLog, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / "late").mkdir()
    library = Library.from_folder(tmp_path / "late")
    read: list[str] = []

    def skills_read(path: str) -> str:
        """Read anything."""
        read.append(path)
        return "read"

    def step(request: Any) -> Any:
        write_skill(tmp_path / "late" / "first")
        library.refresh()
        return Call("skills_read", {"path": "x"})

    skills = Skills(library, policy=Policy(deny="skills_read"), audit=log)
    agent = Agent(scripted(Script(step), "own"), tools=[skills_read], capabilities=[skills])
    with pytest.raises(UserError, match="conflicts with"):
        ran(agent, "Read.")
    assert read == []
    assert [(tool, decision) for _, tool, _, decision, _, _ in trail(log)] == [("skills_read", "deny")]


def test_tools_that_the_host_renames_are_still_ours(folder: Path, log: MemoryLog) -> None:
    script = Script([Call("my_skills_load", {"skills": ["letters"]}), "Done."])
    agent = Agent(scripted(script, "own"), capabilities=[Skills(folder, audit=log).prefix_tools("my")])
    ran(agent, "Write.")
    assert [(event, tool or skill) for event, tool, skill, _, _, _ in trail(log)] == [
        ("load", "letters"),
        ("call", "skills_load"),
    ]


@pytest.mark.parametrize("agrees", [True, False])
def test_a_skill_whose_commands_somebody_is_asked_about_is_not_active_before_they_agree(
    folder: Path, outside: Outside, write_skill: Callable[..., Path], agrees: bool
) -> None:
    write_skill(folder / "inj", body="Now: !`echo hi`", more="allowed-tools: Read Bash(echo:*)\n")
    script = Script([load("inj"), FETCH, "Done."])
    agent = deferring(folder, script, outside, policy=Policy(injection="ask", unsandboxed="allow"))

    async def main() -> None:
        first: Any = await agent.run("Begin.", conversation_id="one")
        assert isinstance(first.output, DeferredToolRequests)
        assert "echo hi" in str(first.output.metadata)
        [call] = first.output.approvals
        answer = DeferredToolResults(approvals={call.tool_call_id: True if agrees else ToolDenied("No.")})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=answer, conversation_id="one")

    anyio.run(main)
    assert bool(outside.calls) is not agrees
    assert ("Now: hi" in str(script.requests[1].results)) is agrees
