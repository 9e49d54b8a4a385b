"""Every conversation has a session of its own, in every framework."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from tests.dialect.adapters.stage import Call, Outside, Performer, Request, Script, Step, load

from metier.guard import MemoryLog

Perform = Callable[..., Performer]

PLAYS: dict[str, list[Step]] = {
    "first": [load("report"), Call("web_fetch", {"url": "https://example.com/first"}), "Done."],
    "second": [load("letters"), Call("web_fetch", {"url": "https://example.com/second"}), "Done."],
}


def test_two_conversations_at_once_do_not_see_each_other(perform: Perform, outside: Outside, log: MemoryLog) -> None:
    def step(request: Request) -> Step:
        return PLAYS[request.messages[0][1]][len(request.results)]

    script = Script(step)
    agent = perform(script)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for name in PLAYS:
                group.start_soon(agent.say, name, name)

    anyio.run(both)
    assert outside.calls == ["https://example.com/second"], "only the first has a skill that forbids it"
    for request in script.requests:
        mine, other = ("report", "letters") if request.messages[0][1] == "first" else ("letters", "report")
        assert f'name="{other}"' not in request.system + request.text
        assert (f'name="{mine}"' in request.system) is bool(request.results)
    loaded = {one.session: one.skill for one in log.records if one.event == "load"}
    assert sorted(loaded.values()) == ["letters", "report"]


def test_what_is_loaded_stays_for_the_next_turn_of_the_same_conversation_only(
    perform: Perform, outside: Outside
) -> None:
    fetch = Call("web_fetch", {"url": "https://example.com"})
    script = Script([load("report"), "Loaded.", fetch, "Refused.", fetch, "Fetched."])
    agent = perform(script)

    async def turns() -> None:
        await agent.say("Load it.", "one")
        await agent.say("Fetch it.", "one")
        assert outside.calls == []
        await agent.say("Fetch it.", "two")

    anyio.run(turns)
    assert outside.calls == ["https://example.com"]
    assert 'name="report"' in script.requests[2].system
    assert 'name="report"' not in script.requests[4].system
    assert "Load it." in script.requests[2].text
    assert "Load it." not in script.requests[4].text
