"""What is specific to Microsoft's Agent Framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from agent_framework import Agent, AgentSession, FunctionMiddleware
from tests.dialect.adapters.playing_agent_framework import ScriptedClient
from tests.dialect.adapters.stage import Call, Outside, Script, load

from metier.dialect.agent_framework import Skills
from metier.guard import MemoryLog

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
