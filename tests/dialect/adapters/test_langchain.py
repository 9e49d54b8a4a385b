"""What is specific to LangChain and LangGraph."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentState, wrap_tool_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel
from tests.dialect.adapters.playing_langchain import LangChain, ScriptedChat
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail

from metier.dialect.langchain import Skills
from metier.guard import MemoryLog, Policy

FETCH = Call("web_fetch", {"url": "https://example.com"})


def agent_of(script: Script, skills: Skills, *tools: Any, **options: Any) -> Any:
    return create_agent(ScriptedChat(script=script, named="own"), tools, middleware=[skills], **options)


def asking(text: str = "Begin.") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_that_has_to_be_asked_about_interrupts_the_graph(
    folder: Path, outside: Outside, is_async: bool, agrees: bool
) -> None:
    skills = Skills(folder, policy=Policy(ask="WebFetch"), defer=True)
    script = Script([FETCH, "Done."])
    agent = agent_of(script, skills, outside.web_fetch, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}

    def step(given: Any) -> Any:
        return anyio.run(agent.ainvoke, given, config) if is_async else agent.invoke(given, config)

    [interrupt] = step(asking())["__interrupt__"]
    assert interrupt.value["tool"] == "web_fetch"
    assert "web_fetch" in interrupt.value["questions"][0]
    assert outside.calls == []
    done = step(Command(resume=agrees))
    assert done["messages"][-1].text == "Done."
    assert bool(outside.calls) is agrees
    assert agrees or "approval-denied" in script.requests[-1].results[0]


def test_a_script_that_has_to_be_asked_about_waits_too(folder: Path) -> None:
    run = Call("skills_run", {"script": "scripts/count.py", "args": ["a"]})
    script = Script([load("report"), run, "Done."])
    skills = Skills(folder, policy=Policy(scripts="ask"), defer=True)
    agent = agent_of(script, skills, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    assert "count.py" in agent.invoke(asking(), config)["__interrupt__"][0].value["questions"][0]
    agent.invoke(Command(resume=True), config)
    assert "counted 1" in script.requests[-1].results[-1]


def test_after_a_restart_a_skill_of_its_own_agent_says_that_it_must_be_loaded_again(folder: Path) -> None:
    script = Script([load("research"), "Again."])
    kept = InMemorySaver()
    config = {"configurable": {"thread_id": "one"}}
    agent_of(script, Skills(folder), checkpointer=kept, interrupt_before=["tools"]).invoke(asking(), config)
    agent_of(script, Skills(folder), checkpointer=kept).invoke(None, config)
    assert "Error [invalid-argument]" in script.requests[-1].results[-1]


def test_a_run_without_a_thread_has_a_session_that_ends_with_it(folder: Path, outside: Outside, log: MemoryLog) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(script, Skills(folder, audit=log), outside.web_fetch)
    agent.invoke(asking())
    assert trail(log)[-1] == ("unload", "", "report", "allow", "", True)
    assert "metier_conversation" not in agent.invoke(asking())
    assert outside.calls == ["https://example.com"]
    assert len({one.session for one in log.records}) == 2


def test_runs_without_a_thread_at_the_same_time_do_not_see_each_other(folder: Path, outside: Outside) -> None:
    def step(request: Any) -> Any:
        plays = {"a": [load("report"), FETCH, "Done."], "b": [load("letters"), FETCH, "Done."]}
        return plays[request.messages[0][1]][len(request.results)]

    agent = agent_of(Script(step), Skills(folder), outside.web_fetch)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.ainvoke, asking("a"))
            group.start_soon(agent.ainvoke, asking("b"))

    anyio.run(both)
    assert len(outside.calls) == 1


def test_a_refusal_is_a_message_with_an_error(folder: Path, outside: Outside) -> None:
    agent = agent_of(Script([load("report"), FETCH, "Done."]), Skills(folder), outside.web_fetch)
    found = [one for one in agent.invoke(asking())["messages"] if isinstance(one, ToolMessage)]
    assert [(one.name, one.status) for one in found] == [("skills_load", "success"), ("web_fetch", "error")]


def test_a_tool_that_says_it_failed_is_recorded_as_failed(folder: Path, log: MemoryLog) -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise ToolException("It broke.")

    broken.handle_tool_error = True
    script = Script([Call("broken"), "Done."])
    agent_of(script, Skills(folder, audit=log), broken).invoke(asking())
    assert script.requests[1].results == ["It broke."]
    assert [(one.tool, one.success) for one in log.records] == [("broken", False)]


def test_threads_whose_ids_look_alike_are_not_the_same(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", *[step for _ in range(3) for step in (FETCH, "Fetched.")]])
    agent = agent_of(script, Skills(folder), outside.web_fetch, checkpointer=InMemorySaver())
    for thread in ("x", "x|", "x ", "X"):
        agent.invoke(asking(), {"configurable": {"thread_id": thread}})
    assert len(outside.calls) == 3


def test_agents_inside_one_graph_do_not_share_what_they_have_loaded(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(script, Skills(folder), outside.web_fetch)
    graph: Any = StateGraph(AgentState)
    graph.add_node("first", agent)
    graph.add_node("second", agent)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", END)
    whole = graph.compile(checkpointer=InMemorySaver())
    whole.invoke(asking(), {"configurable": {"thread_id": "one"}})
    assert outside.calls == ["https://example.com"]


def test_a_tool_of_the_provider_is_left_out_while_a_skill_forbids_it(folder: Path) -> None:
    offered: list[bool] = []

    class Watching(ScriptedChat):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            offered.append({"type": "web_search"} in tools)
            return super().bind_tools([one for one in tools if one != {"type": "web_search"}])

    script = Script([load("report"), Call("skills_unload", {"all": True}), "Done."])
    model = Watching(script=script, named="own")
    agent: Any = create_agent(model, [{"type": "web_search"}], middleware=[Skills(folder)])
    agent.invoke(asking())
    assert offered == [True, False, True]


def test_a_system_message_of_blocks_is_kept(folder: Path) -> None:
    own = SystemMessage([{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}])
    script = Script(["Done."])
    agent_of(script, Skills(folder), system_prompt=own).invoke(asking())
    assert script.requests[0].system.startswith("You are an agent.")
    assert "<name>report</name>" in script.requests[0].system


def test_a_blocking_agent_works_in_a_program_with_an_event_loop(folder: Path, outside: Outside) -> None:
    agent = agent_of(Script([load("letters"), FETCH, "Done."]), Skills(folder), outside.web_fetch)

    async def main() -> str:
        return str(agent.invoke(asking())["messages"][-1].text)

    assert anyio.run(main) == "Done."
    assert outside.calls == ["https://example.com"]


def test_a_blocking_tool_may_have_an_event_loop_of_its_own(folder: Path) -> None:
    @tool
    def nested() -> str:
        """Run something async."""
        return anyio.run(answer)

    async def answer() -> str:
        return "inside"

    script = Script([Call("nested"), "Done."])
    agent_of(script, Skills(folder), nested).invoke(asking())
    assert script.requests[1].results == ["inside"]


@pytest.mark.parametrize("models", [{}, lambda name: None, None], ids=["mapping", "function", "any"])
def test_a_model_that_is_not_there_leaves_the_agents_own(folder: Path, models: Any) -> None:
    script = Script([load("think"), "Done."])
    agent_of(script, Skills(folder, models=models)).invoke(asking())
    assert [request.model for request in script.requests] == ["own", "own"]


def test_an_agent_with_no_skills_at_all_works(tmp_path: Path, outside: Outside) -> None:
    (tmp_path / "none").mkdir()
    script = Script([FETCH, "Done."])
    agent = LangChain(tmp_path / "none", script, tools=[outside.web_fetch])
    assert anyio.run(agent.say, "Fetch it.") == "Done."
    assert script.requests[0].tools.keys() == {"web_fetch"}
    assert script.requests[0].system == "You are an agent."


def test_an_answer_by_a_tool_is_no_call_that_a_skill_could_forbid(folder: Path) -> None:
    class Count(BaseModel):
        """How many."""

        words: int

    script = Script([load("report"), Call("Count", {"words": 6})])
    agent = agent_of(script, Skills(folder), response_format=ToolStrategy(Count))
    assert agent.invoke(asking())["structured_response"] == Count(words=6)


def test_a_tool_of_the_graph_that_has_the_name_of_one_of_ours_passes_the_gate(folder: Path, log: MemoryLog) -> None:
    read: list[str] = []

    @tool
    def skills_read(path: str) -> str:
        """Read anything."""
        read.append(path)
        return "read"

    script = Script([Call("skills_read", {"path": "x"}), "Done."])
    skills = Skills(folder, policy=Policy(deny="skills_read"), audit=log)
    agent_of(script, skills, skills_read).invoke(asking())
    assert read == []
    assert [(name, decision) for _, name, _, decision, _, _ in trail(log)] == [("skills_read", "deny")]


def test_an_agreement_is_for_what_was_asked_and_not_for_what_it_became(folder: Path) -> None:
    skills = Skills(folder, policy=Policy(scripts="ask"), defer=True)
    run = Call("skills_run", {"script": "scripts/count.py", "skill": "report"})
    script = Script([load("report"), run, "Done."])
    agent = agent_of(script, skills, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    assert "__interrupt__" in agent.invoke(asking(), config)
    (folder / "report" / "scripts" / "count.py").write_text("print('something else')")
    skills.seam.kit("one").session.load(["report"])
    assert "__interrupt__" in agent.invoke(Command(resume=True), config), "somebody is asked again"
    agent.invoke(Command(resume=True), config)
    assert "something else" in script.requests[-1].results[-1]


@pytest.mark.parametrize("is_async", [True, False])
def test_what_has_to_be_asked_inside_a_forked_skill_is_refused_there(
    folder: Path, outside: Outside, is_async: bool
) -> None:
    script = Script([load("research", args="x"), FETCH, "Refused.", "Done."])
    skills = Skills(folder, policy=Policy(ask="WebFetch"), defer=True)
    agent = agent_of(script, skills, outside.web_fetch, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    done = anyio.run(agent.ainvoke, asking(), config) if is_async else agent.invoke(asking(), config)
    assert done["messages"][-1].text == "Done."
    assert outside.calls == []
    assert "Error [approval-needed]" in script.requests[2].results[-1]


def test_middleware_that_the_host_names_holds_in_a_forked_skill_too(folder: Path, outside: Outside) -> None:
    @wrap_tool_call
    def veto(request: Any, handler: Any) -> Any:
        if request.tool_call["name"] == "web_fetch":
            return ToolMessage("the host forbids it", tool_call_id=request.tool_call["id"], status="error")
        return handler(request)

    script = Script([load("research", args="x"), FETCH, "Refused.", "Done."])
    agent: Any = create_agent(
        ScriptedChat(script=script, named="own"),
        [outside.web_fetch],
        middleware=[veto, Skills(folder, middleware=[veto])],
    )
    agent.invoke(asking())
    assert outside.calls == []
    assert script.requests[2].results[-1] == "the host forbids it"


def test_a_call_of_a_tool_that_is_not_there_leaves_a_record(folder: Path, log: MemoryLog) -> None:
    script = Script([Call("nosuch", {}), "Done."])
    agent_of(script, Skills(folder, audit=log)).invoke(asking())
    assert [(name, success) for _, name, _, _, _, success in trail(log)] == [("nosuch", False)]


def test_a_call_waits_for_the_load_before_it_in_the_same_answer_whichever_thread_is_first(
    folder: Path, outside: Outside
) -> None:
    fetching = threading.Event()

    @wrap_tool_call
    def held_up(request: Any, handler: Any) -> Any:
        if request.tool_call["name"] == "skills_load":
            fetching.wait(10)
        else:
            fetching.set()
        return handler(request)

    script = Script([(load("report"), FETCH), "Done."])
    agent: Any = create_agent(
        ScriptedChat(script=script, named="own"), [outside.web_fetch], middleware=[held_up, Skills(folder)]
    )
    agent.invoke(asking())
    assert outside.calls == []
