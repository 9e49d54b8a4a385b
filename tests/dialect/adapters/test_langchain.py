"""What is specific to LangChain and LangGraph."""

from __future__ import annotations

import gc
import shutil
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentState, wrap_tool_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command
from pydantic import BaseModel
from tests.dialect.adapters.playing_langchain import LangChain, ScriptedChat
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail
from tests.tables import crossed, thinned

from metier.dialect import langchain_models, langchain_order
from metier.dialect.langchain import Skills
from metier.dialect.langchain_threads import newest
from metier.errors import InvalidArgument
from metier.guard import MemoryLog, Policy

FETCH = Call("web_fetch", {"url": "https://example.com"})
RUN = Call("skills_run", {"script": "scripts/count.py", "skill": "report"})
ADD = {"mode": "add"}
UNLOAD = Call("skills_unload", {"all": True})
ONE: Any = {"configurable": {"thread_id": "one"}}


def agent_of(script: Script, skills: Skills, *tools: Any, **options: Any) -> Any:
    return create_agent(ScriptedChat(script=script, named="own"), tools, middleware=[skills], **options)


def asking(text: str = "Begin.") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@crossed(("agrees", [True, False]), ("is_async", [True, False]), one_in=2)
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


@pytest.mark.slow
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
    assert agent.invoke(asking()).keys() == {"messages"}
    assert outside.calls == ["https://example.com"]
    assert len({one.session for one in log.records}) == 2


@pytest.mark.slow
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


@pytest.mark.slow
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


@thinned("models", [{}, lambda name: None, None], ids=["mapping", "function", "any"], one_in=3)
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


@thinned("is_async", [True, False], one_in=2)
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


class Processes:
    """Agents with the same skills and the same checkpoints, each as if in a process of its own."""

    def __init__(self, folder: Path, outside: Outside, **options: Any) -> None:
        self._folder, self._outside, self._options = folder, outside, options
        self.kept = InMemorySaver()

    def another(self, script: Script, **options: Any) -> Any:
        skills = Skills(self._folder, **self._options)
        agent = agent_of(script, skills, self._outside.web_fetch, checkpointer=self.kept, **options)
        agent.skills = skills
        return agent


@pytest.fixture
def processes(folder: Path, outside: Outside) -> Processes:
    return Processes(folder, outside)


@pytest.mark.slow
def test_an_agreement_in_another_process_is_for_what_it_names_and_not_for_what_that_became(
    folder: Path, outside: Outside
) -> None:
    script = Script([load("report"), RUN, "Done."])
    processes = Processes(folder, outside, policy=Policy(scripts="ask"), defer=True)
    [asked] = processes.another(script).invoke(asking(), ONE)["__interrupt__"]
    (folder / "report" / "scripts" / "count.py").write_text("print('something else')")
    for answer in (True, asked.value["ids"]):
        [again] = processes.another(script).invoke(Command(resume=answer), ONE)["__interrupt__"]
        assert again.value["ids"] != asked.value["ids"]
    processes.another(script).invoke(Command(resume=again.value["ids"]), ONE)
    assert "something else" in script.requests[-1].results[-1]


@pytest.mark.slow
def test_an_agreement_that_names_what_was_asked_counts_in_another_process(folder: Path, outside: Outside) -> None:
    script = Script([FETCH, "Done."])
    processes = Processes(folder, outside, policy=Policy(ask="WebFetch"), defer=True)
    [asked] = processes.another(script).invoke(asking(), ONE)["__interrupt__"]
    processes.another(script).invoke(Command(resume=asked.value["ids"]), ONE)
    assert len(outside.calls) == 1


def test_a_no_is_a_no_after_a_restart(folder: Path, outside: Outside) -> None:
    script = Script([FETCH, "Done."])
    processes = Processes(folder, outside, policy=Policy(ask="WebFetch"), defer=True)
    processes.another(script).invoke(asking(), ONE)
    processes.another(script).invoke(Command(resume=False), ONE)
    assert "approval-denied" in script.requests[-1].results[0]


def test_what_a_skill_restricts_holds_where_the_thread_goes_on_in_another_process(
    processes: Processes, outside: Outside
) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Done."])
    processes.another(script).invoke(asking(), ONE)
    anyio.run(processes.another(script).ainvoke, asking(), ONE)
    assert outside.calls == []
    assert 'name="report"' in script.requests[2].system


def test_processes_that_take_turns_have_what_the_other_one_loaded_and_unloaded(
    processes: Processes, outside: Outside
) -> None:
    script = Script([load("report"), "Done.", UNLOAD, FETCH, "Done.", FETCH, load("report"), "Done.", FETCH, "Done."])
    first, second = processes.another(script), processes.another(script)
    for agent, calls in ((first, 0), (second, 1), (first, 2), (second, 2)):
        agent.invoke(asking(), ONE)
        assert len(outside.calls) == calls


@pytest.mark.slow
def test_going_back_in_a_thread_goes_back_to_what_was_loaded(processes: Processes, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", UNLOAD, FETCH, "Done.", FETCH, "Done."])
    agent = processes.another(script)
    agent.invoke(asking(), ONE)
    there = agent.get_state(ONE).config
    agent.invoke(asking(), ONE)
    assert len(outside.calls) == 1
    agent.invoke(asking(), there)
    assert len(outside.calls) == 1


@pytest.mark.slow
def test_what_a_user_loads_in_a_new_process_is_added_to_what_the_thread_has(
    processes: Processes, outside: Outside
) -> None:
    script = Script([load("letters"), "Loaded.", FETCH, "Done.", FETCH, "Done."])
    processes.another(script).invoke(asking(), ONE)
    second = processes.another(script)
    second.skills.seam.kit("one").session.invoke("/report")
    second.invoke(asking(), ONE)
    third = processes.another(script)
    third.invoke(asking(), ONE)
    assert outside.calls == []
    assert [one.name for one in third.skills.seam.kit("one").session.active] == ["letters", "report"]


@pytest.mark.slow
def test_a_copy_of_a_thread_is_another_conversation(processes: Processes, outside: Outside, log: MemoryLog) -> None:
    script = Script([load("report"), "Loaded.", UNLOAD, FETCH, "Done.", FETCH, "Done."])
    agent = processes.another(script)
    agent.invoke(asking(), ONE)
    two: Any = {"configurable": {"thread_id": "two"}}
    agent.update_state(two, agent.get_state(ONE).values)
    agent.invoke(asking(), two)
    agent.invoke(asking(), ONE)
    assert len(outside.calls) == 1
    assert [one.name for one in agent.skills.seam.kit("one").session.active] == ["report"]


@pytest.mark.slow
def test_all_that_calls_of_one_answer_load_is_there_in_another_process(processes: Processes) -> None:
    script = Script([(load("report"), load("letters", **ADD), load("inner", **ADD)), "Loaded.", "Done."])
    processes.another(script).invoke(asking(), ONE)
    other = processes.another(script)
    other.invoke(asking(), ONE)
    assert [one.name for one in other.skills.seam.kit("one").session.active] == ["report", "letters", "inner"]


def test_a_call_that_begins_late_in_its_step_is_under_what_the_step_has_loaded(
    processes: Processes, outside: Outside
) -> None:
    script = Script([load("letters"), (load("report"), FETCH), "Done."])
    processes.another(script).invoke(asking(), {**ONE, "max_concurrency": 1})
    assert outside.calls == []


def test_what_a_run_has_loaded_holds_though_another_middleware_drops_what_would_be_saved(
    folder: Path, outside: Outside
) -> None:
    @wrap_tool_call
    def plain(request: Any, handler: Any) -> Any:
        done = handler(request)
        is_dropped = request.tool_call["args"] == {"skills": ["report"]}
        return done.update["messages"][0] if is_dropped else done

    script = Script([load("letters"), load("report"), FETCH, "Done."])
    agent: Any = create_agent(
        ScriptedChat(script=script, named="own"),
        [outside.web_fetch],
        middleware=[plain, Skills(folder)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(asking(), ONE)
    assert outside.calls == []


def test_a_call_is_not_made_where_nobody_knows_what_the_calls_before_it_loaded(
    folder: Path, outside: Outside, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langchain_order, "LATE", 0.01)
    script = Script([(load("letters"), FETCH), FETCH, "Done."])
    processes = Processes(folder, outside, policy=Policy(ask="WebFetch"), defer=True, audit=log)
    [asked] = processes.another(script).invoke(asking(), ONE)["__interrupt__"]
    other = processes.another(script)
    [again] = other.invoke(Command(resume=asked.value["ids"]), ONE)["__interrupt__"]
    assert "skills-unknown" in script.requests[1].results[1]
    assert ("web_fetch", False) in [(one.tool, one.success) for one in log.records if one.code == "skills-unknown"]
    assert outside.calls == []
    other.invoke(Command(resume=again.value["ids"]), ONE)
    assert len(outside.calls) == 1
    assert [one.name for one in other.skills.seam.kit("one").session.active] == ["letters"]


def test_two_processes_that_load_in_the_same_step_have_lost_what_only_one_of_them_has() -> None:
    def saved(by: str, count: int, name: str, after: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"by": by, "count": count, "after": after, "session": {"active": [{"name": name}]}, "lost": []}

    start, other = saved("one", 0, "a"), saved("two", 0, "c", {"by": "one", "count": 0})
    later = saved("one", 2, "b")
    assert newest(newest(start, later), saved("one", 1, "x")) == later
    assert newest(start, other) == other
    for first, second, lost in ((later, other, "b"), (other, later, "c")):
        found = newest(newest(start, first), second)
        assert (found["session"], found["lost"]) == (second["session"], [lost])
        assert found["by"] not in ("one", "two")


@thinned(
    "state",
    [
        "x",
        {"by": "x", "count": 1, "after": None, "session": {"format": 1}, "lost": []},
    ],
    one_in=2,
)
def test_a_checkpoint_that_cannot_be_read_is_an_error_and_never_a_thread_without_rules(
    processes: Processes, outside: Outside, state: Any
) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Done."])
    first = processes.another(script)
    first.invoke(asking(), ONE)
    first.update_state(ONE, {"metier_saved": state})
    for agent in (first, processes.another(script)):
        with pytest.raises(InvalidArgument):
            agent.invoke(asking(), ONE)
    assert outside.calls == []


def test_without_a_skill_that_a_thread_had_loaded_nothing_is_called_until_the_model_says_what_is_active(
    processes: Processes, outside: Outside, folder: Path
) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Refused.", FETCH, UNLOAD, FETCH, "Done.", FETCH, "Done."])
    processes.another(script).invoke(asking(), ONE)
    shutil.rmtree(folder / "report")
    for calls in (0, 1, 2):
        processes.another(script).invoke(asking(), ONE)
        assert len(outside.calls) == calls
    assert all("skills-unknown" in script.requests[step].results[-1] for step in (3, 5))
    assert "report" in script.requests[3].results[-1]


def test_a_user_cannot_say_what_a_thread_has_loaded(processes: Processes, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Done."])
    agent = processes.another(script)
    agent.invoke(asking(), ONE)
    agent.invoke({**asking(), "metier_saved": None, "metier_run": "x"}, ONE)
    assert outside.calls == []


@pytest.mark.slow
def test_an_agent_inside_a_graph_that_waits_for_an_answer_goes_on_with_what_it_has_loaded(
    folder: Path, outside: Outside
) -> None:
    script = Script([load("report"), Call("skills_read", {"path": "references/style.md"}), FETCH, "Done."])
    skills = Skills(folder, policy=Policy(ask="skills_read"), defer=True)
    graph: Any = StateGraph(AgentState)
    graph.add_node("inside", agent_of(script, skills, outside.web_fetch))
    graph.add_edge(START, "inside")
    whole = graph.compile(checkpointer=InMemorySaver())
    assert "__interrupt__" in whole.invoke(asking(), ONE)
    gc.collect()
    assert "__interrupt__" not in whole.invoke(Command(resume=True), ONE)
    assert "Be brief." in script.requests[2].results[-1]
    assert outside.calls == []
    assert len(skills.seam._sessions) == 0


@thinned("is_inside", [False, True], one_in=2)
def test_a_run_that_fails_ends_its_session_too(folder: Path, is_inside: bool) -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise RuntimeError("It broke.")

    def step(request: Any) -> Any:
        begun = [load("letters"), Call("broken")]
        return begun[len(request.results)] if request.messages[0][1] == "Begin." else "Done."

    skills = Skills(folder)
    agent = agent_of(Script(step), skills, broken)
    graph: Any = StateGraph(AgentState)
    graph.add_node("inside", agent)
    graph.add_edge(START, "inside")
    whole = graph.compile(checkpointer=InMemorySaver()) if is_inside else agent

    def fail(number: int) -> None:
        with pytest.raises(RuntimeError):
            whole.invoke(asking(), {"configurable": {"thread_id": str(number)}} if is_inside else None)

    for number in range(3):
        fail(number)
    for _ in range(100):
        # Threads of the run may take a moment to forget it.
        gc.collect()
        agent.invoke(asking("End."))
        if not len(skills.seam._sessions):
            break
    assert len(skills.seam._sessions) == 0


def test_a_call_that_the_provider_makes_leaves_a_record(folder: Path, log: MemoryLog) -> None:
    class Searching(ScriptedChat):
        def _generate(self, *_: Any, **options: Any) -> ChatResult:
            block = {"type": "server_tool_call", "id": "1", "name": "web_search", "args": {"query": "secret"}}
            answer = AIMessage([block, {"type": "text", "text": "Found."}], response_metadata={"output_version": "v1"})
            return ChatResult(generations=[ChatGeneration(message=answer)])

    agent: Any = create_agent(Searching(script=None, named="own"), middleware=[Skills(folder, audit=log)])

    async def main() -> None:
        agent.invoke(asking())
        await agent.ainvoke(asking())

    anyio.run(main)
    assert [(one.tool, one.success) for one in log.records] == [("web_search", True)] * 2
    assert all("secret" in str(one.arguments) for one in log.records)


def test_a_tool_in_the_shape_of_openai_is_decided_about_by_its_own_name(folder: Path) -> None:
    given: Any = {"type": "function", "function": {"name": "web_fetch", "description": "Fetch.", "parameters": {}}}
    script = Script([load("report"), "Done."])
    agent_of(script, Skills(folder), given).invoke(asking())
    assert ["web_fetch" in request.tools for request in script.requests] == [True, False]


def test_a_forked_skill_has_the_context_of_the_run_that_loads_it(folder: Path) -> None:
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append(get_runtime().context)  # type: ignore[arg-type]
        return "seen"

    def step(request: Any) -> Any:
        if request.messages[0][1] == "other":
            return "Done."
        if request.messages[0][1] == "x":
            return "Researched." if request.results else Call("look")
        if request.results:
            return "Done."
        # Another run of the same thread, meanwhile.
        other = threading.Thread(target=lambda: agent.invoke(asking("other"), ONE, context="theirs"))
        other.start()
        other.join()
        return load("research", args="x")

    agent: Any = create_agent(
        ScriptedChat(script=Script(step), named="own"), [look], middleware=[Skills(folder)], context_schema=str
    )
    agent.invoke(asking(), ONE, context="mine")
    assert seen == ["mine"]


def test_a_model_that_the_host_names_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(name: str) -> ScriptedChat:
        return ScriptedChat(script=None, named=name)

    monkeypatch.setattr(langchain_models, "init_chat_model", made)
    switch = langchain_models.LangChainModelSwitch({"big": "some:large"})
    own = made("own")
    assert switch.find("big", own) is switch.find("big", own)
