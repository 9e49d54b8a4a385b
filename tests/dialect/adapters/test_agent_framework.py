"""What is specific to Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionMiddleware,
    FunctionTool,
    Message,
    ResponseStream,
    function_middleware,
)
from tests.dialect.adapters.playing_agent_framework import ScriptedClient
from tests.dialect.adapters.stage import Call, Outside, Script, load, trail

from metier import Library
from metier.dialect.agent_framework import Skills
from metier.guard import MemoryLog, Policy

FETCH = Call("web_fetch", {"url": "https://example.com"})


def agent_of(folder: Path, script: Script, *tools: Any, **options: Any) -> Any:
    given = {"context_providers": [Skills(folder)]} | options
    return Agent(ScriptedClient(script), tools=list(tools), **given)


def ran(agent: Any, text: str = "Begin.", **options: Any) -> Any:
    return anyio.run(lambda: agent.run(text, **options))


def test_runs_without_a_session_do_not_share_what_they_have_loaded(
    folder: Path, outside: Outside, log: MemoryLog
) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Fetched."])
    agent = agent_of(folder, script, outside.web_fetch, context_providers=[Skills(folder, audit=log)])
    ran(agent)
    ran(agent)
    assert outside.calls == ["https://example.com"]
    assert len({one.session for one in log.records}) == 2


def test_a_session_that_was_stored_meanwhile_goes_on(folder: Path, outside: Outside) -> None:
    script = Script([load("report"), "Loaded.", FETCH, "Refused."])
    agent = agent_of(folder, script, outside.web_fetch)
    session = AgentSession(session_id="one")
    ran(agent, session=session)
    ran(agent, session=AgentSession.from_dict(session.to_dict()))
    assert outside.calls == []


def test_a_tool_of_the_provider_is_left_out_while_a_skill_forbids_it(folder: Path) -> None:
    offered: list[bool] = []

    class Client(ScriptedClient):
        def _inner_get_response(self, *, options: Any, **given: Any) -> Any:
            offered.append({"type": "web_search"} in options["tools"])
            mine = {**options, "tools": [tool for tool in options["tools"] if not isinstance(tool, dict)]}
            return super()._inner_get_response(options=mine, **given)

    script = Script([load("report"), Call("skills_unload", {"all": True}), "Done."])
    agent: Any = Agent(Client(script), tools=[{"type": "web_search"}], context_providers=[Skills(folder)])
    ran(agent)
    assert offered == [True, False, True]


def test_what_else_stands_before_the_tools_stands_before_those_of_a_child_too(folder: Path, outside: Outside) -> None:
    seen: list[str] = []

    class Watching(FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            seen.append(context.function.name)
            await call_next()

    script = Script([load("research", args="x"), FETCH, "Found.", "Done."])
    ran(agent_of(folder, script, outside.web_fetch, middleware=[Watching()]))
    assert seen == ["skills_load", "web_fetch"]


def test_instructions_in_another_form_are_kept(folder: Path) -> None:
    script = Script(["Done."])
    ran(agent_of(folder, script, default_options={"instructions": ["You are an agent."]}))
    assert "You are an agent." in script.requests[0].system
    assert "<name>report</name>" in script.requests[0].system


def test_arguments_that_do_not_fit_are_answered_by_the_skills_own_error(folder: Path) -> None:
    script = Script([Call("skills_load", "{not json"), Call("skills_load", '{"skills": 7}'), "Done."])
    ran(agent_of(folder, script))
    assert all(result.startswith("Error [invalid-arguments]") for result in script.requests[-1].results)


def test_middleware_of_every_form_holds_in_a_forked_skill_too(folder: Path, outside: Outside) -> None:
    @function_middleware
    async def veto(context: Any, call_next: Any) -> None:
        if context.function.name == "web_fetch":
            context.result = "the host forbids it"
            return
        await call_next()

    script = Script([load("research", args="x"), FETCH, "Refused.", "Done."])
    ran(agent_of(folder, script, outside.web_fetch, middleware=[veto]))
    assert outside.calls == []
    assert script.requests[2].results[-1] == "the host forbids it"


def test_a_tool_that_has_the_name_of_one_of_ours_passes_the_gate(
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
        return "Done." if request.results else Call("skills_read", {"path": "x"})

    skills = Skills(library, policy=Policy(deny="skills_read"), audit=log)
    ran(agent_of(tmp_path, Script(step), skills_read, context_providers=[skills]))
    assert read == []
    assert [(tool, decision) for _, tool, _, decision, _, _ in trail(log)] == [("skills_read", "deny")]


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_of_a_tool_that_is_not_there_leaves_a_record(folder: Path, log: MemoryLog, stream: bool) -> None:
    script = Script([Call("nosuch", {}), "Done."])
    agent = agent_of(folder, script, context_providers=[Skills(folder, audit=log)])

    async def main() -> None:
        if stream:
            assert [update async for update in agent.run("Begin.", stream=True)]
        else:
            await agent.run("Begin.")

    anyio.run(main)
    assert [(tool, code) for _, tool, _, _, code, _ in trail(log)] == [("nosuch", "tool-not-found")]


def test_a_tool_that_the_host_runs_after_the_run_is_left_out_while_a_skill_forbids_it(
    folder: Path, log: MemoryLog
) -> None:
    pay = FunctionTool(name="pay", description="Pay.", input_model={"type": "object", "properties": {}}, func=None)
    script = Script([load("report"), Call("skills_unload", {"all": True}), Call("pay")])
    ran(agent_of(folder, script, pay, context_providers=[Skills(folder, audit=log)]))
    assert ["pay" in request.tools for request in script.requests] == [True, False, True]
    assert [(tool, decision) for _, tool, _, decision, _, _ in trail(log)][-1] == ("pay", "allow")


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_provider_did_itself_is_recorded(folder: Path, log: MemoryLog, stream: bool) -> None:
    class Client(ScriptedClient):
        def _inner_get_response(self, *, stream: bool, **given: Any) -> Any:
            search = Content.from_search_tool_call("1", tool_name="web_search", arguments={"query": "skills"})
            if not stream:

                async def whole() -> ChatResponse:
                    return ChatResponse(messages=[Message("assistant", [search])])

                return whole()

            async def parts() -> AsyncIterator[ChatResponseUpdate]:
                yield ChatResponseUpdate(role="assistant", contents=[search])

            return ResponseStream(parts(), finalizer=ChatResponse.from_updates)

    agent = Agent(Client(Script([])), context_providers=[Skills(folder, audit=log)])

    async def main() -> None:
        if not stream:
            await agent.run("Begin.")
            return
        async for _ in agent.run("Begin.", stream=True):
            pass

    anyio.run(main)
    assert [(tool, outcome) for _, tool, _, outcome, _, _ in trail(log)] == [("web_search", "allow")]
