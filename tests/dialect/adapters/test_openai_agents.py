"""What is specific to the OpenAI Agents SDK."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    AgentHooks,
    ApplyPatchTool,
    AsyncComputer,
    ComputerTool,
    CustomTool,
    HandoffInputData,
    HostedMCPTool,
    LocalShellCommandRequest,
    LocalShellTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ShellActionRequest,
    ShellCallData,
    ShellCommandRequest,
    ShellTool,
    ToolSearchTool,
    Usage,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.editor import ApplyPatchOperation
from agents.testing import ModelStep, ScriptedModel
from openai.types.responses import (
    ResponseComputerToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_output_item import LocalShellCall, LocalShellCallAction
from tests.dialect.adapters.playing_openai_agents import scripted
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail
from tests.tables import crossed, thinned

from metier.dialect import openai_agents_answers
from metier.dialect.openai_agents import Skills
from metier.guard import MemoryLog, Policy
from metier.session.calls import Calls

NOBODY: RunContextWrapper[Any] = RunContextWrapper(None)
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


@pytest.mark.slow
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


@thinned("made", [lambda to: to, handoff, lambda to: handoff(to, input_filter=lost)], one_in=3)
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


def test_a_clone_that_is_refused_a_handoff_goes_on_by_itself(folder: Path) -> None:
    other: Agent[Any] = Agent(name="other")
    one = Skills(folder, policy=Policy(deny="transfer_to_other")).equip(Agent(name="one", handoffs=[other]))
    two = one.clone(name="two")

    async def main() -> list[Any]:
        for agent in (one, two):
            await agent.get_all_tools(NOBODY)
        given: list[Any] = [agent.handoffs[0] for agent in (one, two)]
        return [await handoff.on_invoke_handoff(NOBODY, "{}") for handoff in given]

    assert anyio.run(main) == [one, two]


@crossed(
    ("arguments", [{"to": "x"}, {"zz": 1}]),
    ("how", [{}, {"failure_error_function": lambda ctx, error: f"Sorry: {type(error).__name__}"}]),
    one_in=2,
)
def test_a_function_that_fails_is_recorded_as_failed_and_told_as_before(
    folder: Path, log: MemoryLog, arguments: dict[str, Any], how: dict[str, Any]
) -> None:
    def boom(to: str) -> str:
        """Fail."""
        raise ValueError(to)

    said = []
    for equipped in (False, True):
        script = Script([Call("boom", arguments), "Done."])
        tool = function_tool(boom, **how)
        plain: Agent[Any] = Agent(name="assistant", model=scripted(script, "own"), tools=[tool])
        ran(Skills(folder, audit=log).equip(plain) if equipped else plain)
        said.append(script.requests[1].results)
    assert said[0] == said[1]
    assert [(tool, success) for _, tool, *_, success in trail(log)] == [("boom", False)]


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


def asked(*commands: str) -> ShellCommandRequest:
    """A request as the SDK makes one."""
    action = ShellActionRequest(commands=list(commands))
    return ShellCommandRequest(ctx_wrapper=NOBODY, data=ShellCallData(call_id="1", action=action))


def asked_before(*command: str, **more: Any) -> LocalShellCommandRequest:
    """The same for the shell that there was before."""
    action = LocalShellCallAction(**{"type": "exec", "command": list(command), "env": {}} | more)
    call = LocalShellCall(id="1", call_id="1", status="completed", type="local_shell_call", action=action)
    return LocalShellCommandRequest(ctx_wrapper=NOBODY, data=call)


def test_commands_for_a_shell_are_decided_about(folder: Path, log: MemoryLog) -> None:
    shell = Shell()
    policy = Policy(deny="Bash(rm:*)")
    new, old = gated(folder, log, policy, ShellTool(executor=shell), LocalShellTool(executor=shell))

    async def main() -> list[str]:
        return [
            await new.executor(asked("rm -rf x")),
            await new.executor(asked("ls")),
            await old.executor(asked_before("rm", "-rf", "x")),
            await old.executor(asked_before("ls")),
        ]

    results = anyio.run(main)
    assert [result.startswith("Error [") for result in results] == [True, False, True, False]
    assert shell.done == ["ran", "ran"]
    assert [one.decision for one in log.records] == ["deny", "allow", "deny", "allow"]


@pytest.mark.each(
    ("commands", "is_made"),
    [
        (["git log", "git diff"], True),
        (["git log", "rm -rf x"], False),
        # Put together these would be one command.
        (["git log \\", "rm -rf x"], False),
        (["git log <<E", "rm -rf x", "E"], False),
        (["git log"] * 20, True),
        (["git log"] * 21, False),
        ([], False),
    ],
)
@pytest.mark.each("policy", [Policy(allow="Bash(git:*)"), Policy(deny="Bash(rm:*)")])
def test_several_commands_are_decided_about_one_by_one(
    folder: Path, commands: list[str], is_made: bool, policy: Policy
) -> None:
    shell, log = Shell(), MemoryLog()
    [tool] = gated(folder, log, policy, ShellTool(executor=shell))
    anyio.run(tool.executor, asked(*commands))
    assert bool(shell.done) is is_made
    assert all(one.success is is_made for one in log.records)


@pytest.mark.each(
    "more",
    [
        {"env": {"GIT_EXTERNAL_DIFF": "rm -rf x"}},
        {"user": "root"},
        {"working_directory": ".git/hooks"},
    ],
)
@pytest.mark.each("policy", [Policy(allow="Bash(git diff:*)"), Policy(deny="Bash(rm:*)")])
def test_how_a_command_is_run_is_decided_about_too(
    folder: Path, log: MemoryLog, more: dict[str, Any], policy: Policy
) -> None:
    shell = Shell()
    [tool] = gated(folder, log, policy, LocalShellTool(executor=shell))
    assert anyio.run(tool.executor, asked_before("git", "diff")) == "ran"
    assert anyio.run(tool.executor, asked_before("git", "diff", **more)).startswith("Error [")
    assert shell.done == ["ran"]
    assert json.loads(log.records[-1].arguments) == {"command": "git diff", **more}


def test_patches_are_decided_about(folder: Path, log: MemoryLog) -> None:
    editor = Shell()
    [patch] = gated(folder, log, Policy(deny="Write"), ApplyPatchTool(editor=editor))

    async def main() -> None:
        create = await patch.editor.create_file(ApplyPatchOperation("create_file", "a.txt", "x"))
        assert (create.status, create.output[:7]) == ("failed", "Error [")
        await patch.editor.update_file(ApplyPatchOperation("update_file", "b.txt", "x"))

    anyio.run(main)
    assert editor.done == ["b.txt"]
    assert json.loads(log.records[-1].arguments) == {"path": "b.txt", "diff": "x"}


@pytest.mark.parametrize(("to", "is_made"), [("docs/b.md", True), ("elsewhere/b.md", False)])
def test_where_a_patch_moves_a_file_is_decided_about_too(folder: Path, log: MemoryLog, to: str, is_made: bool) -> None:
    editor = Shell()
    policy = Policy(allow="Edit(docs/**) Write(docs/**)")
    [patch] = gated(folder, log, policy, ApplyPatchTool(editor=editor))
    operation = ApplyPatchOperation("update_file", "docs/a.md", "x", move_to=to)
    assert (getattr(anyio.run(patch.editor.update_file, operation), "status", "") != "failed") is is_made
    assert editor.done == ["docs/a.md"] * is_made
    decided = {one.tool: (one.decision, one.success) for one in log.records}
    assert decided == {"Edit": ("allow", is_made), "Write": ("allow" if is_made else "deny", is_made)}


class Screen(AsyncComputer):
    """A computer that notes what is done with it."""

    dimensions = (640, 480)

    def __init__(self) -> None:
        self.done: list[Any] = []

    async def screenshot(self) -> str:
        self.done.append("seen")
        return "picture"

    async def click(self, x: int, y: int, button: str, *, keys: list[str] | None = None) -> None:
        self.done.append((x, y, button, keys))

    async def type(self, text: str) -> None:
        self.done.append(text)

    async def nothing(self, *given: Any) -> None:
        raise NotImplementedError

    double_click: Any = nothing
    scroll = wait = move = keypress = drag = double_click


def computer_call(name: str, **action: Any) -> ResponseComputerToolCall:
    """The model uses the computer."""
    call = {"id": name, "call_id": name, "type": "computer_call", "status": "completed", "pending_safety_checks": []}
    return ResponseComputerToolCall.model_validate(call | {"action": action})


def played(*steps: Sequence[Any]) -> ScriptedModel:
    """A model that answers with these items, each time for 10 tokens."""
    usage = Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10)
    return ScriptedModel([ModelStep(output=list(items), usage=usage) for items in steps])


def function_call(call: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(call_id="f", name=call.tool, arguments=call.json, type="function_call")


def said(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


def test_each_action_at_a_computer_is_decided_about_and_recorded(folder: Path, log: MemoryLog) -> None:
    screen = Screen()
    made: list[Any] = []

    def make(*, run_context: Any) -> Screen:
        made.append(run_context)
        return screen

    clicked = computer_call("1", type="click", x=1, y=2, button="left", keys=["CTRL"])
    model = played([clicked], [computer_call("2", type="type", text="secret")], [said("Done.")])

    def approve(action: Any, decision: Any) -> bool:
        return "secret" not in action.arguments["arguments"]

    skills = Skills(folder, audit=log, policy=Policy(ask="computer_use_preview"), approve=approve)
    ran(skills.equip(Agent(name="assistant", model=model, tools=[ComputerTool(computer=make)])))
    assert screen.done == [(1, 2, "left", ["CTRL"]), "seen", "seen"]
    assert [(json.loads(one.arguments)["action"], one.decision) for one in log.records] == [
        ("click", "allow"),
        ("screenshot", "allow"),
        ("type", "deny"),
        ("screenshot", "allow"),
    ]
    assert len(made) == 1


def test_a_computer_that_is_forbidden_is_left_out(folder: Path, log: MemoryLog) -> None:
    assert gated(folder, log, Policy(deny="computer_use_preview"), ComputerTool(computer=Screen())) == []
    [shown] = gated(folder, log, Policy(), ComputerTool(computer=Screen()))
    assert shown.computer.dimensions == (640, 480)


def test_what_a_skill_restricts_holds_for_all_tools_that_are_called_in_the_answer_that_loads_it(
    folder: Path, log: MemoryLog
) -> None:
    screen, shell = Screen(), Shell()
    command = asked_before("ls").data
    answer = [command, computer_call("c", type="type", text="x"), function_call(load("report"))]
    tools: list[Any] = [ComputerTool(computer=screen), LocalShellTool(executor=shell)]
    agent: Agent[Any] = Agent(name="assistant", model=played(answer, [said("Done.")]), tools=tools)
    done = ran(Skills(folder, audit=log).equip(agent))
    assert (screen.done, shell.done) == ([], [])
    # A screen that must not be seen is blank.
    [picture] = [item.output for item in done.new_items if str(getattr(item, "output", "")).startswith("data:")]
    assert base64.b64decode(picture.partition(",")[2]).startswith(b"\x89PNG")


def test_nothing_is_made_where_the_load_before_it_never_begins(
    folder: Path, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_agents_answers, "MAX_WAIT", 0.01)
    shell = Shell()
    again = function_call(load("report"))
    # The SDK makes no call twice that has the same id.
    steps = [again], [function_call(Call("skills_unload", {"all": True})).model_copy(update={"call_id": "u"})]
    model = played(*steps, [again, asked_before("ls").data], [said("Done.")])
    agent: Agent[Any] = Agent(name="assistant", model=model, tools=[LocalShellTool(executor=shell)])
    ran(Skills(folder, audit=log).equip(agent))
    assert shell.done == []
    assert [one.code for one in log.records if one.tool == "local_shell"] == ["not-decided"]


def test_calls_that_the_provider_makes_leave_a_record(folder: Path, log: MemoryLog) -> None:
    search = ResponseFunctionWebSearch.model_validate(
        {"id": "w", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "me"}}
    )
    shell = ResponseFunctionShellToolCall.model_validate(
        {"id": "s", "call_id": "s", "type": "shell_call", "status": "completed", "action": {"commands": ["ls"]}}
    )
    tools: list[Any] = [WebSearchTool(), ShellTool(environment={"type": "container_auto"})]
    model = played([search, shell, said("Found.")])
    ran(Skills(folder, audit=log).equip(Agent(name="assistant", model=model, tools=tools)))
    assert trail(log) == [
        ("call", "web_search", "", "allow", "", True),
        ("call", "shell", "", "allow", "", True),
    ]
    assert "me" in log.records[0].arguments and "ls" in log.records[1].arguments


def test_every_answer_is_told_with_its_model_and_its_tokens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(Calls, "answered_by", lambda self, *given, output: told.append((*given, output)))
    big = played([said("Done.")])
    big.model = "big-1"  # type: ignore[attr-defined]
    skills = Skills(folder, models={"big": big})
    ran(skills.equip(Agent(name="assistant", model=played([function_call(load("think"))]))))
    assert told == [("ScriptedModel", 10, 3), ("big-1", 10, 3)]


class Noting(AgentHooks[Any]):
    """Hooks of the host."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def on_start(self, context: Any, agent: Any) -> None:
        self.noted.append("start")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.noted.append("answer")


def test_hooks_of_the_agent_and_of_its_clones_are_called_once(folder: Path) -> None:
    hooks = Noting()
    agent: Agent[Any] = Agent(name="assistant", model=played([said("Done.")], [said("Done.")]), hooks=hooks)
    equipped = Skills(folder).equip(agent)
    ran(equipped)
    ran(equipped.clone(name="other"))
    assert hooks.noted == ["start", "answer"] * 2


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
    tickets = HostedMCPTool({"type": "mcp", "server_label": "tickets", "server_url": "https://example.com"})
    assert gated(folder, log, Policy(deny="mcp__tickets"), tickets) == []
    assert len(gated(folder, log, Policy(deny="mcp__other"), tickets)) == 1


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


@pytest.mark.slow
def test_a_group_of_traces_is_no_conversation(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(Skills(folder), script, function_tool(outside.web_fetch))
    for _ in range(2):
        ran(agent, run_config=RunConfig(group_id="nightly"))
    assert outside.calls == ["https://example.com"]
