"""Tools that an agent has from elsewhere are under the rules of the active skills, in every framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from tests.dialect.adapters.stage import Call, Outside, Performer, Script, load, trail

from metier.guard import Guard, MemoryLog, Policy

Perform = Callable[..., Performer]

ASK = Call("list_tickets", {"project": "x"})


def test_a_tool_of_an_mcp_server_is_refused_under_a_skill_that_does_not_allow_it(
    perform: Perform, tickets: Any, log: MemoryLog
) -> None:
    script = Script([load("report"), ASK, Call("skills_unload", {"all": True}), ASK, "Done."])
    agent = perform(script, tickets=tickets)
    assert anyio.run(agent.say, "Look for tickets.").strip() == "Done."
    assert "list_tickets" in script.requests[0].tools
    results = script.requests[-1].results
    assert "Error [tool-not-allowed]" in results[1]
    assert "no tickets in x" in results[3]
    assert tickets.calls == ["x"]
    calls = [(tool, decision, code) for _, tool, _, decision, code, _ in trail(log) if tool == "list_tickets"]
    assert calls == [("list_tickets", "deny", "tool-not-allowed"), ("list_tickets", "allow", "")]


def test_a_function_is_refused_by_policy_without_any_skill(perform: Perform, outside: Outside, log: MemoryLog) -> None:
    script = Script([Call("web_fetch", {"url": "https://example.com"}), "Done."])
    anyio.run(perform(script, policy=Policy(deny="WebFetch")).say, "Fetch it.")
    assert outside.calls == []
    assert "Error [" in script.requests[-1].results[0]
    assert [(one.tool, one.decision) for one in log.records] == [("web_fetch", "deny")]


def test_several_calls_at_once_are_each_decided_about(perform: Perform, outside: Outside, log: MemoryLog) -> None:
    fetches = tuple(Call("web_fetch", {"url": f"https://example.com/{number}"}) for number in range(3))
    script = Script([load("report"), fetches, Call("skills_unload", {"all": True}), fetches, "Done."])
    anyio.run(perform(script).say, "Fetch them.")
    assert sorted(outside.calls) == [f"https://example.com/{number}" for number in range(3)]
    decided = [one.decision for one in log.records if one.tool == "web_fetch"]
    assert decided == ["deny"] * 3 + ["allow"] * 3


def test_somebody_is_asked_about_a_tool_from_elsewhere(perform: Perform, outside: Outside) -> None:
    asked = []

    async def approve(action: Any, decision: Any) -> bool:
        asked.append(dict(action.arguments))
        return "/yes" in action.arguments["url"]

    yes, no = (Call("web_fetch", {"url": f"https://example.com/{word}"}) for word in ("yes", "no"))
    script = Script([no, yes, "Done."])
    anyio.run(perform(script, policy=Policy(ask="WebFetch"), approve=approve).say, "Fetch them.")
    assert asked == [no.arguments, yes.arguments]
    assert outside.calls == ["https://example.com/yes"]
    assert "Error [approval-denied]" in script.requests[-1].results[0]


def test_a_skill_that_is_blocked_in_the_middle_of_a_conversation_is_gone_at_once(
    perform: Perform, log: MemoryLog
) -> None:
    guard = Guard(audit=log)
    steps = iter([load("letters"), Call("skills_read", {"path": "SKILL.md"}), "Done."])

    def step(request: Any) -> Any:
        if len(request.results) == 1:
            guard.block("letters")
        return next(steps)

    script = Script(step)
    anyio.run(perform(script, guard=guard).say, "Write a letter.")
    assert "Dear reader." in script.requests[1].results[0]
    assert "Error [" in script.requests[2].results[1]
    assert 'name="letters"' not in script.requests[2].system
    assert "<name>letters</name>" not in script.requests[2].system


def test_a_skill_is_shown_where_the_agent_has_the_tools_that_it_requires(perform: Perform, folder: Path) -> None:
    for name, tool in (("pages", "WebFetch"), ("chats", "slack"), ("files", "Read"), ("loads", "skills_load")):
        (folder / name).mkdir()
        text = f"---\nname: {name}-helper\ndescription: Helps.\nrequires: {{tools: [{tool}]}}\n---\nHelp.\n"
        (folder / name / "SKILL.md").write_text(text)
    script = Script(["Done."])
    anyio.run(perform(script, builtin=["Read"]).say, "Help me.")
    told = script.requests[0].system
    assert [name for name in ("pages", "chats", "files", "loads") if f"{name}-helper" in told] == [
        "pages",  # `web_fetch`, by another name
        "files",
        "loads",
    ]
