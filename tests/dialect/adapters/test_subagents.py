"""A skill with `context: fork` runs in an agent of its own, in every framework."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from tests.dialect.adapters.stage import Call, Outside, Performer, Script, load

from metier.guard import MemoryLog

Perform = Callable[..., Performer]


@pytest.mark.covers("O-102")
def test_the_child_sees_only_its_task_and_the_parent_only_its_answer(
    perform: Perform, log: MemoryLog, outside: Outside
) -> None:
    script = Script(
        [
            load("letters"),
            load("research", args="the moon"),
            Call("web_fetch", {"url": "https://example.com/moon"}),
            "It is far away.",
            "Done.",
        ]
    )
    agent = perform(script)
    assert anyio.run(agent.say, "My secret is 4711.").strip() == "Done."
    assert outside.calls == ["https://example.com/moon"], "the child has the tools of its parent"
    for child in script.requests[2:4]:
        assert child.messages[0] == ("user", "the moon")
        assert "4711" not in child.system + child.text
        assert "letters" not in child.text
        assert 'name="letters"' not in child.system
        assert "Research the moon." in child.system
        assert "You are an agent." not in child.system
    parent = script.requests[4]
    answer = parent.results[-1]
    assert "It is far away." in answer
    assert "Research" not in parent.text.replace("Researches.", "")
    assert "example.com/moon" not in parent.text
    assert 'name="letters"' in parent.system, "what the parent has loaded stays"
    assert parent.messages[:-2] == script.requests[1].messages, "history is only added to"
    sessions = {one.session for one in log.records}
    assert len(sessions) == 2


@pytest.mark.covers("O-103")
def test_a_cycle_is_refused_and_named(perform: Perform) -> None:
    script = Script([load("loop-a"), load("loop-b"), load("loop-a"), "B is done.", "A is done.", "Done."])
    assert anyio.run(perform(script).say, "Begin.").strip() == "Done."
    assert "loop-a -> loop-b -> loop-a" in script.requests[3].results[-1]
    assert script.requests[3].results[-1].startswith("Error [")


@pytest.mark.covers("O-103")
def test_more_than_five_agents_inside_one_another_are_refused_with_the_chain(perform: Perform) -> None:
    depths = [load(f"deep-{depth}") for depth in range(1, 7)]
    script = Script([*depths, *["Back."] * 5, "Done."])
    assert anyio.run(perform(script).say, "Begin.").strip() == "Done."
    refused = script.requests[6].results[-1]
    assert "(5) exceeded" in refused
    assert " -> ".join(f"deep-{depth}" for depth in range(1, 7)) in refused


def test_rules_of_the_parent_hold_in_the_child(perform: Perform, outside: Outside) -> None:
    fetch = Call("web_fetch", {"url": "https://example.com"})
    script = Script([load("report"), load("research", args="x", mode="add"), fetch, "Refused.", "Done."])
    anyio.run(perform(script).say, "Begin.")
    assert outside.calls == []
    assert "Error [tool-not-allowed]" in script.requests[3].results[-1]


def test_a_child_that_fails_is_a_failed_call(perform: Perform, performer: type[Performer]) -> None:
    async def fail(*_: object) -> str:
        raise RuntimeError("no model today")

    script = Script([load("research", args="x"), "Done."])
    anyio.run(perform(script, **{performer.spawning: fail}).say, "Begin.")
    assert script.requests[1].results[-1].startswith("Error [")
